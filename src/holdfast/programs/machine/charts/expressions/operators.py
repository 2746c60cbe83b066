"""The operators of expressions: what they do to plain data, in Python's and in ECMAScript's way.

Whatever could grow without bound is measured before it is made. Where ECMAScript would convert silently and Python has
no such conversion, the operator refuses: a chart must not mean something else here.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any, Final

from holdfast.programs.machine.charts.expressions.values import ITEM_LIMIT, TEXT_LIMIT, ExpressionFault, bounded

Binary = Callable[[Any, Any], Any]
_BITS: Final = 64


def _multiply(left: Any, right: Any) -> Any:
    for sequence, count in ((left, right), (right, left)):
        if isinstance(sequence, (str, list)) and isinstance(count, int):
            if len(sequence) * count > (TEXT_LIMIT if isinstance(sequence, str) else ITEM_LIMIT):
                raise ExpressionFault("the result of * is too large")
            return sequence * count
    return left * right


def _power(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int) and not -_BITS <= right <= _BITS:
        raise ExpressionFault(f"an exponent must be between -{_BITS} and {_BITS}")
    return left**right


def _shift(act: Binary) -> Binary:
    def shifted(left: Any, right: Any) -> Any:
        if not 0 <= right <= _BITS:
            raise ExpressionFault(f"a shift must be between 0 and {_BITS}")
        return act(left, right)

    return shifted


def _modulo(left: Any, right: Any) -> Any:
    if isinstance(left, str):
        raise ExpressionFault("texts are not formatted with %: use + and str()")
    return left % right


_PYTHON: Final[dict[type[ast.operator], Binary]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: _multiply,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: _modulo,
    ast.Pow: _power,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor,
    ast.LShift: _shift(operator.lshift),
    ast.RShift: _shift(operator.rshift),
}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _joined(value: Any) -> str:
    """A part of a text that ECMAScript's ``+`` joins."""
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    raise ExpressionFault(f"ECMAScript's + is not known here for a text and {value!r}")


def _ecmascript_add(left: Any, right: Any) -> Any:
    if isinstance(left, str) or isinstance(right, str):
        return _joined(left) + _joined(right)
    if _is_number(left) and _is_number(right):
        return left + right
    raise ExpressionFault(f"ECMAScript's + is not known here for {left!r} and {right!r}")


def _ecmascript_divide(left: Any, right: Any) -> Any:
    quotient = left / right
    return int(quotient) if float(quotient).is_integer() else quotient


def _ecmascript_modulo(left: Any, right: Any) -> Any:
    rest = math.fmod(left, right)
    return int(rest) if rest.is_integer() else rest


_ECMASCRIPT: Final[dict[type[ast.operator], Binary]] = {
    ast.Add: _ecmascript_add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _ecmascript_divide,
    ast.Mod: _ecmascript_modulo,
    ast.Pow: _power,
}
"""Operators on bits are left out: theirs have 32 bits and another precedence."""


def combine(kind: type[ast.operator], left: Any, right: Any, *, ecmascript: bool) -> Any:
    """Apply a binary operator."""
    act = (_ECMASCRIPT if ecmascript else _PYTHON).get(kind)
    if act is None:
        raise ExpressionFault(f"the operator {kind.__name__} is not known here")
    if ecmascript and kind is not ast.Add and not (_is_number(left) and _is_number(right)):
        raise ExpressionFault(
            f"ECMAScript's conversions are not known here: {left!r} and {right!r} are not both numbers"
        )
    return bounded(act(left, right))


def _identical(left: Any, right: Any) -> bool:
    """Equality without conversions, which is what ``is`` and ``===`` mean for plain data."""
    if _is_number(left) and _is_number(right):
        return bool(left == right)
    return type(left) is type(right) and bool(left == right)


def _ecmascript_compare(kind: type[ast.cmpop], left: Any, right: Any) -> bool:
    """Compare where ECMAScript does so without a conversion. Raises ExpressionFault elsewhere."""
    if kind in (ast.In, ast.NotIn):
        if not isinstance(right, dict):
            raise ExpressionFault("ECMAScript's in is known here only for the members of a map")
        return (left in right) is (kind is ast.In)
    if None not in (left, right) and (isinstance(left, (list, dict)) or isinstance(right, (list, dict))):
        raise ExpressionFault("ECMAScript compares lists and maps by identity, which data here does not have")
    if kind in (ast.Is, ast.IsNot):
        return _identical(left, right) is (kind is ast.Is)
    if isinstance(left, str) is not isinstance(right, str) and left is not None and right is not None:
        raise ExpressionFault("ECMAScript would convert a text to a number: write === or compare equal types")
    if kind in (ast.Eq, ast.NotEq):
        return bool(left == right) is (kind is ast.Eq)
    return bool(_COMPARISONS[kind](left, right))


_COMPARISONS: Final[dict[type[ast.cmpop], Binary]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, inside: item in inside,
    ast.NotIn: lambda item, inside: item not in inside,
}


def compare(kind: type[ast.cmpop], left: Any, right: Any, *, ecmascript: bool) -> bool:
    """Apply a comparison."""
    if ecmascript:
        return _ecmascript_compare(kind, left, right)
    if kind in (ast.Eq, ast.NotEq):
        return bool(left == right) is (kind is ast.Eq)
    if kind in (ast.Is, ast.IsNot):
        return _identical(left, right) is (kind is ast.Is)
    return bool(_COMPARISONS[kind](left, right))


def is_true(value: Any, *, ecmascript: bool) -> bool:
    """Whether a value counts as true: in ECMAScript an empty list or map does."""
    return True if ecmascript and isinstance(value, (list, dict)) else bool(value)


def negate(kind: type[ast.unaryop], value: Any, *, ecmascript: bool) -> Any:
    """Apply a unary operator. ECMAScript's ``!`` was read as ``~``."""
    if kind is ast.Not or (ecmascript and kind is ast.Invert):
        return not is_true(value, ecmascript=ecmascript)
    if kind is ast.Invert:
        return bounded(~value)
    return bounded(-value if kind is ast.USub else +value)
