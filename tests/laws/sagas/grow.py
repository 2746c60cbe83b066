"""Grows trees from a source of randomness. Each seed has a theme, which says what its tree is mostly made of."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from tests.laws.sagas import tree as t

SECONDS: Final = (0.5, 1.0, 1.0, 3.0)

FAILS: Final = ((0, 70), (1, 8), (2, 12), (4, 5), (99, 5))
"""How many attempts fail, and how often that is chosen. Two attempts make a call: two fail it, four the retried one."""

GENERATIONS: Final = 3

LEAVES: Final = {
    "mixed": {"do": 50, "receive": 20, "sleep": 8, "fail": 8, "drain": 4, "again": 5, "raise": 5, "ask": 8},
    "signals": {"do": 15, "receive": 60, "sleep": 8, "fail": 5, "drain": 6, "again": 4, "raise": 2},
    "effects": {"do": 75, "receive": 4, "sleep": 6, "fail": 12, "raise": 3},
    "generations": {"do": 60, "receive": 10, "sleep": 5, "fail": 5, "again": 17, "raise": 3},
    "order": {"do": 60, "receive": 20, "sleep": 15, "fail": 5},
    "forms": {"ask": 55, "do": 20, "receive": 8, "sleep": 8, "fail": 5, "again": 2, "raise": 2},
}
BRANCHES: Final = {
    "mixed": {"seq": 1, "gather": 1, "group": 1, "race": 1, "completed": 1, "join": 1, "stream": 1, "timeout": 1}
    | {"rescue": 1, "ensure": 1, "shield": 1, "loose": 1, "child": 1},
    "signals": {"seq": 3, "gather": 2, "group": 2, "race": 5, "timeout": 5, "rescue": 3, "ensure": 1, "shield": 1},
    "effects": {"seq": 3, "gather": 4, "group": 4, "race": 4, "join": 3, "timeout": 3, "rescue": 2, "ensure": 2}
    | {"shield": 1, "loose": 1, "child": 2, "stream": 1, "completed": 1},
    "generations": {"seq": 5, "gather": 2, "group": 4, "race": 1, "ensure": 2, "child": 1, "timeout": 1, "rescue": 1},
    "order": {"race": 4, "completed": 2, "stream": 2, "gather": 1, "group": 1, "ensure": 2, "seq": 1, "rescue": 1},
    "forms": {"seq": 4, "gather": 2, "group": 2, "race": 4, "completed": 1, "join": 3, "timeout": 4, "rescue": 3}
    | {"ensure": 1, "shield": 1, "loose": 1, "child": 2},
}
ENDS: Final = {
    "mixed": ("", "", "", "raise", "fail", "drains", "again"),
    "signals": ("", "drains", "drains", "drains", "again"),
    "effects": ("", "raise", "fail", "fail", "fail"),
    "generations": ("", "raise", "fail", "again", "again", "again"),
    "order": ("", "", "fail"),
    "forms": ("", "", "raise", "fail", "again"),
}
THEMES: Final = tuple(LEAVES)


class Grower:
    """``size`` bounds the number of nodes. Keys are unique in the whole tree, so each names one effect."""

    def __init__(self, source: random.Random, theme: str) -> None:
        self._source = source
        self._theme = theme
        self._count = 0
        self._generations = 0

    def program(self, size: int) -> t.Node:
        """A whole program: something, and often an end that tests what came before it."""
        body = self.grow(size)
        end = self._source.choice(ENDS[self._theme])
        return t.Seq((body, self._leaf(end))) if end else body

    def grow(self, size: int) -> t.Node:
        if size <= 1:
            return self._leaf(self._among(LEAVES))
        return self._branch(self._among(BRANCHES), size - 1)

    def _among(self, table: dict[str, dict[str, int]]) -> str:
        weights = table[self._theme]
        return self._source.choices(list(weights), list(weights.values()))[0]

    def _leaf(self, kind: str) -> t.Node:
        leaves: dict[str, Callable[[], t.Node]] = {
            "do": self._do,
            "receive": lambda: t.Receive(self._name()),
            "sleep": lambda: t.Sleep(self._seconds()),
            "fail": self._fail,
            "drain": lambda: t.Drain(self._name()),
            "drains": lambda: t.Seq(tuple(t.Drain(name) for name in t.SIGNALS)),
            "ask": lambda: t.Ask(f"form {self._key()}", self._source.choice((None, None, *SECONDS))),
            "again": self._again,
            "raise": self._raise,
        }
        return leaves[kind]()

    def _branch(self, kind: str, size: int) -> t.Node:
        branches: dict[str, Callable[[], t.Node]] = {
            "seq": lambda: t.Seq(self._several(size)),
            "gather": lambda: t.Gather(self._several(size), self._chance(0.3)),
            "group": lambda: t.Group(self._several(size)),
            "race": lambda: t.Race(self._several(size), self._chance(0.7), self._chance(0.3)),
            "completed": lambda: t.AsCompleted(self._several(size)),
            "join": lambda: t.Join(self._members(size), self._source.choice((None, 0, 1, 2))),
            "stream": lambda: t.Stream(self._several(size), self._source.randint(1, 2), self._do()),
            "timeout": lambda: t.Timeout(self._seconds(), self.grow(size), self._chance(0.3)),
            "rescue": lambda: t.Rescue(self.grow(size // 2), self.grow(size - size // 2), self._chance(0.2)),
            "ensure": lambda: t.Ensure(self.grow(size), self._do()),
            "shield": lambda: t.Shield(self.grow(size)),
            "loose": lambda: t.Loose(self.grow(size)),
            "child": lambda: t.Child(self.grow(size)),
        }
        return branches[kind]()

    def _key(self) -> str:
        self._count += 1
        return f"k{self._count}{self._source.choices(('', '!', '?'), weights=(85, 7, 8))[0]}"

    def _do(self) -> t.Do:
        counts, weights = zip(*FAILS, strict=True)
        return t.Do(self._key(), self._source.choices(counts, weights)[0], self._chance(0.8), self._chance(0.3))

    def _fail(self) -> t.Node:
        """A step that fails once, twice, or always, with nothing to undo."""
        return t.Do(self._key(), self._source.choice((2, 2, 4, 99)), undoable=False)

    def _raise(self) -> t.Node:
        return t.Raise(self._source.choice(("error", "error", "error", "exit", "interrupt", "abort", "stray")))

    def _again(self) -> t.Node:
        """The next generation, of which there are not many."""
        if self._generations == GENERATIONS:
            return self._do()
        self._generations += 1
        return t.Again(self.program(self._source.randint(1, 4)))

    def _members(self, size: int) -> tuple[t.Do | t.Child, ...]:
        count = self._source.randint(1, min(size, 4))
        children = 0.4 if self._theme == "forms" else 0.15
        return tuple(t.Child(self.grow(size // count)) if self._chance(children) else self._do() for _ in range(count))

    def _several(self, size: int) -> tuple[t.Node, ...]:
        count = self._source.randint(2, min(size, 4)) if size > 1 else 1
        return tuple(self.grow(size // count) for _ in range(count))

    def _name(self) -> str:
        return self._source.choice(("left", "left", "right"))

    def _seconds(self) -> float:
        return self._source.choice(SECONDS)

    def _chance(self, probability: float) -> bool:
        return self._source.random() < probability


def program(seed: int) -> t.Node:
    """The program of this seed."""
    source = random.Random(f"program {seed}")
    theme = THEMES[seed % len(THEMES)]
    return Grower(source, theme).program(source.choice((2, 3, 3, 4, 5, 6, 8, 12)))
