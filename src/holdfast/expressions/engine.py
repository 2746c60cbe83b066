"""The CEL engine: the only module that imports the library.

It keeps Python's interpreter lock while it evaluates, and cannot be interrupted. Three limits make it safe to call. The
library allows 9,999 rounds of all loops together in one evaluation, and expressions of at most 32 levels. Values have
at most 64 levels: the library would crash the process on a value of thousands.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.expressions.tokens import without_double_parentheses

if TYPE_CHECKING:
    from cel_expr_python import cel

DEEPEST_VALUE: Final = 64
DEEPEST_EXPRESSION: Final = 32
MOST_ITERATIONS: Final = 9_999
QUOTING: Final = "; CEL says: "

_COMPLAINT: Final = re.compile(r"^(?:INVALID_ARGUMENT: )?ERROR: <input>:(-?\d+):(-?\d+): (.*)$", re.MULTILINE)
_RECURSION: Final = re.compile(r"recursion (?:limit exceeded|depth of \d+)")
_CODE: Final = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")
_OVERLOAD: Final = "No matching overloads found : "
_SCALARS: Final = frozenset({str, int, bool, float, bytes, type(None), datetime.datetime, datetime.timedelta})
_LEAST, _MOST = -(2**63), 2**64 - 1


class Fault(NamedTuple):
    """A fault of an expression, and its line and column, from 1."""

    line: int
    column: int
    what: str


class InvalidExpression(ValueError):
    """A text is not an expression, or its types do not fit. ``faults`` lists every fault."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("; ".join(f"{line}:{column}: {what}" for line, column, what in faults))
        self.faults = faults


class CannotEvaluate(Exception):
    """An expression has no value over these variables. The message after ``QUOTING`` may quote their values."""

    def __init__(self, summary: str, quoted: str = "") -> None:
        super().__init__(f"{summary}{QUOTING}{quoted}" if quoted else summary)


class MissingMember(CannotEvaluate):
    """A map lacks a member that is read. ``place`` is the map, where that is known."""

    def __init__(self, name: str, place: str = "") -> None:
        where = f" in {place}" if place else ""
        super().__init__(f"there is no {name!r}{where} (guard it with has(…) or `in`)")
        self.name = name


class CompiledExpression:
    """A compiled expression. Threads may share it."""

    def __init__(self, expression: cel.Expression, environment: cel.Env) -> None:
        self._expression = expression
        self._environment = environment

    def bind(self, variables: Mapping[str, Any]) -> cel.Activation:
        """Variables that several programs of one environment can be executed over. Raises CannotEvaluate."""
        values = {name: plain(value) for name, value in variables.items()}
        try:
            return self._environment.Activation(values)
        except Exception as error:
            raise _explained(str(error)) from None

    def execute(self, variables: Mapping[str, Any] | cel.Activation) -> Any:
        """The value, as plain Python. Raises CannotEvaluate."""
        bound = self.bind(variables) if isinstance(variables, Mapping) else variables
        try:
            value = self._expression.eval(bound)
            kind = value.type().name()
            found = value.plain_value()
        except MemoryError:
            raise  # another machine may have had it
        except Exception as error:
            raise _explained(str(error)) from None
        if kind == "ERROR":
            raise _explained(str(found))
        return _python(found)


def compiled(text: str, types: Mapping[str, str], *, check: bool = True) -> CompiledExpression:
    """A program over variables of these types. Raises InvalidExpression.

    ``check`` also refuses expressions that can never be evaluated: with other variables, or a number compared with a
    text. A variable with a time or a duration must be declared as one. Any other may be ``dyn``, or left out if
    ``check`` is off.
    """
    environment = _environment(tuple(sorted(types.items())), optionals=check)
    try:
        expression = environment.compile(text, disable_check=not check)
    except Exception as error:
        message = str(error)
        shorter = without_double_parentheses(text) if _RECURSION.search(message) else text
        if shorter == text:
            raise InvalidExpression(tuple(_faults(text, message))) from None
        return compiled(shorter, types, check=check)
    return CompiledExpression(expression, environment)


