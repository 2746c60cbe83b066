"""Servers that the acceptance tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.testing.postgres import PostgresServer, server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server that nobody stops."""
    with server(fast=True) as running:
        yield running


@pytest.fixture(scope="session")
def own_postgres() -> Iterator[PostgresServer]:
    """A server that a test may stop and start."""
    with server(own=True, fast=True) as running:
        yield running
