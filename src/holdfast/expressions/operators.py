"""Which operands the operators take, what they give, and how an int and a double are brought to one type."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final, NamedTuple

from holdfast.expressions.shapes import DOUBLE, DURATION, DYN, TIMESTAMP, ValueShape, joined, list_of
from holdfast.expressions.syntax import Application, Conditional, Constant, ListDisplay, ListItem, Tree

NUMBERS: Final = frozenset({"int", "uint", "double"})
ORDERED: Final = NUMBERS | {"bool", "string", "bytes", "timestamp", "duration"}
_TIMES: Final[Mapping[tuple[str, str, str], ValueShape]] = {
    ("+", "timestamp", "duration"): TIMESTAMP,
    ("+", "duration", "timestamp"): TIMESTAMP,
    ("+", "duration", "duration"): DURATION,
    ("-", "timestamp", "duration"): TIMESTAMP,
    ("-", "timestamp", "timestamp"): DURATION,
    ("-", "duration", "duration"): DURATION,
}
ARITHMETIC: Final[Mapping[str, frozenset[str]]] = {
    "+": NUMBERS | {"string", "bytes", "list"},
    "-": NUMBERS,
    "*": NUMBERS,
    "/": NUMBERS,
    "%": frozenset({"int", "uint"}),
}


class TypedTree(NamedTuple):
    """A tree with its numbers widened, and what is known of its value."""

    tree: Tree
    shape: ValueShape


def widened(tree: Tree) -> Tree:
    """An int's tree as a double's."""
    match tree:
        case Constant("int" | "uint", int(value)):
            return Constant("double", float(value), tree.at)
        case Conditional(_, yes, no):
            return dataclasses.replace(tree, yes=widened(yes), no=widened(no))
    return Application("double", None, (tree,), tree.at)


def level(left: TypedTree, right: TypedTree) -> tuple[TypedTree, TypedTree]:
    """Both with numbers of one type, where one has ints and the other doubles."""
    if left.shape.kind == right.shape.kind == "list":
        return _leveled_list(left, right.shape), _leveled_list(right, left.shape)
    return leveled(left, right.shape), leveled(right, left.shape)


def leveled(one: TypedTree, other: ValueShape) -> TypedTree:
    """An int widened, where what it meets is a double."""
    mixes = one.shape.kind in ("int", "uint") and other.kind == "double"
    return TypedTree(widened(one.tree), DOUBLE) if mixes else one


def _leveled_list(one: TypedTree, other: ValueShape) -> TypedTree:
    """A list that is written out can be widened; one that comes from elsewhere is left, and compared as it is."""
    if not isinstance(one.tree, ListDisplay) or any(item.optional for item in one.tree.items):
        return one
    items = [level(TypedTree(item.value, one.shape.contained), TypedTree(item.value, other.contained))[0].tree
             for item in one.tree.items]  # fmt: skip
    tree = dataclasses.replace(one.tree, items=tuple(map(ListItem, items)))
    mixes = one.shape.contained.kind in ("int", "uint") and other.contained.kind == "double"
    return TypedTree(tree, list_of(DOUBLE) if mixes else one.shape)


def arithmetic(operator: str, left: ValueShape, right: ValueShape) -> ValueShape | None:
    """What an operator gives, or None where it takes no such operands."""
    kinds = ARITHMETIC[operator]
    times = [gives for (sign, *pair), gives in _TIMES.items() if sign == operator
             and all(shape.kind in ("dyn", kind) for shape, kind in zip((left, right), pair, strict=True))]  # fmt: skip
    known = {left.kind, right.kind} - {"dyn"}
    if not known:
        return DYN
    if len(known) == 1 and known <= kinds:
        return joined(left, right) if left.kind == right.kind else right if left.kind == "dyn" else left
    if not times:
        return None
    return times[0] if len(set(times)) == 1 else DYN
