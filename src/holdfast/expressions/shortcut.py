"""Evaluates simple expressions in Python, without the engine: paths, comparisons, arithmetic, conditions.

The engine costs about 20 µs, a shortcut one or two. A shortcut answers only where its answer is the engine's for sure.
Anything else, above all every error within a larger expression, raises NotSimple, and the engine decides. In one thing
it does better: a value that CEL has not (an integer of more than 64 bits) is an error to the engine wherever it stands,
to a shortcut only if it is needed, so not in a branch that is not taken.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast.expressions.engine import DEEPEST_VALUE, CannotEvaluate, MissingMember
from holdfast.expressions.extents import LARGEST_HERE
from holdfast.expressions.reads import shape_at, step_of
from holdfast.expressions.shapes import ValueShape, fitted
from holdfast.expressions.syntax import (
    Application,
    Conditional,
    Constant,
    Junction,
    ListDisplay,
    Operation,
    Prefix,
    Presence,
    Selection,
    Subscript,
    Tree,
    Variable,
    parts_of,
)

Shortcut = Callable[[Mapping[str, Any]], Any]

MOST_WRITTEN_OUT: Final = 32
"""A list with more items that are computed is made by the engine, where its size is estimated before."""

_KINDS: Final = frozenset({"null", "bool", "int", "double", "string"})
_LEAST, _MOST = -(2**63), 2**63 - 1
_ORDERED: Final = frozenset({int, float, str})
_SCALARS: Final = frozenset({int, float, str, bool, type(None)})
_COMPARED: Final = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_COMPUTED: Final = {"+": operator.add, "-": operator.sub, "*": operator.mul}


class NotSimple(Exception):
    """The engine must evaluate this."""


def shortcut_of(tree: Tree, roots: Mapping[str, ValueShape]) -> Shortcut | None:
    """What evaluates the tree over variables, or None where only the engine can. Shortcuts raise NotSimple."""
    if _written_out(tree) > MOST_WRITTEN_OUT:
        return None
    return _path(tree, roots, alone=True) or _shortcut(tree, roots)


def _written_out(tree: Tree) -> int:
    """How many items the lists have that are written out in it: each may copy a value."""
    count, waiting = 0, [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ListDisplay):
            count += sum(not isinstance(item.value, Constant) for item in part.items)
        waiting.extend(parts_of(part))
    return count


def _shortcut(tree: Tree, roots: Mapping[str, ValueShape]) -> Shortcut | None:
    match tree:
        case Constant(kind, value) if kind in _KINDS:
            return lambda _: value
        case Variable() | Selection() | Subscript():
            return _path(tree, roots)
        case Presence(operand, member):
            owner = _reader(operand, roots)
            return owner and _presence(owner[0], member)
        case Application():
            return _application(tree, roots)
        case Prefix(sign, operand):
            return _applied(_opposite if sign == "!" else _negative, _shortcut(operand, roots))
        case Operation(sign, left, right):
            return _operation(sign, _shortcut(left, roots), _shortcut(right, roots), right)
    return _combined(tree, roots)


def _application(tree: Application, roots: Mapping[str, ValueShape]) -> Shortcut | None:
    match tree:
        case Application("orValue", Selection(operand, member, True), (Constant(kind, default),)) if kind in _KINDS:
            owner, path = _reader(operand, roots), _path(Selection(operand, member), roots)
            return owner and path and _either(_presence(owner[0], member), path, default)
        case Application("contains" | "startsWith" | "endsWith" as name, target, (argument,)) if target is not None:
            found = _all((target, argument), roots)
            return None if found is None else _test(_TESTS[name], *found)
    given = tree.arguments if tree.target is None else (tree.target, *tree.arguments)
    convert = _FUNCTIONS.get((tree.function, tree.target is not None))
    return _applied(convert, _shortcut(given[0], roots)) if convert and len(given) == 1 else None


def _combined(tree: Tree, roots: Mapping[str, ValueShape]) -> Shortcut | None:
    match tree:
        case Junction(sign, parts):
            found = _all(parts, roots)
            return None if found is None else _junction(found, decides=sign == "||")
        case Conditional(condition, yes, no):
            found = _all((condition, yes, no), roots)
            return None if found is None else _conditional(*found)
        case ListDisplay(items) if not any(item.optional for item in items):
            found = _all(tuple(item.value for item in items), roots)
            return None if found is None else lambda variables: [part(variables) for part in found]
    return None


def _all(parts: tuple[Tree, ...], roots: Mapping[str, ValueShape]) -> list[Shortcut] | None:
    found = [_shortcut(part, roots) for part in parts]
    known = [part for part in found if part is not None]
    return known if len(known) == len(found) else None


def _path(tree: Tree, roots: Mapping[str, ValueShape], *, alone: bool = False) -> Shortcut | None:
    found = _reader(tree, roots, alone=alone)
    if found is None:
        return None
    read, shape, depth = found

    fitting = _SCALARS - {str, int} - ({float} if shape.kind == "int" else set())
    whole = shape.kind != "double"

    def path(variables: Mapping[str, Any]) -> Any:
        value = read(variables)
        kind = type(value)
        if kind in fitting or (kind is int and whole and _LEAST <= value <= _MOST) or (kind is str and value.isascii()):
            return value
        return _taken(fitted(value, shape), depth)

    return path


def _reader(
    tree: Tree, roots: Mapping[str, ValueShape], *, alone: bool = False
) -> tuple[Shortcut, ValueShape, int] | None:
    """What reads a path of members and constant indexes, its shape, and its length."""
    steps: list[str | int] = []
    while isinstance(tree, Selection | Subscript):
        step = step_of(tree)
        if step is None or tree.optional:
            return None
        steps.append(step)
        tree = tree.operand
    if not isinstance(tree, Variable) or tree.name not in roots:
        return None
    steps.reverse()
    return _steps(tree.name, tuple(steps), alone), shape_at(roots, (tree.name, *steps)), len(steps)


def _steps(root: str, steps: tuple[str | int, ...], alone: bool) -> Shortcut:
    """Where the path is the whole expression, what is missing is the error: nothing around it could make up for it."""

    def read(variables: Mapping[str, Any]) -> Any:
        try:
            value = variables[root]
            for step in steps:
                kind = type(value)
                if kind is not (dict if type(step) is str else list) or (kind is list and step < 0):  # type: ignore[operator]
                    raise NotSimple
                value = value[step]
        except KeyError:
            if alone and root in variables:
                raise MissingMember(str(step)) from None
            raise NotSimple from None
        except IndexError:
            if alone:
                raise CannotEvaluate("index out of bounds") from None
            raise NotSimple from None
        return value

    return read


def _taken(value: Any, depth: int) -> Any:
    """A value as the engine would give it back."""
    kind = type(value)
    if kind is str:
        return value if value.isascii() else _whole_text(value)
    if kind is int:
        if _LEAST <= value <= _MOST:
            return value
        raise NotSimple
    if kind in _SCALARS:
        return value
    if depth >= DEEPEST_VALUE:
        raise NotSimple
    if kind is list:
        return [_taken(item, depth + 1) for item in value]
    if kind is dict and all(type(key) is str for key in value):
        return {_taken(key, 0): _taken(item, depth + 1) for key, item in value.items()}
    raise NotSimple


def _whole_text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise NotSimple from None
    return value


def _presence(owner: Shortcut, member: str) -> Shortcut:
    def presence(variables: Mapping[str, Any]) -> bool:
        value = owner(variables)
        if type(value) is not dict:
            raise NotSimple
        return member in value

    return presence


def _either(presence: Shortcut, path: Shortcut, default: Any) -> Shortcut:
    return lambda variables: path(variables) if presence(variables) else default


def _test(test: Callable[[str, str], bool], text: Shortcut, part: Shortcut) -> Shortcut:
    def tested(variables: Mapping[str, Any]) -> bool:
        one, other = text(variables), part(variables)
        if type(one) is type(other) is str:
            return test(one, other)
        raise NotSimple

    return tested


def _applied(convert: Callable[[Any], Any], part: Shortcut | None) -> Shortcut | None:
    return part and (lambda variables: convert(part(variables)))


def _opposite(value: Any) -> bool:
    if type(value) is not bool:
        raise NotSimple
    return not value


def _negative(value: Any) -> Any:
    if type(value) is float or (type(value) is int and value != _LEAST):
        return -value
    raise NotSimple


def _double(value: Any) -> float:
    if type(value) not in (int, float):
        raise NotSimple
    return float(value)


def _string(value: Any) -> str:
    if type(value) not in (str, int):
        raise NotSimple
    return str(value)


def _size(value: Any) -> int:
    if type(value) not in (str, list, dict):
        raise NotSimple
    return len(value)


_TESTS: Final[dict[str, Callable[[str, str], bool]]] = {
    "contains": str.__contains__,
    "startsWith": str.startswith,
    "endsWith": str.endswith,
}
_FUNCTIONS: Final[dict[tuple[str, bool], Callable[[Any], Any]]] = {
    ("double", False): _double,
    ("string", False): _string,
    ("size", False): _size,
    ("size", True): _size,
}


def _operation(sign: str, left: Shortcut | None, right: Shortcut | None, right_tree: Tree) -> Shortcut | None:
    if left is None or right is None:
        return None
    if sign in ("==", "!="):
        wanted = sign == "=="
        return lambda variables: _equal(left(variables), right(variables)) is wanted
    if sign in _COMPARED:
        return _comparison(_COMPARED[sign], left, right)
    if sign in _COMPUTED:
        return _computation(_COMPUTED[sign], left, right, texts=sign == "+")
    if sign in ("/", "%"):
        return _division(left, right, rest=sign == "%")
    if isinstance(right_tree, ListDisplay):
        return lambda variables: _among(left(variables), right(variables))
    return None


def _equal(one: Any, other: Any) -> bool:
    kinds = type(one), type(other)
    if kinds[0] is kinds[1] and kinds[0] in _SCALARS:
        return bool(one == other)
    if not _SCALARS.issuperset(kinds) or set(kinds) == {int, float}:
        raise NotSimple
    return False


def _among(value: Any, items: list[Any]) -> bool:
    return any(_equal(value, item) for item in items)


def _comparison(compare: Callable[[Any, Any], Any], left: Shortcut, right: Shortcut) -> Shortcut:
    def comparison(variables: Mapping[str, Any]) -> Any:
        one, other = left(variables), right(variables)
        if type(one) is type(other) and type(one) in _ORDERED:
            return compare(one, other)
        raise NotSimple

    return comparison


def _computation(compute: Callable[[Any, Any], Any], left: Shortcut, right: Shortcut, *, texts: bool) -> Shortcut:
    def computation(variables: Mapping[str, Any]) -> Any:
        one, other = left(variables), right(variables)
        kind = type(one)
        if kind is not type(other):
            raise NotSimple
        if kind is int:
            value = compute(one, other)
            if _LEAST <= value <= _MOST:
                return value
        elif kind is float or (kind is str and texts and len(one) + len(other) <= LARGEST_HERE):
            return compute(one, other)
        raise NotSimple

    return computation


def _division(left: Shortcut, right: Shortcut, *, rest: bool) -> Shortcut:
    def division(variables: Mapping[str, Any]) -> Any:
        one, other = left(variables), right(variables)
        if type(one) is type(other) is int and one >= 0 and other > 0:  # CEL rounds towards zero, Python down
            return one % other if rest else one // other
        if type(one) is type(other) is float and other != 0 and not rest:
            return one / other
        raise NotSimple

    return division


def _junction(parts: list[Shortcut], *, decides: bool) -> Shortcut:
    def junction(variables: Mapping[str, Any]) -> bool:
        value: object
        for part in parts:
            value = part(variables)
            if value is decides:
                return decides
            if type(value) is not bool:
                raise NotSimple
        return not decides

    return junction


def _conditional(condition: Shortcut, yes: Shortcut, no: Shortcut) -> Shortcut:
    def conditional(variables: Mapping[str, Any]) -> Any:
        chosen = condition(variables)
        if type(chosen) is not bool:
            raise NotSimple
        return yes(variables) if chosen else no(variables)

    return conditional
