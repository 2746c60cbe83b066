"""Programs, moods and schedules from a seed."""

from __future__ import annotations

import random
from typing import Final

import msgspec

from tests.laws.acts.trade import Op
from tests.laws.acts.world import ORDERS, Mood

CALLS: Final = ("pay", "pay", "pay", "pay", "hire", "hire", "buy")
RETRIED: Final = 10_000
"""From this seed on runs are retried."""
TENANTS: Final = ("default", "other")
ENDS: Final = (("word",), ("word",), ("word", "keep", "word"), ("keep", "fail"), ("fail",), (), ("sleep", "fail"))
UNSURE: Final = (("doubt",), ("doubt",), ("doubt", "word"), ("keep", "doubt"), ("sleep", "doubt"), ("word", "fail"), ())
"""Ends of programs in worlds with retries: a doubt may be gone by then."""


class Weather(msgspec.Struct, frozen=True):
    """What happens around the runs, and how often: weights of what the schedule draws, and how likely an engine dies
    around one of its commits. The programs have these ``orders``, ``calls`` and ``ends``. Failed runs are retried so
    many ``rounds`` more after the schedule."""

    events: int
    wait: float
    deaths: float
    is_governed: bool  # people approve every act
    orders: tuple[str, ...]
    calls: tuple[str, ...]
    ends: tuple[tuple[str, ...], ...]
    rounds: int
    weights: dict[str, int]


def mood(source: random.Random) -> Mood:
    """How the world is: in half of the seeds nothing fails."""
    if source.random() < 0.5:
        return Mood(seconds=source.choice(((0.0, 0.2, 1.0), (0.0, 0.0, 0.2, 1.0, 4.0), (0.5, 6.0))))
    chances = [source.choice((0.0, 0.0, 0.1, 0.3)) for _ in range(4)]
    return Mood(*chances, seconds=source.choice(((0.0, 0.2, 1.0), (0.0, 0.0, 0.2, 1.0, 4.0))))


class Retries(msgspec.Struct, frozen=True):
    """How often runs are retried while the schedule lasts, and in how many rounds after it."""

    often: int
    rounds: int


def retries_of(seed: int) -> Retries:
    """Earlier seeds are as they were before there were retries, so that a known one stays what it is."""
    source = random.Random(f"retries {seed}")
    often = source.choice((0, 2, 4, 8)) if seed >= RETRIED else 0
    return Retries(often, source.choice((0, 1, 3)) if often else 0)


def weather(source: random.Random, retries: Retries) -> Weather:
    """What the schedule draws from."""
    weights = {
        "start": 6,
        "word": 6,
        "cancel": source.choice((0, 1, 2, 4)),
        "kill": source.choice((0, 0, 1, 2)),
        "fork": source.choice((0, 0, 1, 2)),
        "reverse": source.choice((0, 1, 2, 4)),
        "answer": 3,
    }
    is_retried = bool(retries.often)
    weights["retry"] = retries.often
    return Weather(
        events=source.randrange(8, 40),
        wait=source.choice((0.3, 1.0, 3.0)),
        deaths=source.choice((0.0, 0.5, 0.9)),
        is_governed=source.random() < 0.2,
        orders=source.choice((ORDERS[:1], ORDERS[:2], ORDERS)) + (("?",) if is_retried else ()),
        calls=source.choice((CALLS, CALLS, (*CALLS, "tip", "tip", "tip"))),
        ends=UNSURE if is_retried else ENDS,
        rounds=retries.rounds,
        weights=weights,
    )


def program(source: random.Random, weather: Weather) -> tuple[Op, ...]:
    """A program: some statements, and an end."""
    ops = [statement(source, weather, 2) for _ in range(source.randrange(1, 4))]
    ops += [_end(source, do) for do in source.choice(weather.ends)]
    if source.random() < 0.2:
        ops.insert(source.randrange(len(ops)), Op("again"))
    return tuple(ops)


def statement(source: random.Random, weather: Weather, depth: int) -> Op:
    """One statement."""
    inner = ("gather", "limit", "limit", "try", "child") if depth else ()
    do = source.choice((*weather.calls, "sleep", *inner))
    if do in weather.calls:
        return Op(do, source.choice(weather.orders))
    if do == "sleep":
        return _end(source, do)
    parts = [statement(source, weather, depth - 1) for _ in range(source.randrange(1, 4))]
    if do == "child" and source.random() < 0.7:
        parts += [_end(source, each) for each in source.choice(weather.ends)]
    return Op(do, seconds=source.choice((0.1, 0.5, 1.0, 3.0)) if do == "limit" else 0.0, parts=tuple(parts))


def _end(source: random.Random, do: str) -> Op:
    return Op(do, seconds=source.choice((0.5, 2.0))) if do == "sleep" else Op(do)
