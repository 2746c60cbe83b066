"""JSON Schemas of Python types, complete in themselves: what a type refers to stands where it is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.errors import InvalidDefinition

_DEEPEST = 20


def schema_of(kind: Any) -> dict[str, Any]:
    """The schema of a type, or the schema itself. Raises InvalidDefinition."""
    if isinstance(kind, Mapping):
        return dict(kind)
    own = getattr(kind, "model_json_schema", None)
    try:
        schema: dict[str, Any] = own() if callable(own) else msgspec.json.schema(kind)
    except Exception as error:
        raise InvalidDefinition(f"{kind!r} has no JSON Schema: {error}") from error
    named = {**schema.pop("$defs", {}), **schema.pop("definitions", {})}
    found: dict[str, Any] = _inlined(schema, named, 0)
    return found


def _inlined(schema: Any, named: Mapping[str, Any], depth: int) -> Any:
    if depth > _DEEPEST:
        raise InvalidDefinition("a type that contains itself has no complete schema: give a schema by hand")
    if isinstance(schema, Mapping):
        reference = schema.get("$ref")
        if isinstance(reference, str):
            rest = {name: value for name, value in schema.items() if name != "$ref"}
            return {**_inlined(named[reference.rpartition("/")[2]], named, depth + 1), **rest}
        members = ((name, value) for name, value in schema.items() if name != "title" or not isinstance(value, str))
        return {name: _inlined(value, named, depth) for name, value in members}  # a title is the type's name
    if isinstance(schema, list):
        return [_inlined(item, named, depth) for item in schema]
    return schema


def members_of(kind: Any) -> dict[str, Any]:
    """The schemas of a type's members, each with its default; for ``state``."""
    if isinstance(kind, Mapping):
        return dict(kind)
    return dict(schema_of(kind).get("properties", {}))
