"""Commands that messages suggest: they work as they stand."""

from __future__ import annotations

import shlex

import pytest

from holdfast.runs.hints import command


def test_the_default_tenant_goes_without_saying() -> None:
    """Most have one tenant only."""
    assert command("resume", "o-1", tenant="default") == "holdfast resume o-1"


@pytest.mark.parametrize("tenant", ["acme", "acme north", "$HOME"])
@pytest.mark.parametrize("run", ["o-1", "o 1", "o;rm -rf"])
def test_another_tenant_is_named_and_odd_names_are_quoted(run: str, tenant: str) -> None:
    """A shell splits it into the words that were meant."""
    assert shlex.split(command("resume", run, tenant=tenant)) == ["holdfast", "resume", run, "--tenant", tenant]
