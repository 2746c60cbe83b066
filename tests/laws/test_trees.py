"""Trees of runs: random parents and children, judged by a world outside the engine and by what people are advised.

A run that fails or is cancelled begins to undo after its last child has ended, unless it was let go; each run undoes
its own, newest first, once, and what a completed run relies on stays; one that returns cancels its open children and
does not wait. A run that is held names the child that holds it and what moves that, and doing what is advised moves
everything to its end, without loss. A seed that fails is told as a story; ``make trees SEED=1 COUNT=1000`` plays more.
"""

from __future__ import annotations

import logging
from typing import Final

import pytest

from tests.laws.trees.runner import play
from tests.scope import play_seeds, unreached

ADVISED: Final = [
    "answer_outcome",
    "approve",
    "leave_children",
    "mend_code",
    "send_signal",
    "serve_queue",
    "serve_step",
    "start_worker",
]
COVERING: Final = (16, 24, 25, 43, 54, 56)
REACHED: Final = (
    *(f"advice: {code}" for code in ADVISED),
    *(f"level {level} is {end}" for level in range(3) for end in ("completed", "failed", "cancelled")),
    *(f"level {level} is cancelled without its children" for level in range(3)),
    "a child ended before its parent's undoing",
    "a child is cancelled after its parent has returned",
    "a child was left",
    "a run is held by its children",
    "an engine was killed after a commit",
    "an engine was killed at some time",
    "an engine was killed before a commit",
    "given up, undone",
    "kept, not undone",
    "people say what became of an act",
    "two acts were undone in order",
)
"""What the programs and schedules must reach: a law that is never tried proves nothing."""


@pytest.fixture(autouse=True)
def silence(caplog: pytest.LogCaptureFixture) -> None:
    """Workers log that they die, and here they die often."""
    caplog.set_level(logging.CRITICAL)


def test_advice_moves_every_tree_to_its_end() -> None:
    """Each seed is programs, a world, a schedule, and people who then do nothing but what they are advised to."""
    play_seeds(play, 1.0)


def test_the_seeds_reach_every_situation() -> None:
    """Every advice, every end of a run at every level, and every fault."""
    assert unreached(play, REACHED, (*COVERING, *range(1, 200))) == []
