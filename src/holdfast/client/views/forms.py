"""A form for people: its fields in order, each with what it wants, in words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from holdfast.tasks.fields import Schema, is_file, ordered, resolved

_DEEPEST: Final = 8
_WORDS: Final = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "yes or no",
    "array": "list",
    "object": "group of fields",
    "null": "nothing",
}
_BOUNDS: Final = (
    ("minimum", "from {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "up to {}"),
    ("exclusiveMaximum", "less than {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {}"),
    ("maxItems", "at most {}"),
    ("pattern", "like {}"),
    ("format", "{}"),
)


class FieldLine(msgspec.Struct, frozen=True):
    """One field of a form. ``depth`` is how many fields it is inside of, ``when`` the condition under which it is
    asked for."""

    name: str
    depth: int
    wants: str
    required: bool
    help: str
    when: str = ""


def field_lines(form: Schema) -> list[FieldLine]:
    """The fields of a form, each before those inside it."""
    return list(_lines(form, form, 0, ""))


def _lines(schema: Schema, form: Schema, depth: int, when: str) -> Iterator[FieldLine]:
    schema = resolved(schema, form)
    if depth > _DEEPEST:
        return
    required = schema.get("required", ())
    for name, member in ordered(schema):
        if isinstance(member, Mapping):
            field = narrowed(resolved(member, form), form)
            help = str(field.get("description") or field.get("title") or "")
            yield FieldLine(name, depth, wanted(field, form), name in required, help, when)
            yield from _lines(_inner(field, form), form, depth + 1, "")
    for part in schema.get("allOf", ()):
        yield from _lines(part, form, depth, when)
    if "if" in schema:
        condition = described(schema["if"])
        yield from _lines(schema.get("then") or {}, form, depth, f"where {condition}")
        yield from _lines(schema.get("else") or {}, form, depth, f"unless {condition}")
    for name, part in schema.get("dependentSchemas", {}).items():
        yield from _lines(part if isinstance(part, Mapping) else {}, form, depth, f"with {name}")


def _inner(field: Schema, form: Schema) -> Schema:
    """What is inside a field: the members of a group, or those of each item of a list."""
    if is_file(field):
        return {}
    items = field.get("items")
    return narrowed(resolved(items, form), form) if isinstance(items, Mapping) else field


def narrowed(field: Schema, form: Schema) -> Schema:
    """The field without the choice of leaving it empty: of "a text or nothing" the text."""
    for word in ("anyOf", "oneOf"):
        ways = [resolved(way, form) for way in field.get(word, ()) if isinstance(way, Mapping)]
        real = [way for way in ways if way.get("type") != "null"]
        if ways and len(real) == 1:
            return {**{name: value for name, value in field.items() if name != word}, **narrowed(real[0], form)}
    kinds = field.get("type")
    if isinstance(kinds, list) and len(real_kinds := [kind for kind in kinds if kind != "null"]) == 1:
        return {**field, "type": real_kinds[0]}
    return field


def is_nullable(field: Schema, form: Schema) -> bool:
    """Whether a field may be left empty by saying so."""
    if field.get("type") == "null" or (isinstance(field.get("type"), list) and "null" in field["type"]):
        return True
    ways = [*field.get("anyOf", ()), *field.get("oneOf", ())]
    return any(resolved(way, form).get("type") == "null" for way in ways if isinstance(way, Mapping))


def wanted(field: Schema, form: Schema) -> str:
    """What a field wants, in words."""
    if is_file(field):
        media = field.get("contentMediaType")
        return f"file ({media})" if media else "file"
    if "const" in field:
        return f"always {_shown(field['const'])}"
    if isinstance(field.get("enum"), list):
        words = "one of " + ", ".join(map(_shown, field["enum"]))
    else:
        kind = field.get("type")
        words = _WORDS.get(kind, "JSON") if isinstance(kind, str) else "JSON"
        if kind == "array" and isinstance(field.get("items"), Mapping):
            words = f"list, each {wanted(narrowed(resolved(field['items'], form), form), form)}"
    bounds = [text.format(field[name]) for name, text in _BOUNDS if name in field]
    default = [f"by default {_shown(field['default'])}"] if "default" in field else []
    return ", ".join([words, *bounds, *default])


def described(condition: Any) -> str:
    """The condition of a form, in words."""
    properties = condition.get("properties", {}) if isinstance(condition, Mapping) else {}
    parts = [
        f"{name} is {_shown(member['const'])}"
        for name, member in properties.items()
        if isinstance(member, Mapping) and "const" in member
    ]
    return " and ".join(parts) if parts and len(parts) == len(properties) else "the form says so"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) and value.isprintable() else json.dumps(value, ensure_ascii=False)
