"""Positions are a set of promises, whatever the order in which they come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.journal.positions import Positions
from holdfast.journal.promise import PromiseId

RUN = PromiseId(b"r" * 32)
OTHER = PromiseId(b"o" * 32, (3,))


@given(st.lists(st.integers(0, 40)))
def test_it_holds_what_was_added_in_as_few_intervals_as_there_are(added: list[int]) -> None:
    """It behaves like a set, and there is always a missing position between two intervals."""
    positions = Positions(RUN)
    for position in added:
        positions.add(RUN.child(position))
    expected = set(added)
    assert {position for position in range(45) if RUN.child(position) in positions} == expected
    gaps = sum(1 for position in expected if position - 1 not in expected)
    assert len(positions.intervals()) == gaps
    other = Positions(RUN)
    other.take_in(positions.intervals())
    assert other == positions


def test_what_is_no_child_of_the_run_is_held_by_itself() -> None:
    """The same number below another root is another promise."""
    positions = Positions(RUN)
    positions.add(OTHER)
    positions.add(RUN)
    assert OTHER in positions
    assert RUN in positions
    assert RUN.child(3) not in positions
    assert RUN.child(3).child(0) not in positions
    assert positions.intervals() == []


@pytest.mark.parametrize("intervals", [[(0, 0)], [(2, 1)], [(0, 2), (2, 3)], [(3, 4), (0, 1)], [(-1, 2)]], ids=str)
def test_intervals_that_no_set_gives_are_refused(intervals: list[tuple[int, int]]) -> None:
    """There is one way to write a set."""
    with pytest.raises(ValueError, match="interval"):
        Positions(RUN).take_in(intervals)
