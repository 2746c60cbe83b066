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
    list_of,
)


class Overload(NamedTuple):
    """The kinds that each argument may have, the target first; ``dyn`` takes all. And what comes of it. An ``endless``
    one takes any number of its last argument."""

    takes: tuple[frozenset[str], ...]
    gives: ValueShape
    endless: bool = False


def _takes(*kinds: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(kind.split()) for kind in kinds)


def _of_text(*kinds: str, gives: ValueShape = STRING) -> tuple[Overload, ...]:
    """A method of a text: with all of these arguments, and where the last may be left out, without it."""
    optional = bool(kinds) and kinds[-1].startswith("?")
    whole = [kind.lstrip("?") for kind in kinds]
    found = (Overload(_takes("string", *whole), gives),)
    return (Overload(_takes("string", *whole[:-1]), gives), *found) if optional else found


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
    "charAt": _of_text("int"),
    "indexOf": _of_text("string", "?int", gives=INT),
    "lastIndexOf": _of_text("string", "?int", gives=INT),
    **dict.fromkeys(("lowerAscii", "upperAscii", "trim", "reverse"), _of_text()),
    "replace": _of_text("string", "string", "?int"),
    "split": _of_text("string", "?int", gives=list_of(STRING)),
    "substring": _of_text("int", "?int"),
    "format": _of_text("list"),
    "join": (Overload(_takes("list"), STRING), Overload(_takes("list", "string"), STRING)),
}

_NUMBER: Final = "int uint double"
_WHOLE: Final = (Overload(_takes("int", "int"), INT), Overload(_takes("uint", "uint"), UINT))
_SHIFT: Final = (Overload(_takes("int", "int"), INT), Overload(_takes("uint", "int"), UINT))
_SAME: Final = tuple(Overload(_takes(shape.kind), shape) for shape in (INT, UINT, DOUBLE))
_ROUND: Final = (Overload(_takes("double"), DOUBLE),)
_IS: Final = (Overload(_takes("double"), BOOL),)
_MOST: Final = (Overload(_takes("list"), DYN), Overload(_takes(_NUMBER), DYN, endless=True))

NAMESPACES: Final[dict[str, dict[str, tuple[Overload, ...]]]] = {
    "base64": {
        "encode": (Overload(_takes("bytes"), STRING),),
        "decode": (Overload(_takes("string"), BYTES),),
    },
    "math": {
        **dict.fromkeys(("greatest", "least"), _MOST),
        **dict.fromkeys(("ceil", "floor", "round", "trunc"), _ROUND),
        **dict.fromkeys(("abs", "sign"), _SAME),
        **dict.fromkeys(("isNaN", "isInf", "isFinite"), _IS),
        **dict.fromkeys(("bitAnd", "bitOr", "bitXor"), _WHOLE),
        **dict.fromkeys(("bitShiftLeft", "bitShiftRight"), _SHIFT),
        "bitNot": _SAME[:2],
        "sqrt": (Overload(_takes(_NUMBER), DOUBLE),),
    },
    "optional": {
        "of": (Overload(_takes(_ANY), DYN),),
        "none": (Overload((), DYN),),
        "ofNonZeroValue": (Overload(_takes(_ANY), DYN),),
    },
    "strings": {"quote": (Overload(_takes("string"), STRING),)},
}
"""Called as ``math.abs(x)``."""

TYPES: Final = frozenset(
    {"bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint", "optional_type"}
)
"""Names of types, which are values."""
