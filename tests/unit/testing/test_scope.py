"""What a session leaves out: each long test has its day of the week, and random tests end and name their seed."""

from __future__ import annotations

import datetime
import itertools
import time
from types import SimpleNamespace
from typing import Any

import pytest

from tests import scope

NAMES = [f"tests/unit/test_{number}.py::test_it" for number in range(200)]


def _item(name: str, *, is_long: bool) -> Any:
    mark = pytest.mark.long.mark if is_long else None
    return SimpleNamespace(nodeid=name, get_closest_marker=lambda _: mark)


def _left_out(which: str, name: str, *, is_long: bool, day: int = 0) -> bool:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scope, "SCOPE", which)
        patched.setattr(scope, "DAY", datetime.date(2026, 3, 28) + datetime.timedelta(days=day))
        return scope.is_left_out(_item(name, is_long=is_long))


def test_long_tests_are_left_out_and_all_others_stay() -> None:
    assert [_left_out(scope.USUAL, NAMES[0], is_long=is_long) for is_long in (True, False)] == [True, False]
    assert [_left_out(scope.LONG, NAMES[0], is_long=is_long) for is_long in (True, False)] == [False, False]
    assert _left_out(scope.SLICE, NAMES[0], is_long=False)


def test_each_long_test_is_in_the_slice_of_one_day_of_a_week() -> None:
    """So none is forgotten, and no day has much more to do than another."""
    days = [[not _left_out(scope.SLICE, name, is_long=True, day=day) for name in NAMES] for day in range(8)]
    assert [sum(day) for day in zip(*days[:7], strict=True)] == [1] * len(NAMES)
    assert days[7] == days[0]
    assert min(map(sum, days)) > len(NAMES) // 14


def test_one_parameter_stays() -> None:
    rows = scope.one_stays([("a", 1), ("b", 2), "c"])
    assert rows == [("a", 1), pytest.param("b", 2, marks=pytest.mark.long), pytest.param("c", marks=pytest.mark.long)]


def test_seeds_end_when_their_processor_time_is_used_up() -> None:
    """One is always played. The next day begins with seeds that this one does not reach."""
    assert len(list(scope.seeds(0.0))) == 1
    began = time.process_time()
    first, second = itertools.islice(scope.seeds(0.05, base=5_000_000), 2)
    assert (first, second) == (5_000_000 + scope.SEED * scope.SEEDS_OF_A_DAY, first + 1)
    for _ in scope.seeds(0.05):
        pass
    assert 0.05 <= time.process_time() - began < 5


def test_a_seed_that_fails_is_named_with_what_plays_it_again() -> None:
    @scope.each_seed(1.0)
    def check(seed: int, fixture: str) -> None:
        raise ValueError(f"{fixture} {seed}")

    with pytest.raises(ValueError, match=r"f \d+") as caught:
        check(fixture="f")
    assert caught.value.__notes__ == [
        f"seed {scope.SEED * scope.SEEDS_OF_A_DAY}, the one of {scope.DAY}: SEED={scope.SEED} begins there"
    ]
