"""Values with expressions in them, made ready once per definition and filled in at every visit."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from holdfast.expressions.engine import CannotEvaluate
from holdfast.expressions.languages import Formula, Language, formula
from holdfast.expressions.shapes import DYN, TIMESTAMP, map_of
from holdfast.programs.definition.model import Value

ROOTS: Final = ("start", "state", "payload", "result", "item", "index", "error", "run", "nodes", "local", "now")

Variables = Mapping[str, Any]
Fill = Callable[[Variables], Any]


class Templates:
    """The expressions and values of one definition, compiled when they are first used."""

    def __init__(
        self, names: frozenset[str] = frozenset(), language: Language = "cel", state: Collection[str] = ()
    ) -> None:
        """``names`` are what blocks and repeats bind, ``state`` the members that are declared or written."""
        members = map_of(dict.fromkeys(state, DYN)) if language == "jq" else DYN
        self._roots = {**dict.fromkeys((*ROOTS, *names), DYN), "now": TIMESTAMP, "state": members}
        self._language = language
        self._formulas: dict[str, Formula] = {}
        self._fills: dict[int, tuple[Value, Fill, frozenset[str]]] = {}

    def formula(self, text: str) -> Formula:
        """An expression. Raises InvalidExpression."""
        found = self._formulas.get(text)
        if found is None:
            found = self._formulas[text] = formula(self._language, text, self._roots, lazily=True)
        return found

    def of(self, value: Value) -> tuple[Fill, frozenset[str]]:
        """What fills in a value, and the roots that it reads. The value must not change."""
        found = self._fills.get(id(value))
        if found is None or found[0] is not value:
            reads = frozenset(root for text in expressions_in(value) for root in self.formula(text).roots)
            found = self._fills[id(value)] = (value, self._compile(value), reads)
        return found[1], found[2]

    def _compile(self, value: Value) -> Fill:
        if isinstance(value, str) and value.startswith("="):
            if value.startswith("=="):
                text = value[1:]
                return lambda _: text
            evaluate = self.formula(value[1:]).evaluate
            return lambda variables: storable(evaluate(variables))
        if not any(expressions_in(value)) and not any(_escaped(value)):
            return lambda _: value
        if isinstance(value, Mapping):
            members = [(name, self._compile(item)) for name, item in value.items()]
            return lambda variables: {name: fill(variables) for name, fill in members}
        items = [self._compile(item) for item in value]
        return lambda variables: [fill(variables) for fill in items]


def expressions_in(value: Value) -> Iterator[str]:
    """The expressions inside a value, without their ``=``."""
    if isinstance(value, str):
        if value.startswith("=") and not value.startswith("=="):
            yield value[1:]
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from expressions_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from expressions_in(item)


def _escaped(value: Value) -> Iterator[str]:
    if isinstance(value, str):
        if value.startswith("=="):
            yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _escaped(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _escaped(item)


def storable(value: Any) -> Any:
    """A result of an expression as state keeps it: times and durations are texts. Raises CannotEvaluate."""
    kind = type(value)
    if kind in (str, int, bool, bytes) or value is None:
        return value
    if kind is float:
        if math.isfinite(value):
            return value
        raise CannotEvaluate(f"{value} is no number that JSON has: a division by zero gives it, or an overflow")
    if kind is list:
        return [storable(item) for item in value]
    if kind is dict:
        return {_name(name): storable(item) for name, item in value.items()}
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, datetime.timedelta):
        return f"{value.total_seconds():.6f}".rstrip("0").rstrip(".") + "s"
    raise CannotEvaluate(f"a value of type {kind.__name__} cannot be kept in state")


def _name(name: Any) -> str:
    if isinstance(name, str):
        return name
    raise CannotEvaluate(f"state has names that are texts, not {name!r}")