@functools.lru_cache(maxsize=64)
def _environment(types: tuple[tuple[str, str], ...], *, optionals: bool) -> cel.Env:
    """``optionals`` are ``a.?b`` and ``orValue()``. Of texts, numbers and encodings there is one version of functions:
    what an expression gives must not change with the library's newest."""
    from cel_expr_python import cel  # loaded at the first evaluation: it is large
    from cel_expr_python.ext import ext_encoders, ext_math, ext_optional, ext_strings

    variables = {name: getattr(cel.Type, kind.upper()) for name, kind in types}
    extensions: list[Any] = [ext_strings.ExtStrings(4), ext_math.ExtMath(2), ext_encoders.ExtEncoders()]
    return cel.NewEnv(
        variables=variables, extensions=[*extensions, *([ext_optional.ExtOptional()] if optionals else [])]
    )


def _faults(text: str, message: str) -> Iterator[Fault]:
    if not text.strip():
        yield Fault(1, 1, "it is empty")
    elif _RECURSION.search(message):
        yield Fault(1, 1, f"it nests more than {DEEPEST_EXPRESSION} levels deep: split it")
    else:
        # The message repeats the expression after a bar, so no line of the expression looks like a complaint.
        found = _COMPLAINT.findall(message)
        for line, column, what in found:
            yield Fault(max(int(line), 1), max(int(column), 1), _CODE.sub("", what))
        if not found:
            yield Fault(1, 1, _CODE.sub("", message.partition("\n")[0]))


def _explained(message: str) -> CannotEvaluate:
    """The library's message in a stable wording, with the quoted values kept apart."""
    text = _CODE.sub("", _CODE.sub("", message.partition("\n")[0]))
    _, found, name = text.partition("Key not found in map : ")
    if found:
        return MissingMember(name.strip(chr(34)))
    _, found, name = text.partition("No value with name ")
    if found:
        return CannotEvaluate(f"there is no value of {name.split(chr(34))[1]!r} here")
    for sign, summary in (
        ("Iteration budget exceeded", "it loops too often for one evaluation"),
        ("divide by zero", "division by zero"),
        ("modulus by zero", "division by zero"),
        ("Index error", "index out of bounds"),
        ("Applying SELECT to non-message type", "a member is selected of a value that is no map"),
        ("<jump_condition>", "the condition before `?` is not true or false"),
        ("<iter_range>", "a macro runs over a value that is no list or map"),
        ("Unable to convert function return value", "its value is no data: end an optional one with `.orValue(…)`"),
    ):
        if sign in text:
            return CannotEvaluate(summary)
    if _OVERLOAD in text:
        overload = text.partition(_OVERLOAD)[2].replace("int64", "int")
        meets = any(pair in overload for pair in ("(double, int)", "(int, double)"))
        hint = ": a double meets an int, write double(…) around the int, or give it a schema" if meets else ""
        return CannotEvaluate(f"No such overload: {overload}{hint}")
    if "invalid regular expression" in text:
        return CannotEvaluate("the pattern of matches() is invalid", text.partition("invalid regular expression: ")[2])
    return CannotEvaluate(text)


def plain(value: Any, depth: int = 0) -> Any:
    """A value in the form that the library takes. Raises CannotEvaluate for other types.

    The library itself would refuse a value only where it is used. Then the result would depend on whether the value is
    passed alone or inside another.
    """
    kind = type(value)
    if kind is str:
        return value if value.isascii() else _text(value)
    if kind is int:
        return _whole(value)
    if kind in _SCALARS:
        return value
    if depth > DEEPEST_VALUE:
        raise CannotEvaluate(f"a value nests more than {DEEPEST_VALUE} levels deep")
    if isinstance(value, Mapping):
        return {_key(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, str | int | float):  # an enumeration's member, for example
        return plain(str(value) if isinstance(value, str) else int(value) if isinstance(value, int) else float(value))
    raise CannotEvaluate(f"CEL has no values of type {kind.__name__}")


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise CannotEvaluate("a text has half of a character") from None
    return value


def _whole(value: int) -> int:
    if not _LEAST <= value <= _MOST:
        raise CannotEvaluate("an integer has more than 64 bits")
    return value


def _key(value: Any) -> Any:
    if isinstance(value, str | int):
        return plain(value)
    raise CannotEvaluate(f"CEL has no maps with keys of type {type(value).__name__}")


def _python(value: Any) -> Any:
    """A result in Python's own types: bytes that cannot change, and the name of a type."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, list):
        return [_python(item) for item in value]
    if isinstance(value, dict):
        return {key: _python(item) for key, item in value.items()}
    return value
