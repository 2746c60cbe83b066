"""What a line of a definition sees and writes, in the plain reference: memory, and values of expressions over it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from holdfast.expressions.engine import CannotEvaluate
from holdfast.expressions.expression import Expression
from holdfast.expressions.shapes import DYN


class Failed(Exception):
    """A node fails."""

    def __init__(self, kind: str, code: str) -> None:
        super().__init__(kind, code)
        self.kind = kind
        self.code = code

    @property
    def shown(self) -> dict[str, Any]:
        return {"class": self.kind, "code": self.code}


class Memory:
    """State, local values and the business reference. A branch has its own copy; its writes are published at a join."""

    def __init__(self, state: dict[str, Any], reference: Any = None) -> None:
        self.values: dict[str, Any] = {"state": state, "local": {}, "reference": reference}
        self.writes: list[tuple[str, Any]] = []

    def write(self, place: str, value: Any) -> None:
        self.writes.append((place, value))
        *way, last = place.split(".")
        holder = self.values
        for name in way:
            holder = holder.setdefault(name, {})
        holder[last] = copy.deepcopy(value)

    def branch(self) -> Memory:
        other = Memory({})
        other.values = copy.deepcopy(self.values)
        return other

    def publish(self, other: Memory) -> None:
        for place, value in other.writes:
            self.write(place, value)


@dataclass(eq=False)
class Scope:
    """What can be cancelled as one; what was done inside it is undone then."""

    parent: Scope | None = None

    def within(self, other: Scope) -> bool:
        return self is other or (self.parent is not None and self.parent.within(other))


@dataclass(frozen=True)
class Line:
    """Where a node is done: its memory, what else its expressions see, what is around it."""

    memory: Memory
    scope: Scope
    bound: dict[str, Any] = field(default_factory=dict)
    inside: tuple[str, ...] = ()
    catches: Callable[[], bool] = lambda: False
    """Whether something around it takes care of an error."""

    def value(self, given: Any, **more: Any) -> Any:
        """Plain data with its expressions evaluated."""
        if isinstance(given, str) and given.startswith("=="):
            return given[1:]
        if isinstance(given, str) and given.startswith("="):
            return self._evaluate(given[1:], more)
        if isinstance(given, dict):
            return {name: self.value(each, **more) for name, each in given.items()}
        if isinstance(given, list):
            return [self.value(each, **more) for each in given]
        return given

    def _evaluate(self, text: str, more: dict[str, Any]) -> Any:
        values = self.memory.values
        seen = {"state": values["state"], "local": values["local"], **self.bound, **more}
        try:
            return _expression(text, tuple(sorted(seen))).evaluate(seen)
        except CannotEvaluate:
            raise Failed("expression", "EXPRESSION") from None


@cache
def _expression(text: str, names: tuple[str, ...]) -> Expression:
    return Expression(text, dict.fromkeys(names, DYN))
