"""The functions and methods that an expression may call: all of them.

None reaches a Python object's attributes, and none makes more than the limits of ``values`` allow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from holdfast.errors import InvalidDefinition
from holdfast.programs.machine.charts.expressions.values import (
    ITEM_LIMIT,
    TEXT_LIMIT,
    XML,
    Budget,
    ExpressionFault,
    bounded,
    is_xml,
    weigh,
)

Function = Callable[..., Any]


def _range(*bounds: int) -> list[int]:
    numbers = range(*bounds)
    if len(numbers) > ITEM_LIMIT:
        raise ExpressionFault(f"range() may have at most {ITEM_LIMIT:,} numbers")
    return list(numbers)


def _has(value: Any, name: str) -> bool:
    return isinstance(value, dict) and name in value


def _round(number: float, digits: int | None = None) -> float:
    if digits is not None and not -20 <= digits <= 20:
        raise ExpressionFault("round() takes between -20 and 20 digits")
    return round(number, digits)


def text_of(value: Any) -> str:
    """A value as a text, which is measured before it is written."""
    if isinstance(value, (list, dict)):
        try:
            weigh(value, Budget(ITEM_LIMIT))
        except InvalidDefinition:
            raise ExpressionFault("the value is too large to be written as a text") from None
    return str(value)


FUNCTIONS: Final[dict[str, Function]] = {
    "abs": abs,
    "all": all,
    "any": any,
    "bool": bool,
    "dict": dict,
    "enumerate": lambda items, start=0: [[start + index, item] for index, item in enumerate(items)],
    "float": float,
    "hasattr": _has,
    "int": int,
    "len": len,
    "list": list,
    "max": max,
    "min": min,
    "range": _range,
    "reversed": lambda items: list(reversed(items)),
    "round": _round,
    "sorted": lambda items, reverse=False: sorted(items, reverse=reverse),
    "str": text_of,
    "sum": lambda items: sum(items),
    "zip": lambda *lists: [list(row) for row in zip(*lists, strict=False)],
}
"""By name. Every argument is plain data, so none can be a function."""


DEEP: Final = frozenset({"all", "any", "count", "index", "max", "min", "remove", "sort", "sorted", "str", "sum"})
"""Functions and methods that look into the items of their arguments, and cost as much."""


def joined(text: str, parts: list[str]) -> str:
    """Texts with another between them."""
    if sum(len(part) for part in parts) + len(text) * len(parts) > TEXT_LIMIT:
        raise ExpressionFault(f"the joined text has more than {TEXT_LIMIT:,} characters")
    return text.join(parts)


def _replace(text: str, old: str, new: str) -> str:
    if len(text) + text.count(old) * len(new) > TEXT_LIMIT:
        raise ExpressionFault(f"the text has more than {TEXT_LIMIT:,} characters")
    return text.replace(old, new)


_TEXT: Final[dict[str, Function]] = {
    **{
        name: getattr(str, name)
        for name in (
            "capitalize", "count", "endswith", "find", "index", "isalpha", "isdigit", "lower", "lstrip", "rfind",
            "rstrip", "split", "splitlines", "startswith", "strip", "title", "upper",
        )
    },
    "join": joined,
    "replace": _replace,
}  # fmt: skip
_LIST: Final[dict[str, Function]] = {"count": list.count, "index": list.index, "copy": list.copy}
_MAP: Final[dict[str, Function]] = {
    "get": dict.get,
    "items": lambda value: [[key, item] for key, item in value.items()],
    "keys": lambda value: list(value),
    "values": lambda value: list(value.values()),
}
_CHANGES: Final[dict[type, dict[str, Function]]] = {
    list: {
        name: getattr(list, name)
        for name in ("append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort")
    },
    dict: {name: getattr(dict, name) for name in ("clear", "pop", "setdefault", "update")},
}
"""Methods that change a value: of scripts alone, since a condition must not."""


def _children(element: dict[str, Any], name: str) -> list[Any]:
    return [child for child in element[XML][2] if is_xml(child) and child[XML][0] == name]


_ELEMENT: Final[dict[str, Function]] = {
    "find": lambda element, name: next(iter(_children(element, name)), None),
    "findall": _children,
    "get": lambda element, name, default=None: element[XML][1].get(name, default),
}
_METHODS: Final[dict[type, dict[str, Function]]] = {str: _TEXT, list: _LIST, dict: _MAP}


_OTHERWISE: Final = frozenset({"replace", "sort", "split"})
"""Methods that ECMAScript has too, and that do something else there."""

METHODS: Final = frozenset(name for table in (_TEXT, _LIST, _MAP, _ELEMENT, *_CHANGES.values()) for name in table)
"""All names of methods."""


def method(value: Any, name: str, *, script: bool, ecmascript: bool) -> Function:
    """A value's method. Raises ExpressionFault where it has none of that name."""
    if ecmascript and name in _OTHERWISE:
        raise ExpressionFault(f"ECMAScript's .{name}() is not known here")
    kind = type(value)
    methods = _ELEMENT if is_xml(value) else _METHODS.get(kind, {})
    if name in methods:
        return methods[name]
    if name in _CHANGES.get(kind, {}):
        if script:
            return _CHANGES[kind][name]
        raise ExpressionFault(f".{name}() changes its value: do that in a <script>")
    raise ExpressionFault(f"a {kind.__name__} has no method {name!r} here")


def member(value: Any, name: str, *, ecmascript: bool) -> Any:
    """A map's member that is written as an attribute, or a part of an XML element."""
    if is_xml(value) and name in ("tag", "attrib", "text"):
        tag, attributes, children = value[XML]
        texts = "".join(child for child in children if isinstance(child, str))
        return {"tag": tag, "attrib": attributes, "text": texts}[name]
    if isinstance(value, dict) and name in value:
        return value[name]
    if ecmascript and name == "length" and isinstance(value, (str, list)):
        return len(value)
    if ecmascript and isinstance(value, dict):
        return None  # undefined
    raise ExpressionFault(f"a {type(value).__name__} has no member {name!r}")


def called(function: Function, arguments: list[Any], named: dict[str, Any]) -> Any:
    """Call a function of these tables. Its result is bounded."""
    result = function(*arguments, **named)
    return bounded(list(result) if isinstance(result, tuple) else result)
