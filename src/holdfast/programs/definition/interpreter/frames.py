"""Where an interpreter stands: visits of nodes, and the lines of nodes inside them.

A visit is one pass through a node; it may have lines (the branches of a fork, the iterations of a repeat, a handler). A
line is a list of nodes of which one at a time is visited. The root is the visit of a block with the whole definition.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

from holdfast.journal.promise import PromiseId
from holdfast.programs.definition.interpreter.outcomes import NodeOutcome
from holdfast.programs.definition.model import Node, Nodes, Path

Phase = Literal["body", "resting", "handler", "over"]
LineKey = str | int

REFERENCE: Final = ("reference",)


class Scope:
    """What a line sees and writes: the state, what is local to it, and the business reference.

    A branch has a scope of its own, and publishes its writes when it joins.
    """

    __slots__ = ("_written", "is_branch", "local", "reference", "state")

    def __init__(
        self,
        state: dict[str, Any],
        *,
        is_branch: bool = False,
        local: dict[str, Any] | None = None,
        reference: str | None = None,
    ) -> None:
        self.state = state
        self.local = {} if local is None else local
        self.reference = reference
        self.is_branch = is_branch
        self._written: dict[Path, None] = {}

    def branch(self) -> Scope:
        """A scope that begins with what this one has, and whose writes stay apart."""
        return Scope(dict(self.state), is_branch=True, local=dict(self.local), reference=self.reference)

    def write(self, path: Path, value: Any) -> None:
        """Put a value at its place. Maps on the way are copied: others may share them."""
        if self.is_branch:
            self._written[path] = None
        if path == REFERENCE:
            self.reference = value
            return
        place = self.state if path[0] == "state" else self.local
        for name in path[1:-1]:
            inner = place.get(name)
            copied = dict(inner) if isinstance(inner, dict) else {}
            place[name] = copied
            place = copied
        place[path[-1]] = value

    def dump(self) -> list[Any]:
        """The scope as plain data, for a checkpoint."""
        return [self.state, self.local, self.reference, self.is_branch, [list(path) for path in self._written]]

    @classmethod
    def load(cls, data: list[Any]) -> Scope:
        """The inverse of ``dump``."""
        state, local, reference, is_branch, written = data
        scope = cls(state, is_branch=is_branch, local=local, reference=reference)
        scope._written = {tuple(path): None for path in written}
        return scope

    def writes(self) -> list[tuple[Path, Any]]:
        """What a branch has written, each place with its last value."""
        return [(path, self._at(path)) for path in self._written]

    def _at(self, path: Path) -> Any:
        place: Any = getattr(self, path[0])
        for name in path[1:]:
            place = place.get(name) if isinstance(place, dict) else None
        return place


class Line(msgspec.Struct):
    """A list of nodes under way. ``names`` are what expressions in it find beside the state."""

    nodes: Nodes
    owner: Visit
    key: LineKey
    scope: Scope
    names: dict[str, Any]
    at: int = 0
    visit: Visit | None = None
    pause: PromiseId | None = None
    over: bool = False

    def path(self) -> tuple[str | int, ...]:
        """The way to it from the root: names of nodes, branches and iterations."""
        above = self.owner.path()
        return above if self.key == "" else (*above, self.key)


class Visit(msgspec.Struct):
    """One pass through a node. ``memo`` is what its verb must remember, as plain data.

    ``entered`` and ``begun`` are how many deeds there had been when it was entered, and when its last attempt began.
    ``lost`` are the lines of that attempt that were given up: what was done in them is undone.
    """

    node: Node
    line: Line | None
    phase: Phase = "body"
    attempt: int = 1
    promise: PromiseId | None = None
    deadline: PromiseId | None = None
    closing: NodeOutcome | None = None
    expired: bool = False
    lines: dict[LineKey, Line] = {}
    memo: dict[str, Any] = {}
    undoing: list[Deed] | None = None
    error: NodeOutcome | None = None
    entered: int = 0
    begun: int = 0
    lost: list[LineKey] = []

    @property
    def within(self) -> Line:
        """The line that it is part of."""
        if self.line is None:
            raise AssertionError("the root is part of no line")
        return self.line

    def path(self) -> tuple[str | int, ...]:
        """The way to it from the root."""
        return () if self.line is None else (*self.line.path(), self.node.name)


class Deed(msgspec.Struct, frozen=True, array_like=True):
    """Something that was done and can be undone: the call that does it, as data. ``problem`` says why it cannot be.

    ``number`` counts the deeds of a run.
    """

    number: int
    path: tuple[str | int, ...]
    node: str
    root: bytes
    place: tuple[int, ...]
    kind: str
    name: str
    input: bytes
    codec: str
    retry: list[Any]
    queue: str | None
    problem: str = ""


def visits(root: Visit) -> Iterator[Visit]:
    """All visits under way, outer ones first."""
    waiting = [root]
    while waiting:
        visit = waiting.pop(0)
        yield visit
        waiting.extend(line.visit for line in visit.lines.values() if line.visit is not None)
