"""Estimates before an expression is evaluated how large the values are that it makes: CEL cannot be interrupted.

The estimate is of the values alone, so it is the same on every machine. It may be far too high, never too low. It
decides where an expression is evaluated, never whether: one that may make large values goes to a process that can be
ended. How large the value is in the end is measured there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from holdfast.expressions.engine import MOST_ITERATIONS
from holdfast.expressions.reads import step_of
from holdfast.expressions.syntax import (
    Application,
    Comprehension,
    Conditional,
    Constant,
    ListDisplay,
    MapDisplay,
    Operation,
    Presence,
    Selection,
    Subscript,
    Tree,
    Variable,
    parts_of,
)

LARGEST_VALUE: Final = 64 * 1024 * 1024
"""The largest value that an expression can make: characters of texts, and one for each value in it.

What is recorded has at most as many bytes, so no value that a journal has can be larger.
"""
LARGEST_HERE: Final = 1024 * 1024
"""Values of so many units are made in a moment, and in this process."""
LARGEST_AT_ONCE: Final = 8 * LARGEST_HERE
"""The same of expressions that a server evaluates between requests: those that may make more are refused."""
ITEM: Final = 16
"""The units of an item; those of a text are its characters."""

_SMALL: Final = 64  # a number, a time, a truth, and what they are as a text


class Extent(NamedTuple):
    """At most how large a value is: its units with all in it, how many items it has, and the units of the largest."""

    units: int
    items: int = 0
    item: int = 0


_SCALAR: Final = Extent(_SMALL)


def can_grow(tree: Tree) -> bool:
    """Whether the value may be larger than all that the expression reads."""
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        match part:
            case Operation("+") | ListDisplay() | MapDisplay() | Comprehension("map" | "optMap" | "optFlatMap"):
                return True
        waiting.extend(parts_of(part))
    return False


def largest_made(tree: Tree, variables: Mapping[str, Any]) -> int:
    """The units of the largest value that is made on the way to the value of the tree."""
    estimate = _Estimate(variables)
    estimate.extent(tree, {})
    return estimate.largest


def measure(value: Any) -> int:
    """How large a value is, as ``LARGEST_VALUE`` counts."""
    count, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        count += 1
        if isinstance(item, str | bytes):
            count += len(item)
        elif isinstance(item, dict):
            waiting.extend(item)
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return count


class _Estimate:
    def __init__(self, variables: Mapping[str, Any]) -> None:
        self.largest = 0
        self._variables = variables
        self._known: dict[int, Extent] = {}

    def extent(self, tree: Tree, bound: Mapping[str, Extent]) -> Extent:
        found = self._extent(tree, bound)
        if not isinstance(tree, Variable | Selection | Subscript | Constant):  # these make nothing
            self.largest = max(self.largest, found.units)
        return found

    def _extent(self, tree: Tree, bound: Mapping[str, Extent]) -> Extent:
        match tree:
            case Constant(_, value):
                return Extent(len(value) + ITEM) if isinstance(value, str | bytes) else _SCALAR
            case Variable() | Selection() | Subscript() | Presence():
                return self._path(tree, bound)
            case Operation("+", left, right):
                one, other = self.extent(left, bound), self.extent(right, bound)
                return Extent(one.units + other.units, one.items + other.items, max(one.item, other.item))
            case Conditional(condition, yes, no):
                self.extent(condition, bound)
                return _either(self.extent(yes, bound), self.extent(no, bound))
            case ListDisplay(items):
                return _display([self.extent(each.value, bound) for each in items])
            case MapDisplay(entries):
                pairs = [(self.extent(each.key, bound), self.extent(each.value, bound)) for each in entries]
                whole = _display([part for pair in pairs for part in pair])
                return Extent(whole.units, len(pairs), max((key.units for key, _ in pairs), default=0))
            case Comprehension():
                return self._comprehension(tree, bound)
            case Application():
                return self._application(tree, bound)
        for part in parts_of(tree):
            self.extent(part, bound)
        return _SCALAR

    def _path(self, tree: Tree, bound: Mapping[str, Extent]) -> Extent:
        """A path over variables is looked up, as far as its steps are constants; of anything else, and behind a step
        that is computed, a part is at most as large as the whole."""
        steps: list[str | int | None] = []
        base = tree
        while isinstance(base, Selection | Subscript | Presence):
            if isinstance(base, Subscript):
                self.extent(base.index, bound)
            steps.append(step_of(base))
            base = base.operand
        if not isinstance(base, Variable) or (base.name in bound and not base.absolute):
            whole = bound[base.name] if isinstance(base, Variable) else self.extent(base, bound)
            return whole if base is tree else _part(whole)
        value = self._variables.get(base.name)
        for step in reversed(steps):
            if step is None:
                return _part(self._of_value(value))
            try:
                value = value[step]  # type: ignore[index]  # what cannot be looked up has no value
            except (LookupError, TypeError):
                break
        return self._of_value(value)

    def _of_value(self, value: Any) -> Extent:
        if not isinstance(value, Mapping | list | tuple):
            return Extent(ITEM + len(value)) if isinstance(value, str | bytes) else _SCALAR
        if id(value) not in self._known:
            children = list(value.values()) if isinstance(value, Mapping) else value
            each = [_units(child) for child in children]
            keys = [_units(key) for key in value] if isinstance(value, Mapping) else []
            largest = max([*keys, *each] if isinstance(value, Mapping) else each, default=0)
            self._known[id(value)] = Extent(ITEM + sum(each) + sum(keys), len(each), largest)
        return self._known[id(value)]

    def _comprehension(self, tree: Comprehension, bound: Mapping[str, Extent]) -> Extent:
        over = self.extent(tree.over, bound)
        is_optional = tree.macro in ("optMap", "optFlatMap")
        item = over if is_optional else Extent(over.item, over.item // ITEM, over.item)
        inner = [self.extent(part, {**bound, tree.variable: item}) for part in tree.parts]
        match tree.macro:
            case "map":
                times = min(over.items, MOST_ITERATIONS)
                return Extent(ITEM + times * (ITEM + inner[-1].units), times, inner[-1].units)
            case "filter":
                return over
            case "optMap" | "optFlatMap":
                return inner[-1]
            case _:
                return _SCALAR

    def _application(self, tree: Application, bound: Mapping[str, Extent]) -> Extent:
        given = [self.extent(part, bound) for part in parts_of(tree)]
        match tree.function:
            case "dyn" | "of" | "ofNonZeroValue" | "value" | "or" | "orValue" | "string" | "bytes":
                found = Extent(_SMALL)
                for each in given:
                    found = _either(found, each)
                return found
            case "first" | "last":
                return Extent(given[0].item + ITEM, given[0].item // ITEM, given[0].item)
            case _:
                return _SCALAR


def _part(whole: Extent) -> Extent:
    return Extent(whole.units, whole.units // ITEM, whole.units)


def _either(one: Extent, other: Extent) -> Extent:
    return Extent(max(one.units, other.units), max(one.items, other.items), max(one.item, other.item))


def _display(parts: list[Extent]) -> Extent:
    units = ITEM + sum(ITEM + part.units for part in parts)
    return Extent(units, len(parts), max((part.units for part in parts), default=0))


def _units(value: Any) -> int:
    count, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        count += ITEM
        if isinstance(item, str | bytes):
            count += len(item)
        elif isinstance(item, Mapping):
            waiting.extend(item)
            waiting.extend(item.values())
        elif isinstance(item, list | tuple):
            waiting.extend(item)
    return count
