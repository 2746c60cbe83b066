"""Key fields: where in an event its key stands, such as ``order_id``, ``order.id`` or ``$value.note_id``.

``$value`` is the event itself, which a machine of several events gets as one of them; it may be left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_VALUE: Final = "$value"
_NULL: Final = ("null", "", "")
_ANYTHING: Final = ("", "", "")
_DEEPEST: Final = 20

KeyPath = tuple[str, ...]
"""The names that lead from an event to its key."""


class NoKey(Exception):
    """There is nothing at a key's place: ``field`` is how far the way leads."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field!r} {problem}")
        self.field = field


def path_of(key_field: str) -> KeyPath:
    """The names of a key field. Raises ValueError for what is none."""
    first, *rest = key_field.split(".")
    names = rest if first == _VALUE else [first, *rest]
    if not names or not all(names) or any(name.startswith("$") for name in names):
        raise ValueError(f"{key_field!r} is no key field: write names of fields with points between, such as order.id")
    return tuple(names)


def key_in(value: object, path: KeyPath) -> object:
    """The key in an event's plain data. Raises NoKey where it has none."""
    for depth, name in enumerate(path, 1):
        field = ".".join(path[:depth])
        if not isinstance(value, dict) or name not in value:
            raise NoKey(field, "is not there")
        value = value[name]
        if value is None:
            raise NoKey(field, "is null")
    return value


def schema_at(schema: Mapping[str, Any], path: KeyPath) -> list[Mapping[str, Any]]:
    """The JSON Schemas that a key field can have in an event, without those of null. Raises NoKey."""
    found = _alternatives(schema, schema, 0)
    for depth, name in enumerate(path, 1):
        inner = [each["properties"][name] for each in found if name in each.get("properties", {})]
        if not inner and any(_shape(each) == _ANYTHING for each in found):
            return [{}]
        if not inner:
            raise NoKey(".".join(path[:depth]), "is no field of it")
        found = [each for one in inner for each in _alternatives(one, schema, 0)]
    return [each for each in found if _shape(each) != _NULL]


def fits(fields: list[Mapping[str, Any]], key: Mapping[str, Any]) -> bool:
    """Whether whatever is in a field of these schemas is of the key's type."""
    allowed = {_shape(each) for each in _alternatives(key, key, 0)}
    return _ANYTHING in allowed or all(_shape(each) in {*allowed, _ANYTHING} for each in fields)


def _alternatives(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> list[Mapping[str, Any]]:
    """A schema as the list of those of which one must hold, its references followed."""
    reference = schema.get("$ref")
    if isinstance(reference, str) and depth < _DEEPEST:
        _, kind, name = (*reference.split("/", 2), "", "")[:3]
        return _alternatives(root.get(kind, {}).get(name, {}), root, depth + 1)
    some = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(some, list) and depth < _DEEPEST:
        return [each for one in some for each in _alternatives(one, root, depth + 1)]
    return [schema]


def _shape(schema: Mapping[str, Any]) -> tuple[str, str, str]:
    kind = schema.get("type", "")
    values = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
    if not kind and values:
        kinds = {_NAMES.get(type(value), "") for value in values}
        kind = kinds.pop() if len(kinds) == 1 else ""
    if not isinstance(kind, str):
        return _ANYTHING
    return kind, str(schema.get("format", "")), str(schema.get("contentEncoding", ""))


_NAMES: Final = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
