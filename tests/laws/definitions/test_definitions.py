"""The laws of definitions, over random ones. ``make definitions SEED=…`` plays one again and shows a smaller one."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any, Final

import pytest

from tests.laws.definitions.grow import RICH, case
from tests.laws.definitions.judge import judge, judge_whole
from tests.laws.definitions.moves import MovingWorld
from tests.laws.definitions.reference import VERBS
from tests.scope import play_seeds, volume

PLAYED: Final = 30
"""So many seeds of each kind have every verb."""
ENDS: Final = (0, 1, 3, 7)
"""Seeds that end in every way there is."""
KNOWN: Final = {
    "an undo of a loser fails while an outer race is won": 2960,
    "a run is cancelled while the losers of a race end": 2025,
    "a node with a time limit is lost while it closes": 1_002_676,
    "an option is lost whose trigger is over and whose handler is not": 1_004_768,
    "what a handler did is undone with its node": 1_004_345,
    "a call rests between two attempts when its time is over": 524,
}
"""Seeds that have broken a law once."""


@pytest.mark.parametrize("base", [0, RICH], ids=["plain", "rich"])
def test_the_interpreter_does_what_the_plain_reference_does(base: int) -> None:
    """D1 to D4, each seed a definition and what happens to its run."""
    play_seeds(_judged, 0.5, base)


def test_whole_engines_do_what_the_plain_reference_does() -> None:
    """D5 and D6: workers die around every commit, and checkpoints are lost."""
    logging.disable(logging.CRITICAL)  # parked runs and dead workers are meant to be
    try:
        play_seeds(lambda seed: _judged(seed, whole=True), 1.0)
    finally:
        logging.disable(logging.NOTSET)


@pytest.mark.parametrize("what", KNOWN)
def test_what_was_broken_once_holds(what: str) -> None:
    _judged(KNOWN[what])


def _judged(seed: int, *, whole: bool = False) -> None:
    try:
        judge_whole(case(seed)) if whole else judge(case(seed))
    except Exception as error:
        error.add_note(f"seed {seed}: make definitions SEED={seed}")
        raise


REPEATED: Final = range(volume(5, 20))


def test_a_run_that_moves_to_the_same_definition_does_the_same() -> None:
    """D5, with D1 to D4: at any turn, to any node's successor, however often."""
    moved = []

    def judge_moving(seed: int) -> None:
        world = MovingWorld(case(seed))
        judge(case(seed), world)
        moved.append(world.moves)

    play_seeds(judge_moving, 1.0)
    assert sum(moved) > len(moved) // 2


def test_the_cases_reach_every_verb_and_every_end() -> None:
    """A law that is never put to the test proves nothing."""
    words: Counter[str] = Counter()
    for seed in (*range(PLAYED), *range(RICH, RICH + PLAYED)):
        found = case(seed)
        for document in (found.document, *found.children.values()):
            _count(document["steps"], words)
    wanted = {*VERBS, "step", "action", "success", "failure", "timeout", "undo", "retry", "at_once", "key", "match"}
    assert sorted(wanted - words.keys()) == []
    assert {judge(case(seed)).how for seed in ENDS} == {"completed", "failed", "cancelled", "parked"}


def _count(part: Any, words: Counter[str]) -> None:
    if isinstance(part, dict):
        words.update(part.keys())
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _count(each, words)


def test_a_seed_is_one_case() -> None:
    assert [case(seed) for seed in REPEATED] == [case(seed) for seed in REPEATED]
