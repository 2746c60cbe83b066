"""The laws of replay, over random programs: a failing example prints its seed and size, which reproduce it."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.journal import events as e
from tests.laws.driver import TURNS, Driver, finished
from tests.laws.programs import Gather, Join, Node, Perform, Race, Timeout, play, tree
from tests.runs import Run, cancel, check_replay, signal
from tests.scope import volume

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 14)

lawful = settings(deadline=None, print_blob=True)


@settings(lawful, max_examples=volume(150, 300))
@given(seeds, sizes)
def test_replaying_a_journal_is_a_fixed_point(seed: int, size: int) -> None:
    """After every turn: rebuilt from its journal, the run adds nothing and stands where it stood."""
    driver = Driver(Run(play, tree(seed, size), seed=seed), random.Random(seed))
    while not driver.run.ended:
        driver.turn()
        check_replay(driver.run)


@settings(lawful, max_examples=volume(100, 200))
@given(seeds, sizes, st.lists(st.floats(0, 1), min_size=1, max_size=4))
def test_every_prefix_of_a_journal_is_a_journal(seed: int, size: int, cuts: list[float]) -> None:
    """Cut anywhere, in the middle of a turn too: the rebuilt run goes on to its end, and that journal replays."""
    run = finished(tree(seed, size), seed)
    for cut in cuts:
        length = 1 + round(cut * (len(run.journal) - 1))
        other = Driver(run.rebuilt(run.journal[:length]), random.Random(seed + length)).finish()
        assert other.journal[:length] == run.journal[:length]
        check_replay(other)


@settings(lawful, max_examples=volume(100, 200))
@given(seeds, sizes, seeds, seeds)
def test_any_order_of_settlement_ends_and_replays_to_the_same_result(seed: int, size: int, one: int, two: int) -> None:
    """Whatever is settled first, the run ends; rebuilt midway by another worker each turn, it ends alike."""
    program = tree(seed, size)
    first = Driver(Run(play, program), random.Random(one)).finish()
    check_replay(first)
    moved = Driver(Run(play, program), random.Random(two))
    for _ in range(TURNS):
        if moved.run.ended:
            break
        moved.turn()
        moved.run = moved.run.rebuilt()
    assert moved.run.ended
    check_replay(moved.run)


@settings(lawful, max_examples=volume(100, 200))
@given(seeds, sizes, st.integers(0, 12))
def test_a_run_cancelled_at_any_turn_ends_and_replays(seed: int, size: int, turns: int) -> None:
    """Cancellation reaches a program anywhere; its cleanup runs, and nothing hangs."""
    driver = Driver(Run(play, tree(seed, size), seed=seed), random.Random(seed))
    for _ in range(turns):
        driver.turn()
    driver.run.advance(cancel())
    check_replay(driver.run)
    driver.finish()
    check_replay(driver.run)


@settings(lawful, max_examples=volume(60, 120))
@given(seeds, sizes, st.integers(0, 12))
def test_a_pause_at_any_turn_loses_nothing(seed: int, size: int, turns: int) -> None:
    """What arrives while the run is paused is recorded, replays, and is there when it goes on."""
    driver = Driver(Run(play, tree(seed, size), seed=seed), random.Random(seed))
    for _ in range(turns):
        driver.turn()
    driver.run.advance(signal("left", 1), signal("right", 2), resume=False)
    check_replay(driver.run)
    driver.finish()
    check_replay(driver.run)


@settings(lawful, max_examples=volume(60, 120))
@given(seeds, sizes, st.integers(0, 12), st.booleans())
def test_a_run_cancelled_while_paused_ends_and_replays(seed: int, size: int, turns: int, rebuild: bool) -> None:
    """What arrives between the request and the resumption is recorded and delivered in its order."""
    driver = Driver(Run(play, tree(seed, size), seed=seed), random.Random(seed))
    for _ in range(turns):
        driver.turn()
    driver.run.advance(cancel(), resume=False)
    driver.run.advance(signal("left", 1), signal("right", 2), resume=False)
    check_replay(driver.run)
    if rebuild:
        driver.run = driver.run.rebuilt()
    driver.finish()
    check_replay(driver.run)


FRONTIERS: list[Node] = [
    Gather((Perform("a", 0), Perform("b", 0), Perform("c", 0)), False),
    Join((Perform("a", 0), Perform("b", 0), Perform("c", 0)), False),
    Join((Perform("a", 0), Perform("b", 0), Perform("c", 0)), True),
    Race((Perform("a", 0), Perform("b", 0), Perform("c", 0))),
    Timeout(1.0, Gather((Perform("a", 0), Perform("b", 0), Perform("c", 0)), True)),
]


def groupings(order: tuple[int, ...]) -> list[list[tuple[int, ...]]]:
    """Every way to cut an order into turns."""
    found = []
    for cuts in itertools.product((False, True), repeat=len(order) - 1):
        turns: list[tuple[int, ...]] = [(order[0],)]
        for position, cut in zip(order[1:], cuts, strict=True):
            if cut:
                turns.append((position,))
            else:
                turns[-1] = (*turns[-1], position)
        found.append(turns)
    return found


@pytest.mark.parametrize("node", FRONTIERS, ids=lambda node: type(node).__name__)
def test_every_subset_of_the_frontier_in_every_order(node: Node) -> None:
    """All orders and all groupings into turns of three outstanding steps, exhaustively."""
    first = Run(play, node)
    first.advance()
    positions = sorted(promise.path[-1] for promise in first.invokes)
    for order in itertools.permutations(positions):
        for turns in groupings(order):
            run = Run(play, node)
            run.advance()
            for turn in turns:
                run.advance(*[run.ok(position, str(position)) for position in turn])
                check_replay(run)
            assert isinstance(run.events[-1], e.ExecutionCompleted)
