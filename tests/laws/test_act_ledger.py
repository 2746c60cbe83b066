"""One act has one receipt, which owns its undoing: random programs, judged by a ledger outside the engine.

At rest every act was done at most once, and taken back at most once. If a completed run relies on it, or one that has
declared it done, no undo has taken it back; if none does, it was taken back, or its run says why not. A seed that fails
is told as a story; ``make acts SEED=1 COUNT=1000`` plays more.
"""

from __future__ import annotations

import logging
from typing import Final

import pytest

from tests.laws.acts.grow import RETRIED
from tests.laws.acts.runner import play
from tests.scope import play_seeds, unreached

COVERING: Final = (7, 10, 11, 10_001, 10_003, 10_005, 10_020)
FINDING: Final = (1100, 5654, 2, 3, 4, 6, 8, 11, 18, 32, 34, 36, 43, 52, 10_344)
REACHED: Final = (
    "an engine was killed after a commit",
    "an engine was killed at some time",
    "an engine was killed before a commit",
    "answered",
    "approved",
    "cancelled",
    "done, not relied on",
    "done, relied on",
    "forked",
    "rejected",
    "reversed",
    "retried, again",
    "retried, keep",
    "retried, new",
    "retried, plain",
    "answered since it was retried",
    "reversed, relied on",
    "round 2",
    "round 3",
    "undone, not relied on",
)
"""What the programs and schedules must reach: a law that is never tried proves nothing."""


@pytest.fixture(autouse=True)
def silence(caplog: pytest.LogCaptureFixture) -> None:
    """Workers log that they die, and here they die often."""
    caplog.set_level(logging.CRITICAL)


def test_every_act_is_done_once_and_taken_back_once() -> None:
    """Each seed is programs, a world and a schedule."""
    play_seeds(play, 1.5)
    play_seeds(play, 1.5, RETRIED)


@pytest.mark.parametrize("seed", FINDING)
def test_a_seed_that_found_a_fault_finds_none(seed: int) -> None:
    """A fault of the engine, or a break on purpose: see ``tests/mutants``."""
    play(seed)


def test_the_seeds_reach_every_situation() -> None:
    """Every end of an act that the laws speak of, and every fault."""
    assert unreached(play, REACHED, (*COVERING, *range(1, 100), *range(RETRIED, RETRIED + 100))) == []
