"""Which tests a session runs, and how much its random tests try: the one place that decides.

A test with the mark ``long`` is one of a kind of which another, quicker one stays. ``make test`` leaves it out,
``make test-slice`` runs a seventh of them, a different one each day of the week, and ``make test-long`` runs all
of them and lets random tests try more. A test whose id is given on the command line runs in any case.

Random tests begin at the seed of the day and end when their processor time is used up. ``DAY=2026-03-29`` chooses the
seventh and the seeds of another day, and ``SEED=7`` the seeds alone.
"""

from __future__ import annotations

import datetime
import functools
import inspect
import itertools
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import pytest

VARIABLE: Final = "HOLDFAST_TESTS"
USUAL, SLICE, LONG = SCOPES = ("usual", "slice", "long")
DAYS: Final = 7
SEEDS_OF_A_DAY: Final = 100
"""A day begins so far behind the day before, and tries other seeds."""
MOST_DAYS: Final = 900
"""Then seeds begin anew: high ones mean something else in the simulations."""
LONGER: Final = 20
"""If there is time for all tests, random ones have so many times their processor time."""

SCOPE: Final = os.environ.setdefault(VARIABLE, USUAL)
if SCOPE not in SCOPES:
    raise pytest.UsageError(f"{VARIABLE} is one of {', '.join(SCOPES)}, and not {SCOPE!r}")
DAY: Final = datetime.date.fromisoformat(
    os.environ.setdefault("DAY", datetime.datetime.now(datetime.UTC).date().isoformat())
)
SEED: Final = int(os.environ.setdefault("SEED", str(DAY.toordinal() % MOST_DAYS)))
# They stay in the environment: every process of this session takes them from there, also after midnight.

T = TypeVar("T")


def one_stays(rows: Iterable[Any], stay: int = 1) -> list[Any]:
    """Parameters for a test of which ``make test`` has the first alone, or so many of them."""
    given = list(rows)
    others = (row if type(row) is tuple else (row,) for row in given[stay:])
    return [*given[:stay], *(pytest.param(*row, marks=pytest.mark.long) for row in others)]


def volume(usual: T, long: T) -> T:
    """The size of a test, usually and if there is time for all tests."""
    return long if SCOPE == LONG else usual


def seeds(seconds: float, base: int = 0) -> Iterator[int]:
    """Seeds of the day, from ``base`` on, until so much of this process's time is used up; one at least."""
    end = time.process_time() + volume(seconds, seconds * LONGER)
    for number in itertools.count(base + SEED * SEEDS_OF_A_DAY):
        yield number
        if time.process_time() > end:
            return


def play_seeds(play: Callable[[int], object], seconds: float, base: int = 0) -> None:
    """Play seeds of the day for that long. An error names its seed."""
    for seed in seeds(seconds, base):
        try:
            play(seed)
        except Exception as error:
            error.add_note(f"seed {seed}, the one of {DAY}: SEED={SEED} begins there")
            raise


def unreached(play: Callable[[int], Mapping[str, int]], wanted: Iterable[str], seeds: Iterable[int]) -> list[str]:
    """What none of these seeds reaches; no more of them are played than it takes."""
    left = set(wanted)
    for seed in seeds:
        left -= {what for what, times in play(seed).items() if times}
        if not left:
            break
    return sorted(left)


def each_seed(seconds: float, base: int = 0) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A test with an argument ``seed``, played with seeds of the day for that long. They share its fixtures."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def play_all(**fixtures: Any) -> None:
            play_seeds(lambda seed: test(seed=seed, **fixtures), seconds, base)

        parameters = [each for name, each in signature.parameters.items() if name != "seed"]
        play_all.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return play_all

    return decorate


def describe() -> str:
    """What is run, for the reader of the session's output."""
    parts = {
        USUAL: "all tests but the long ones",
        SLICE: f"part {DAY.toordinal() % DAYS + 1} of {DAYS} of the long tests",
        LONG: "all tests, and random ones try more",
    }
    return f"{parts[SCOPE]}; DAY={DAY} SEED={SEED}"


def is_left_out(item: pytest.Item) -> bool:
    """Whether the session goes without this test, unless it is named on the command line."""
    if SCOPE == LONG:
        return False
    is_long = item.get_closest_marker("long") is not None
    if SCOPE == SLICE:
        return not (is_long and zlib.crc32(item.nodeid.encode()) % DAYS == DAY.toordinal() % DAYS)
    return is_long
