"""Programs from a seed, and what happens to their runs."""

from __future__ import annotations

import random
from typing import Final

import msgspec

SHARED: Final = ("k0", "k1")
LONG: Final = 40.0
"""How long an act takes that a time-out or a lost race gives up."""
KINDS: Final = ("pay", "pay", "hire", "buy", "tip")


class Op(msgspec.Struct, frozen=True, omit_defaults=True):
    """One statement. ``at`` is its place, ``seconds`` how long it takes, or a time-out."""

    do: str
    at: str
    order: str = ""
    seconds: float = 0.0
    parts: tuple[Op, ...] = ()


class Play(msgspec.Struct, frozen=True):
    """A program and its run: when it starts, the words that it hears, and the mark at which it is cancelled."""

    id: str
    ops: tuple[Op, ...]
    begins: float
    words: tuple[str, ...]
    cancelled_at: str = ""


class Case(msgspec.Struct, frozen=True):
    """All that a seed decides. ``deaths`` are numbers of commits around which engines die, ``reversed`` orders whose
    acts a person takes back when all rests; with ``retries`` failed runs are retried then."""

    seed: int
    plays: tuple[Play, ...]
    chances: dict[str, float]
    deaths: tuple[tuple[int, bool], ...]
    reversed: tuple[str, ...]
    retries: bool


def case(seed: int) -> Case:
    source = random.Random(f"twins {seed}")
    # A time-out would see a kill, a question to people, or another run that has the key: these take another time.
    is_timed = source.random() < 0.4
    count = 1 if is_timed else source.choice((1, 1, 2, 3))
    plays = []
    for number in range(count):
        grower = _Grower(source, f"r{number}", is_timed=is_timed, is_cancelled=source.random() < 0.3)
        plays.append(grower.play(f"run-{number}"))
    chances = {
        "is_doubtful": source.choice((0.0, 0.4, 0.8)),
        "fails": source.choice((0.0, 0.0, 0.3)),
        "unknown": 0.0 if is_timed else source.choice((0.0, 0.3)),
        "undo_fails": source.choice((0.0, 0.0, 0.3)),
    }
    if is_timed or any(_catches(play.ops) for play in plays):
        chances["undo_fails"] = 0.0
    deaths = () if is_timed else source.choice(((), _deaths(source), _deaths(source)))
    reversed = tuple(order for order in SHARED if source.random() < 0.3)
    return Case(seed, tuple(plays), chances, deaths, reversed, source.random() < 0.5)


def _catches(ops: tuple[Op, ...], *, is_caught: bool = False) -> bool:
    """Whether branches may fail and that is caught."""
    return any(
        (op.do == "gather" and is_caught) or _catches(op.parts, is_caught=is_caught or op.do == "try") for op in ops
    )


def _deaths(source: random.Random) -> tuple[tuple[int, bool], ...]:
    return tuple((source.randrange(2, 30), source.random() < 0.5) for _ in range(source.randrange(1, 4)))


class _Grower:
    """Grows one program. The places of its statements are its own, and so are the orders that may fail."""

    def __init__(self, source: random.Random, name: str, *, is_timed: bool, is_cancelled: bool) -> None:
        self._source = source
        self._name = name
        self._is_timed = is_timed
        self._is_cancelled = is_cancelled
        self._number = 0
        self._is_child = False
        self._marks: list[str] = []

    def play(self, id: str) -> Play:
        source = self._source
        ops = [self._statement(2, is_alone=True) for _ in range(source.randrange(1, 5))]
        ops += [self._op(do) for do in source.choice((("doubt",), ("word",), ("doubt", "word"), ("fail",), ()))]
        words = tuple("good" if self._is_cancelled else source.choice(("good", "good", "bad")) for _ in range(12))
        cancelled = source.choice(self._marks) if self._marks and self._is_cancelled else ""
        return Play(id, tuple(ops), source.choice((0.0, 0.0, 3.0, 12.0)), words, cancelled)

    def _op(self, do: str, *parts: Op, order: str = "", seconds: float = 0.0) -> Op:
        """A statement. Each takes a time of its own: what happens in one moment has no order."""
        self._number += 1
        do = "sleep" if do in ("doubt", "fail") and self._is_cancelled else do
        took = round(seconds + (self._number + int(self._name[1:]) * 0.3) / 100, 3)
        return Op(do, f"{self._name}.{self._number}", order, took, parts)

    def _act(self, seconds: float | None = None) -> Op:
        source = self._source
        own = f"{'sure' if self._is_cancelled else 'own'}-{self._name}-{self._number}"
        order = source.choice(SHARED) if source.random() < 0.5 else own
        took = source.choice((0.0, 1.5, 4.0)) if seconds is None else seconds
        return self._op(source.choice(KINDS), order=order, seconds=took)

    def _statement(self, depth: int, *, is_alone: bool) -> Op:
        """``is_alone`` where nothing is beside it."""
        source = self._source
        inner = ["gather", "gather", "try", "child", "marked"] if depth else []
        timed = ["limit", "race"] * 2 if depth and self._is_timed and is_alone else []
        heard = ("word",) if is_alone and not self._is_child else ()  # words are sent to the run itself
        do = source.choice(("act", "act", "act", "sleep", *heard, *inner, *timed))
        match do:
            case "act":
                return self._act()
            case "sleep":
                return self._op(do, seconds=source.choice((0.5, 2.0)))
            case "marked":
                return self._marked()
            case "gather":
                return self._op(do, *[self._line(depth - 1) for _ in range(source.randrange(2, 4))])
            case "limit":
                return self._op(do, self._act(source.choice((2.0, LONG))), seconds=9.0)
            case "race":
                first = source.randrange(2)
                return self._op(do, *[self._act(2.0 if number == first else LONG) for number in range(2)])
            case "try":
                return self._op(do, *self._caught(depth - 1, is_alone=is_alone))
            case "child":
                was_child, self._is_child = self._is_child, True
                parts = [self._statement(depth - 1, is_alone=is_alone) for _ in range(source.randrange(1, 3))]
                self._is_child = was_child
                parts += [self._op("doubt")] if source.random() < 0.4 else []
                return self._op(do, *parts)
            case _:
                return self._op(do)

    def _line(self, depth: int) -> Op:
        parts = [self._statement(depth, is_alone=False) for _ in range(self._source.randrange(1, 3))]
        return self._op("row", *parts)

    def _marked(self) -> Op:
        """An act during which somebody may cancel the run."""
        mark = self._op("mark")
        self._marks.append(mark.at)
        return self._op("gather", self._op("row", mark), self._op("row", self._act(4.0)))

    def _caught(self, depth: int, *, is_alone: bool) -> list[Op]:
        """What may fail and be caught: statements without branches, and branches of one call each."""
        source, found = self._source, []
        for _ in range(source.randrange(1, 3)):
            if source.random() < 0.3 and depth:
                branches = [self._op("row", self._act()) for _ in range(2)]
                branches += [self._op("row", self._op("doubt"))] if source.random() < 0.5 else []
                found.append(self._op("gather", *branches))
            else:
                found.append(self._act())
        return [*found, self._op("doubt")] if source.random() < 0.6 else found
