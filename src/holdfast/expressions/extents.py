"""Estimates before an expression is evaluated how large the values are that it makes, and how long it takes: CEL cannot
be interrupted.

The estimate is of the values alone, so it is the same on every machine. It may be far too high; of sizes it is never
too low. It decides where an expression is evaluated, never whether: one that may make large values, or take long, goes
to a process that can be ended. How large the value is in the end is measured there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from holdfast.expressions import effort
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
LONGEST_HERE: Final = 100_000_000
"""What may take longer, in nanoseconds, is not evaluated in this process."""
FEW_PARTS: Final = 16
"""An expression of so few parts, each of which reads its operands once, is done in a moment."""
ITEM: Final = 16
"""The units of an item; those of a text are its characters."""

_NUMBER_FORMATTED: Final = 1_400  # the library allows 1,000 digits behind the point

_SCALARS: Final = frozenset({int, float, bool, type(None)})
_SIZES: Final = (4096, 1024)
_SMALL: Final = 64  # a number, a time, a truth, and what they are as a text


class Extent(NamedTuple):
    """At most how large a value is: its units with all in it, how many items it has, and the units of the largest."""

    units: int
    items: int = 0
    item: int = 0


_SCALAR: Final = Extent(_SMALL)


class Foreseen(NamedTuple):
    """At most how large a value is that is made on the way, in units, and how long it takes, in nanoseconds."""

    largest: int
    work: int

    @property
    def is_slight(self) -> bool:
        """Whether any process may evaluate it."""
        return self.largest <= LARGEST_HERE and self.work <= LONGEST_HERE


def has_few_parts(tree: Tree) -> bool:
    """Whether it has ``FEW_PARTS`` at most."""
    return len(list(itertools.islice(_all_parts(tree), FEW_PARTS + 1))) <= FEW_PARTS


def is_light(tree: Tree) -> bool:
    """Whether nothing needs to be foreseen: it has few parts, makes nothing of what it reads, and repeats nothing."""
    return has_few_parts(tree) and not any(map(_may_be_heavy, _all_parts(tree)))


_HEAVY: Final = frozenset(
    {"contains", "matches", "indexOf", "lastIndexOf", "replace", "split", "join", "format", "quote", "encode"}
)
"""The functions that make more than they read, or read it again and again."""


def _may_be_heavy(part: Tree) -> bool:
    match part:
        case Operation("+") | ListDisplay() | MapDisplay() | Comprehension():
            return True
        case Application(function):
            return function in _HEAVY
    return False


def _all_parts(tree: Tree) -> Iterator[Tree]:
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        yield part
        waiting.extend(parts_of(part))


def foresee(tree: Tree, variables: Mapping[str, Any]) -> Foreseen:
    """What the evaluation of the tree comes to."""
    return _foreseen(tree, _Estimate(variables))


def harmless_size(tree: Tree) -> int:
    """Variables of so many units together lead to nothing that is large or takes long, whatever they hold. -1 where
    that cannot be said even without any."""
    for units in _SIZES:
        if _foreseen(tree, _Estimate({}, _part(Extent(units)))).is_slight:
            return units
    return -1


def _foreseen(tree: Tree, estimate: _Estimate) -> Foreseen:
    estimate.extent(tree, {})
    return Foreseen(estimate.largest, estimate.work)


def are_within(values: Iterable[Any], most: int) -> bool:
    """Whether the values have at most so many units together."""
    return _units(values, most) <= most


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
    def __init__(self, variables: Mapping[str, Any], each: Extent | None = None) -> None:
        """Over variables; or over any, of which each is at most as large as ``each``."""
        self._each = each
        self.largest = 0
        self.work = 0
        self._rounds = 1  # how often the part is evaluated that is looked at
        self._variables = variables
        self._known: dict[int, Extent] = {}

    def extent(self, tree: Tree, bound: Mapping[str, Extent]) -> Extent:
        self._spend(effort.PART)
        found = self._extent(tree, bound)
        if not isinstance(tree, Variable | Selection | Subscript | Constant):  # these make nothing
            self.largest = max(self.largest, found.units)
        return found

    def _spend(self, nanoseconds: int) -> None:
        self.work += self._rounds * nanoseconds

    def _extent(self, tree: Tree, bound: Mapping[str, Extent]) -> Extent:
        match tree:
            case Constant(_, value):
                return Extent(len(value) + ITEM) if isinstance(value, str | bytes) else _SCALAR
            case Variable() | Selection() | Subscript() | Presence():
                return self._path(tree, bound)
            case Operation(operator, left, right):
                one, other = self.extent(left, bound), self.extent(right, bound)
                self._spend(effort.of_operation(operator, one.units, other.units))
                if operator != "+":
                    return _SCALAR
                return Extent(one.units + other.units, one.items + other.items, max(one.item, other.item))
            case Conditional(condition, yes, no):
                self.extent(condition, bound)
                return _either(self.extent(yes, bound), self.extent(no, bound))
            case ListDisplay(items):
                return _display([self.extent(each.value, bound) for each in items])
            case MapDisplay(entries):
                pairs = [(self.extent(each.key, bound), self.extent(each.value, bound)) for each in entries]
                whole = _display([part for pair in pairs for part in pair])
                self._spend(effort.of_key(sum(key.units for key, _ in pairs)))
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
            self._spend(effort.PART)
            if isinstance(base, Subscript):
                self._spend(effort.of_key(self.extent(base.index, bound).units))
            steps.append(step_of(base))
            base = base.operand
        if not isinstance(base, Variable) or (base.name in bound and not base.absolute):
            whole = bound[base.name] if isinstance(base, Variable) else self.extent(base, bound)
            return whole if base is tree else _part(whole)
        if self._each is not None:
            return self._each
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
            each = [_units([child]) for child in children]
            keys = [_units([key]) for key in value] if isinstance(value, Mapping) else []
            largest = max([*keys, *each] if isinstance(value, Mapping) else each, default=0)
            self._known[id(value)] = Extent(ITEM + sum(each) + sum(keys), len(each), largest)
        return self._known[id(value)]

    def _comprehension(self, tree: Comprehension, bound: Mapping[str, Extent]) -> Extent:
        over = self.extent(tree.over, bound)
        is_optional = tree.macro in ("optMap", "optFlatMap")
        item = over if is_optional else Extent(over.item, over.item // ITEM, over.item)
        times = 1 if is_optional else min(over.items, MOST_ITERATIONS)
        inner = self._repeated(tree, {**bound, tree.variable: item}, times)
        match tree.macro:
            case "map":
                return Extent(ITEM + times * (ITEM + inner[-1].units), times, inner[-1].units)
            case "filter":
                return over
            case "optMap" | "optFlatMap":
                return inner[-1]
            case _:
                return _SCALAR

    def _repeated(self, tree: Comprehension, bound: Mapping[str, Extent], times: int) -> list[Extent]:
        """The extents of what is evaluated so many times; all rounds of one evaluation together have a limit."""
        before = self._rounds
        self._rounds = min(before * times, MOST_ITERATIONS)
        self._spend(effort.PART + (effort.GATHERED * times if tree.macro in ("map", "filter") else 0))
        found = [self.extent(part, bound) for part in tree.parts]
        self._rounds = before
        return found

    def _application(self, tree: Application, bound: Mapping[str, Extent]) -> Extent:
        given = [self.extent(part, bound) for part in parts_of(tree)]
        self._spend(effort.of_function(tree.function, [each.units for each in given], _written(parts_of(tree))))
        match tree.function:
            case "dyn" | "of" | "ofNonZeroValue" | "value" | "or" | "orValue" | "string" | "bytes":
                found = Extent(_SMALL)
                for each in given:
                    found = _either(found, each)
                return found
            case "charAt" | "substring" | "lowerAscii" | "upperAscii" | "trim" | "reverse":
                return Extent(given[0].units)
            case "quote" | "encode" | "decode":
                return Extent(2 * given[-1].units)
            case "replace":
                return _replaced(parts_of(tree), given)
            case "split":
                return Extent(ITEM + given[0].units * (ITEM + 2), given[0].units, given[0].units)
            case "join":
                return Extent(given[0].units + given[0].items * sum(each.units for each in given[1:]))
            case "format":
                items = given[1].items * _NUMBER_FORMATTED
                return Extent(given[0].units + 8 * given[1].units + items)
            case "first" | "last":
                return Extent(given[0].item + ITEM, given[0].item // ITEM, given[0].item)
            case _:
                return _SCALAR


def _replaced(parts: tuple[Tree, ...], given: list[Extent]) -> Extent:
    """A text with another put in: at each place, where it is not known how long what goes out is."""
    written = [part.value if isinstance(part, Constant) else None for part in parts]
    text, old, new, *_ = (
        len(value) if isinstance(value, str) else each.units for value, each in zip(written, given, strict=True)
    )
    times = 1 + text // (max(1, old) if isinstance(written[1], str) else 1)
    return Extent(ITEM + text + times * new)


def _written(given: tuple[Tree, ...]) -> str | None:
    """The last argument, where it is a text that the expression has."""
    last = given[-1] if given else None
    return last.value if isinstance(last, Constant) and isinstance(last.value, str) else None


def _part(whole: Extent) -> Extent:
    return Extent(whole.units, whole.units // ITEM, whole.units)


def _either(one: Extent, other: Extent) -> Extent:
    return Extent(max(one.units, other.units), max(one.items, other.items), max(one.item, other.item))


def _display(parts: list[Extent]) -> Extent:
    units = ITEM + sum(ITEM + part.units for part in parts)
    return Extent(units, len(parts), max((part.units for part in parts), default=0))


def _characters(keys: Iterable[Any]) -> int:
    try:
        return len("".join(keys))
    except TypeError:
        return sum(len(key) for key in keys if isinstance(key, str))


def _units(values: Iterable[Any], most: float = math.inf) -> int:
    """The units of values; counting ends where they are more than ``most``."""
    count, waiting = 0, list(values)
    while waiting and count <= most:
        item = waiting.pop()
        count += ITEM
        kind = type(item)
        if kind in _SCALARS:
            continue
        if kind is str or kind is bytes:
            count += len(item)
        elif kind is list or kind is tuple or isinstance(item, list | tuple):
            waiting += item
        elif kind is dict or isinstance(item, Mapping):
            count += ITEM * len(item) + _characters(item)
            waiting += item.values()
        elif isinstance(item, str | bytes):
            count += len(item)
    return count
