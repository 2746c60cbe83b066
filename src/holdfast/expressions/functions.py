"""The functions of CEL that expressions here have, and which types they take and give."""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.expressions.shapes import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    ValueShape,
)


class Overload(NamedTuple):
    """The kinds that each argument may have, the target first; ``dyn`` takes all. And what comes of it."""

    takes: tuple[frozenset[str], ...]
    gives: ValueShape


def _takes(*kinds: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(kind.split()) for kind in kinds)


_SIZE: Final = (Overload(_takes("string bytes list map"), INT),)
_TEST: Final = (Overload(_takes("string", "string"), BOOL),)
_ANY: Final = "dyn"

GLOBALS: Final[dict[str, tuple[Overload, ...]]] = {
    "size": _SIZE,
    "matches": _TEST,
    "bool": (Overload(_takes("bool string"), BOOL),),
    "bytes": (Overload(_takes("bytes string"), BYTES),),
    "double": (Overload(_takes("double int uint string"), DOUBLE),),
    "duration": (Overload(_takes("duration string"), DURATION),),
    "dyn": (Overload(_takes(_ANY), DYN),),
    "int": (Overload(_takes("int uint double string timestamp"), INT),),
    "string": (Overload(_takes("string int uint double bool bytes timestamp duration"), STRING),),
    "timestamp": (Overload(_takes("timestamp string int"), TIMESTAMP),),
    "type": (Overload(_takes(_ANY), TYPE),),
    "uint": (Overload(_takes("uint int double string"), UINT),),
}

_DATES: Final = ("getFullYear", "getMonth", "getDayOfYear", "getDayOfMonth", "getDate", "getDayOfWeek")
_TIMES: Final = ("getHours", "getMinutes", "getSeconds", "getMilliseconds")

METHODS: Final[dict[str, tuple[Overload, ...]]] = {
    "size": _SIZE,
    "contains": _TEST,
    "startsWith": _TEST,
    "endsWith": _TEST,
    "matches": _TEST,
    **dict.fromkeys(_DATES, (Overload(_takes("timestamp"), INT), Overload(_takes("timestamp", "string"), INT))),
    **dict.fromkeys(
        _TIMES, (Overload(_takes("timestamp duration"), INT), Overload(_takes("timestamp", "string"), INT))
    ),
    "hasValue": (Overload(_takes("optional"), BOOL),),
    "value": (Overload(_takes("optional"), DYN),),
    "or": (Overload(_takes("optional", "optional"), DYN),),
    "orValue": (Overload(_takes("optional", _ANY), DYN),),
    "first": (Overload(_takes("list"), DYN),),
    "last": (Overload(_takes("list"), DYN),),
}

OPTIONALS: Final = frozenset({"of", "none", "ofNonZeroValue"})
"""Called as ``optional.of(x)``."""

TYPES: Final = frozenset(
    {"bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint", "optional_type"}
)
"""Names of types, which are values."""
