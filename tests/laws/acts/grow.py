"""Programs, moods and schedules from a seed."""

from __future__ import annotations

import random
from typing import Final

import msgspec

from tests.laws.acts.trade import Op
from tests.laws.acts.world import Mood

ORDERS: Final = ("k0", "k1", "k2")
CALLS: Final = ("pay", "pay", "pay", "pay", "hire", "hire", "buy")
TENANTS: Final = ("default", "other")
ENDS: Final = (("word",), ("word",), ("word", "keep", "word"), ("keep", "fail"), ("fail",), (), ("sleep", "fail"))


class Weather(msgspec.Struct, frozen=True):
    """What happens around the runs, and how often: weights of what the schedule draws, and how likely an engine dies
    around one of its commits. The programs have these ``orders`` and ``calls``."""

    events: int
    wait: float
    deaths: float
    is_governed: bool  # people approve every act
    orders: tuple[str, ...]
    calls: tuple[str, ...]
    weights: dict[str, int]


def mood(source: random.Random) -> Mood:
    """How the world is: in half of the seeds nothing fails."""
    if source.random() < 0.5:
        return Mood(seconds=source.choice(((0.0, 0.2, 1.0), (0.0, 0.0, 0.2, 1.0, 4.0), (0.5, 6.0))))
    chances = [source.choice((0.0, 0.0, 0.1, 0.3)) for _ in range(4)]
    return Mood(*chances, seconds=source.choice(((0.0, 0.2, 1.0), (0.0, 0.0, 0.2, 1.0, 4.0))))


def weather(source: random.Random) -> Weather:
    """What the schedule draws from. Retries are to come."""
    weights = {
        "start": 6,
        "word": 6,
        "cancel": source.choice((0, 1, 2, 4)),
        "kill": source.choice((0, 0, 1, 2)),
        "fork": source.choice((0, 0, 1, 2)),
        "reverse": source.choice((0, 1, 2, 4)),
        "answer": 3,
    }
    return Weather(
        events=source.randrange(8, 40),
        wait=source.choice((0.3, 1.0, 3.0)),
        deaths=source.choice((0.0, 0.5, 0.9)),
        is_governed=source.random() < 0.2,
        orders=source.choice((ORDERS[:1], ORDERS[:2], ORDERS)),
        calls=source.choice((CALLS, CALLS, (*CALLS, "tip", "tip", "tip"))),
        weights=weights,
    )


def program(source: random.Random, weather: Weather) -> tuple[Op, ...]:
    """A program: some statements, and an end."""
    ops = [statement(source, weather, 2) for _ in range(source.randrange(1, 4))]
    ops += [_end(source, do) for do in source.choice(ENDS)]
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
        parts += [_end(source, each) for each in source.choice(ENDS)]
    return Op(do, seconds=source.choice((0.1, 0.5, 1.0, 3.0)) if do == "limit" else 0.0, parts=tuple(parts))


def _end(source: random.Random, do: str) -> Op:
    return Op(do, seconds=source.choice((0.5, 2.0))) if do == "sleep" else Op(do)
