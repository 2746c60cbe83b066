"""A law was broken."""

from __future__ import annotations


class Violation(AssertionError):
    """A law was broken."""
