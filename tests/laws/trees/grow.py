"""Programs from a seed: trees of three levels."""

from __future__ import annotations

import random
from typing import Final

from tests.laws.trees.plant import Op

ACTS: Final = ("book", "book", "hire", "fetch", "modern")
CALLS: Final = ("child", "child", "hurried", "left")
ENDS: Final = ((), (), (), ("word",), ("fail",), ("word", "fail"), ("misfit",))


class Grower:
    """Makes programs whose labels are all different."""

    def __init__(self, source: random.Random) -> None:
        self._source = source
        self._labels = 0

    def program(self, levels: int) -> tuple[Op, ...]:
        """A program with so many levels below it."""
        source = self._source
        ops = [self._statement(levels, 1) for _ in range(source.randrange(1, 4))]
        if levels and source.random() < 0.6:
            ops.insert(0, Op("book", self.label("book")))
        return (*ops, *map(Op, source.choice(ENDS)))

    def label(self, what: str) -> str:
        self._labels += 1
        return f"{what} {self._labels}"

    def _statement(self, levels: int, depth: int) -> Op:
        source = self._source
        calls = CALLS * 2 if levels else ()
        inner = ("gather", "gather", "limit", "try", "cleanup") if depth else ()
        inner = (*inner, "flow", "flow") if levels else inner
        do = source.choice((*ACTS, "word", "sleep", *calls, *inner))
        if do in ACTS:
            return Op(do, self.label(do))
        if do == "flow":
            return Op(do, self.label("modern"))
        if do in CALLS:
            return Op(
                do, self.label("run"), source.choice((0.1, 3.0)) if do == "left" else 0.0, self.program(levels - 1)
            )
        if do in ("word", "sleep"):
            return Op(do, seconds=source.choice((0.5, 5.0)) if do == "sleep" else 0.0)
        parts = tuple(self._statement(levels, depth - 1) for _ in range(source.randrange(1, 4)))
        return Op(do, seconds=source.choice((0.5, 3.0, 40.0)) if do == "limit" else 0.0, parts=parts)


def shown(ops: tuple[Op, ...]) -> str:
    """A program on one line."""
    parts = []
    for op in ops:
        inside = f"({shown(op.parts)})" if op.parts else ""
        words = (op.do, op.label.rpartition(" ")[2], f"{op.seconds:g}" if op.seconds else "")
        parts.append(" ".join(word for word in words if word) + inside)
    return ", ".join(parts)


def nested(ops: tuple[Op, ...]) -> tuple[Op, ...]:
    """All statements of one run: not those of its children."""
    found: list[Op] = []
    for op in ops:
        found += [op, *(() if op.do in CALLS else nested(op.parts))]
    return tuple(found)
