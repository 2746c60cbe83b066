"""The fields of a form: walks through its JSON Schema, for defaults, for files, and for whoever asks field by field.

Only what a schema says plainly is read: ``properties``, ``items``, ``allOf``, ``if``/``then``/``else``,
``dependentSchemas``, and references within the form. Everything else is left to the check of the whole answer.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

Schema = Mapping[str, Any]

_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SINGLE: Final = (
    "items",
    "additionalItems",
    "additionalProperties",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_DEEPEST: Final = 50

FILE_MEMBERS: Final = ("name", "sha256", "size", "type")
"""The members by which an answer names a file."""

Holds = Callable[[Schema, Any], bool]
"""Whether a value fits a part of the form."""


def is_file(schema: Any) -> bool:
    """Whether a field is for a file. Text with a media type and a schema of its own is text."""
    if not isinstance(schema, Mapping):
        return False
    return schema.get("format") == "file" or ("contentMediaType" in schema and "contentSchema" not in schema)


def answerable(schema: Any) -> Any:
    """The schema by which answers are checked: a file is an object with its name, type, size and hash."""
    if isinstance(schema, list):
        return [answerable(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    if is_file(schema):
        return _file_schema(schema)
    found = dict(schema)
    for name, part in schema.items():
        if name in _MAPS and isinstance(part, Mapping):
            found[name] = {key: answerable(value) for key, value in part.items()}
        elif name in _SINGLE or name in _LISTS:
            found[name] = answerable(part)
    return found


def _file_schema(schema: Schema) -> dict[str, Any]:
    media = schema.get("contentMediaType")
    kind: dict[str, Any] = {"type": "string"}
    if isinstance(media, str) and media.endswith("/*"):
        kind["pattern"] = f"^{media[:-1].replace('.', '[.]').replace('+', '[+]')}"
    elif isinstance(media, str):
        kind["const"] = media
    return {
        "type": "object",
        "required": list(FILE_MEMBERS),
        "properties": {
            "name": {"type": "string"},
            "type": kind,
            "size": {"type": "integer", "minimum": 0},
            "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        },
        "additionalProperties": False,
    }


def resolved(schema: Any, form: Schema) -> Schema:
    """The schema that a reference within the form means; what stands beside the reference counts, too."""
    for _ in range(_DEEPEST):
        if not isinstance(schema, Mapping) or not isinstance(schema.get("$ref"), str):
            break
        rest = {name: value for name, value in schema.items() if name != "$ref"}
        schema = {**_at(form, schema["$ref"]), **rest}
    return schema if isinstance(schema, Mapping) else {}


def _at(form: Schema, reference: str) -> Schema:
    if not reference.startswith("#"):
        return {}
    found: Any = form
    for part in filter(None, reference[1:].split("/")):
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def parts_of(schema: Schema, form: Schema, value: Any, holds: Holds, depth: int = 0) -> Iterator[Schema]:
    """The schema, and the parts of it that count for this value: conditions that hold, what goes with a member."""
    if depth > _DEEPEST:
        return
    schema = resolved(schema, form)
    yield schema
    inner = list(schema.get("allOf", ()))
    if "if" in schema:
        inner.append(schema.get("then" if holds(schema["if"], value) else "else", {}))
    if isinstance(value, Mapping):
        inner += [part for name, part in schema.get("dependentSchemas", {}).items() if name in value]
    for part in inner:
        if isinstance(part, Mapping):
            yield from parts_of(part, form, value, holds, depth + 1)


def ordered(schema: Schema) -> list[tuple[str, Any]]:
    """The members of a schema in the order in which people are asked for them: as ``x-order`` lists them, then as
    ``required`` does, then by name. The order of the members themselves is not kept anywhere."""
    places: dict[str, int] = {}
    for name in [*schema.get("x-order", ()), *schema.get("required", ())]:
        places.setdefault(name, len(places))
    return sorted(schema.get("properties", {}).items(), key=lambda item: (places.get(item[0], len(places)), item[0]))


def fields_of(schema: Schema, form: Schema, value: Any, holds: Holds) -> dict[str, Schema]:
    """The members that an object has by its schema and by what is in it already, in the order of the form."""
    found: dict[str, Schema] = {}
    for part in parts_of(schema, form, value, holds):
        for name, member in ordered(part):
            known = found.get(name, {})
            found[name] = {**known, **resolved(member, form)} if isinstance(member, Mapping) else known
    return found


def required_of(schema: Schema, form: Schema, value: Any, holds: Holds) -> set[str]:
    """The members that an object must have, by its schema and by what is in it already."""
    found: set[str] = set()
    for part in parts_of(schema, form, value, holds):
        found.update(part.get("required", ()))
        if isinstance(value, Mapping):
            for name, others in part.get("dependentRequired", {}).items():
                found.update(others if name in value else ())
    return found


def with_defaults(value: Any, schema: Schema, form: Schema, holds: Holds, depth: int = 0) -> Any:
    """The value with the defaults of the members that it leaves out."""
    if depth > _DEEPEST:
        return value
    if isinstance(value, list):
        items = next((part["items"] for part in parts_of(schema, form, value, holds) if "items" in part), None)
        return [with_defaults(item, items, form, holds, depth + 1) for item in value] if items is not None else value
    if not isinstance(value, dict):
        return value
    filled = dict(value)
    for _ in range(_DEEPEST):  # a default may make a condition hold, and that brings further defaults
        fields = fields_of(schema, form, filled, holds)
        missing = {name: field for name, field in fields.items() if name not in filled and "default" in field}
        if not missing:
            break
        filled.update({name: copy.deepcopy(field["default"]) for name, field in missing.items()})
    return {
        name: with_defaults(item, fields[name], form, holds, depth + 1) if name in fields else item
        for name, item in filled.items()
    }
