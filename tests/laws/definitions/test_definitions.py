"""The laws of definitions, over random ones. ``make definitions SEED=…`` plays one again and shows a smaller one."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws.definitions.grow import RICH, case
from tests.laws.definitions.judge import judge, judge_whole
from tests.laws.definitions.moves import MovingWorld
from tests.laws.definitions.reference import VERBS
from tests.volume import volume

SEEDS: Final = volume(60, 210)
CHUNK: Final = 15
WHOLE_SEEDS: Final = volume(6, 25)
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


@pytest.mark.parametrize("first", [*range(0, SEEDS // 2, CHUNK), *range(RICH, RICH + SEEDS // 2, CHUNK)])
def test_the_interpreter_does_what_the_plain_reference_does(first: int) -> None:
    """D1 to D4, each seed a definition and what happens to its run."""
    for seed in range(first, first + CHUNK):
        _judged(seed)


@settings(max_examples=WHOLE_SEEDS, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_whole_engines_do_what_the_plain_reference_does(seed: int) -> None:
    """D5 and D6: workers die around every commit, and checkpoints are lost."""
    logging.disable(logging.CRITICAL)  # parked runs and dead workers are meant to be
    try:
        _judged(seed, whole=True)
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


MOVED: Final = volume(15, 60)
REPEATED: Final = range(volume(5, 20))


@pytest.mark.parametrize("first", range(0, MOVED, CHUNK))
def test_a_run_that_moves_to_the_same_definition_does_the_same(first: int) -> None:
    """D5, with D1 to D4: at any turn, to any node's successor, however often."""
    moves = 0
    for seed in range(first, first + CHUNK):
        try:
            world = MovingWorld(case(seed))
            judge(case(seed), world)
        except Exception as error:
            error.add_note(f"seed {seed}, with moves")
            raise
        moves += world.moves
    assert moves > CHUNK // 2


def test_the_cases_reach_every_verb_and_every_end() -> None:
    """A law that is never put to the test proves nothing."""
    words: Counter[str] = Counter()
    for seed in (*range(SEEDS // 2), *range(RICH, RICH + SEEDS // 2)):
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
