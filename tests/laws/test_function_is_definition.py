"""A workflow function and a definition that say the same do the same to the world outside.

Each seed is programs, written both ways, and what happens to their runs on engines that die. Whenever all rests, the
runs have ended alike, they rely on the same acts, and of each business key as many acts stand. Nothing was done twice
under one key and left so, and nothing was taken back that was not there. ``make twins SEED=1 COUNT=1000`` plays more.
"""

from __future__ import annotations

import logging
from typing import Final

import pytest

from tests.laws.twins.runner import play
from tests.scope import play_seeds, unreached

COVERING: Final = range(1, 13)
KNOWN: Final = {
    "a definition is retried that failed of two branches, one after the other": 98,
    "a definition that goes on after it has undone a branch is retried": 219,
}
"""Seeds that have broken the law once."""
REACHED: Final = (
    "an engine was killed after a commit",
    "an engine was killed before a commit",
    "answered",
    "cancelled",
    "completed",
    "failed",
    "retried",
    "reversed",
)
"""What the programs and schedules must reach: a law that is never tried proves nothing."""


@pytest.fixture(autouse=True)
def silence(caplog: pytest.LogCaptureFixture) -> None:
    """Workers log that they die, and here they die often."""
    caplog.set_level(logging.CRITICAL)


def test_a_function_and_a_definition_leave_the_same_acts_behind() -> None:
    """Each seed is programs, a world and a schedule."""
    play_seeds(play, 3.0)


@pytest.mark.parametrize("what", KNOWN)
def test_what_was_broken_once_holds(what: str) -> None:
    play(KNOWN[what])


def test_the_seeds_reach_every_situation() -> None:
    """Every end of a run, every fault, and all that people do."""
    assert unreached(play, REACHED, (*COVERING, *range(20, 120))) == []
