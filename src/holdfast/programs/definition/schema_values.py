"""Values made to fit their JSON Schema's types: a number is a double, an integer a whole number.

This is no validation. It keeps what expressions may rely on: a value in a place for numbers is one, of the right kind.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.expressions.engine import CannotEvaluate
from holdfast.tasks.forms import filled, problems

_NAMES: Final = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


def fit(value: Any, schema: Any, place: tuple[str, ...] = ()) -> Any:
    """The value, its numbers as the schema has them. Raises CannotEvaluate where its type is another."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind == "number":
        if type(value) is int:
            return float(value)
        return _checked(value, float, kind, place)
    if kind == "integer":
        if type(value) is float and value.is_integer():
            return int(value)
        return _checked(value, int, kind, place)
    if kind == "object":
        return _object(_checked(value, dict, kind, place), schema, place)
    if kind == "array":
        items = schema.get("items")
        found = _checked(value, list, kind, place)
        return found if items is None else [fit(item, items, (*place, str(at))) for at, item in enumerate(found)]
    if kind == "string":
        return _checked(value, str, kind, place)
    if kind == "boolean":
        return _checked(value, bool, kind, place)
    return value


def start_problems(schema: dict[str, Any], start: Any) -> list[tuple[str, str]]:
    """What keeps a new run from being started with this. What it leaves out gets the schema's default."""
    return problems(schema, filled(schema, start)) if schema else []


def has_default(schema: Any) -> bool:
    """Whether a schema has a default anywhere in it."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if "default" in part:
                return True
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
    return False


def _checked(value: Any, kind: type, wanted: str, place: tuple[str, ...]) -> Any:
    if type(value) is not kind:
        name = "null" if value is None else _NAMES.get(type(value), type(value).__name__)
        raise CannotEvaluate(
            f"{'.'.join(place) or 'the value'} is of type {wanted}, and this is a value of type {name}"
        )
    return value


def _object(value: dict[str, Any], schema: dict[str, Any], place: tuple[str, ...]) -> dict[str, Any]:
    properties = schema.get("properties")
    if not properties:
        return value
    return {
        name: fit(item, properties[name], (*place, name)) if name in properties else item
        for name, item in value.items()
    }
