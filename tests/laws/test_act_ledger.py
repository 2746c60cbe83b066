"""One act has one receipt, which owns its undoing: random programs, judged by a ledger outside the engine.

At rest every act was done at most once, and taken back at most once. If a completed run relies on it, or one that has
declared it done, no undo has taken it back; if none does, it was taken back, or its run says why not. A seed that fails
is told as a story; ``make acts SEED=1 COUNT=1000`` plays more.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

import pytest

from tests.laws.acts.runner import play
from tests.scope import play_seeds

COVERING: Final = (7, 10, 11, 19, 36)
FINDING: Final = (1100, 5654, 2, 3, 4, 6, 8, 11, 18, 32, 34, 36, 43, 52)
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


@pytest.mark.parametrize("seed", FINDING)
def test_a_seed_that_found_a_fault_finds_none(seed: int) -> None:
    """A fault of the engine, or a break on purpose: see ``tests/mutants``."""
    play(seed)


def test_the_seeds_reach_every_situation() -> None:
    """Every end of an act that the laws speak of, and every fault."""
    reached: Counter[str] = Counter()
    for seed in COVERING:
        reached += play(seed)
    assert [what for what in REACHED if not reached[what]] == []
