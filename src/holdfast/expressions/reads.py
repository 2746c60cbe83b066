"""What an expression reads of its variables, and a copy of them that holds just that.

Only what is read is handed to the engine: it converts every value it is given, used or not, and a large list beside
the one number that an expression asks for would cost more than the expression.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from holdfast.expressions.engine import CannotEvaluate
from holdfast.expressions.functions import NAMESPACES
from holdfast.expressions.shapes import DYN, ValueShape, fitted
from holdfast.expressions.syntax import (
    Application,
    Comprehension,
    Constant,
    Presence,
    Selection,
    Subscript,
    Tree,
    Variable,
    parts_of,
)

Read = tuple[str, ...]
Path = tuple[str | int, ...]


LONGEST_VALUE: Final = 100_000
"""How many items a list or map has at most that the engine is given, and no macro reads."""


class Use(NamedTuple):
    """A path that is read. ``looped``: in a macro. ``presence``: only whether it is there."""

    path: Path
    looped: bool
    presence: bool = False

    @property
    def read(self) -> Read:
        """The path as far as it has names."""
        names = itertools.takewhile(lambda step: isinstance(step, str), self.path)
        return tuple(str(name) for name in names)


def uses_of(tree: Tree, roots: Collection[str]) -> frozenset[Use]:
    """Each path over the roots: a root with what the text selects, as ``("state", "lines", 0, "price")``."""
    return frozenset(_uses(tree, roots, frozenset(), looped=False))


def _uses(tree: Tree, roots: Collection[str], bound: frozenset[str], *, looped: bool) -> Iterator[Use]:
    if isinstance(tree, Comprehension):
        yield from _uses(tree.over, roots, bound, looped=True)
        for part in tree.parts:
            yield from _uses(part, roots, bound | {tree.variable}, looped=True)
        return
    base: Tree = tree
    steps: list[str | int | None] = []
    indexes: list[Tree] = []
    while isinstance(base, Selection | Presence | Subscript):
        step = step_of(base)
        steps.append(step)
        if isinstance(base, Subscript) and step is None:
            indexes.append(base.index)
        base = base.operand
    for index in indexes:
        yield from _uses(index, roots, bound, looped=looped)
    if isinstance(base, Variable):
        if base.name in roots and (base.absolute or base.name not in bound):
            members = tuple(_leading(steps[::-1]))
            yield Use((base.name, *members), looped, isinstance(tree, Presence) and len(members) == len(steps))
    elif base is tree:
        for part in parts_of(tree):
            yield from _uses(part, roots, bound, looped=looped)
    else:
        yield from _uses(base, roots, bound, looped=looped)


def functions_of(tree: Tree) -> Iterator[str]:
    """The functions and macros that a tree calls, as it calls them: ``size``, ``math.abs``."""
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        waiting.extend(parts_of(part))
        match part:
            case Application(function, Variable(space)) if space in NAMESPACES:
                yield f"{space}.{function}"
            case Application(function) | Comprehension(macro=function):
                yield function
            case Presence():
                yield "has"
            case _:
                pass


def step_of(tree: Selection | Presence | Subscript) -> str | int | None:
    """The member or the constant index that it selects; None where that is computed."""
    if not isinstance(tree, Subscript):
        return tree.member
    index = tree.index
    if isinstance(index, Constant) and index.kind in ("string", "int"):
        return index.value if isinstance(index.value, str | int) else None
    return None


def _leading(steps: list[str | int | None]) -> Iterator[str | int]:
    for step in steps:
        if step is None:
            return
        yield step


class Leaf(NamedTuple):
    """What is taken whole: as which shape, and how many items a list in it has at most."""

    shape: ValueShape
    longest_list: int
    presence: bool


Cutting = Mapping[str | int, "Cutting | Leaf"]
"""The members that are taken of a map, or the items of a list, and what of each."""


def cutting_of(uses: Collection[Use], roots: Mapping[str, ValueShape], longest_looped: int) -> Cutting:
    """How to take what is used, and no more."""
    found: dict[str | int, Any] = {}
    # What is taken whole comes before what is within it, and needs nothing more. Whether something is there comes last,
    # and after what is within it: taking any of it shows that.
    for use in sorted(uses, key=lambda use: (use.presence, -len(use.path) if use.presence else len(use.path))):
        looped = any(other.looped and _touch(other.path, use.path) for other in uses)
        place: Any = found
        for step in use.path[:-1]:
            place = place.setdefault(step, {})
            if isinstance(place, Leaf):
                break
        else:
            leaf = Leaf(shape_at(roots, use.path), longest_looped if looped else LONGEST_VALUE, use.presence)
            place.setdefault(use.path[-1], leaf)
    return found


def _touch(one: Path, other: Path) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def shape_at(roots: Mapping[str, ValueShape], path: Path) -> ValueShape:
    """What is known of the value at a path."""
    shape = roots[str(path[0])]
    for step in path[1:]:
        if shape.kind == "map" and isinstance(step, str):
            shape = shape.members.get(step, shape.contained)
        else:
            shape = shape.contained if shape.kind == "list" and isinstance(step, int) else DYN
    return shape


def cut(value: Any, cutting: Cutting | Leaf) -> Any:
    """The value with what is used of it. Raises CannotEvaluate where a list in it is too long."""
    if isinstance(cutting, Leaf):
        return None if cutting.presence else fitted(_measured(value, cutting.longest_list), cutting.shape)
    if isinstance(value, Mapping):
        if any(isinstance(step, int) for step in cutting):  # CEL finds a number among keys of several types
            return _measured(value, LONGEST_VALUE)
        return {name: cut(value[name], part) for name, part in cutting.items() if name in value}
    if isinstance(value, list | tuple):
        items = {step: part for step, part in cutting.items() if isinstance(step, int) and 0 <= step < len(value)}
        chosen = [None] * (max(items, default=-1) + 1)
        for step, part in items.items():
            chosen[step] = cut(value[step], part)
        return _measured(chosen, LONGEST_VALUE)
    return value


def _measured(value: Any, longest: int) -> Any:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping | list | tuple):
            if len(item) > longest:
                raise CannotEvaluate(f"a list or map has {len(item)} items, and the limit is {longest}")
            waiting.extend(item.values() if isinstance(item, Mapping) else item)
    return value


def place_of(missing: str, uses: Collection[Use], variables: Mapping[str, Any]) -> str:
    """The path of the map that lacks a member, as ``state.lines[0]``; empty where no path leads there."""
    for path in sorted((use.path for use in uses), key=repr):
        value: Any = variables
        for at, step in enumerate(path):
            if isinstance(value, Mapping) and step == missing and step not in value and at > 0:
                return _written(path[:at])
            try:
                value = value[step]
            except (LookupError, TypeError):
                break
    return ""


def _written(path: Path) -> str:
    return str(path[0]) + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path[1:])
