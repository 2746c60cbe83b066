"""Forms made from JSON Schemas: the fields to show, and the answer that was typed into them.

A field's name on the page is its JSON pointer, so a fault that the check of the answer names finds its field. What a
schema says in other ways than ``tasks/fields`` reads is asked for as JSON. The engine judges the whole answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from starlette.datastructures import FormData, UploadFile

from holdfast.client.governance.attachments import Attachment
from holdfast.client.views.forms import described, is_nullable, narrowed, wanted
from holdfast.client.views.values import plain
from holdfast.errors import InvalidAnswer
from holdfast.tasks.fields import Schema, is_file, ordered, resolved

_DEEPEST: Final = 4
_FORMATS: Final = {"date": "date", "date-time": "text", "email": "email", "uri": "url", "time": "time"}
_LONG: Final = 200

Kind = Literal["text", "lines", "number", "integer", "check", "choice", "json", "file", "group"]


class FormField(msgspec.Struct, frozen=True, kw_only=True):
    """One field. ``pointer`` is its place in the answer; ``value`` what it holds before anything is typed."""

    pointer: str
    label: str
    kind: Kind
    required: bool
    help: str
    wants: str
    value: str = ""
    type: str = "text"  # of a text field, as browsers call it
    choices: tuple[tuple[str, str], ...] = ()
    nullable: bool = False
    fields: tuple[FormField, ...] = ()


def fields_of(form: Schema) -> tuple[FormField, ...]:
    """The fields of a form, in order; one for the whole answer where that is no object."""
    schema = narrowed(resolved(form, form), form)
    if not _members(schema):
        return (_field("", "", schema, form, True, 0),)
    return tuple(_of_object(schema, form, "", 0, ""))


def filled_fields(fields: Sequence[FormField], values: Any) -> tuple[FormField, ...]:
    """The fields with these values in them, by name, where there are some."""
    if not isinstance(values, Mapping):
        return tuple(fields)
    return tuple(_filled(field, values) for field in fields)


def _filled(field: FormField, values: Mapping[str, Any]) -> FormField:
    name = field.pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
    if name not in values:
        return field
    if field.kind == "group":
        return msgspec.structs.replace(field, fields=filled_fields(field.fields, values[name]))
    return msgspec.structs.replace(field, value=_shown(field.kind, plain(values[name])))


def _members(schema: Schema) -> bool:
    return bool(schema.get("properties") or schema.get("allOf") or "if" in schema)


def _of_object(schema: Schema, form: Schema, place: str, depth: int, when: str) -> Iterator[FormField]:
    schema = resolved(schema, form)
    required = schema.get("required", ())
    for name, member in ordered(schema):
        if isinstance(member, Mapping):
            pointer = f"{place}/{name.replace('~', '~0').replace('/', '~1')}"
            yield _field(pointer, name, member, form, name in required and not when, depth, when)
    for part in schema.get("allOf", ()):
        yield from _of_object(part, form, place, depth, when)
    if "if" in schema:
        condition = described(schema["if"])
        yield from _of_object(schema.get("then") or {}, form, place, depth, f"where {condition}")
        yield from _of_object(schema.get("else") or {}, form, place, depth, f"unless {condition}")
    for name, part in schema.get("dependentSchemas", {}).items():
        yield from _of_object(part if isinstance(part, Mapping) else {}, form, place, depth, f"with {name}")


def _field(
    pointer: str, name: str, member: Schema, form: Schema, required: bool, depth: int, when: str = ""
) -> FormField:
    field = narrowed(resolved(member, form), form)
    kind = _kind(field, depth)
    help = str(field.get("description") or "")
    choices = tuple((json.dumps(each), str(each)) for each in field.get("enum", ())) if kind == "choice" else ()
    default = field.get("default")
    inner = tuple(_of_object(field, form, pointer, depth + 1, when)) if kind == "group" else ()
    return FormField(
        pointer=pointer,
        label=str(field.get("title") or name or "Answer"),
        kind=kind,
        required=required,
        help=f"{help} ({when})".strip() if when else help,
        wants=wanted(field, form),
        value=_shown(kind, default),
        type=_FORMATS.get(str(field.get("format")), "text"),
        choices=choices,
        nullable=is_nullable(member, form),
        fields=inner,
    )


def _kind(field: Schema, depth: int) -> Kind:
    if is_file(field):
        return "file"
    if isinstance(field.get("enum"), list):
        return "choice"
    match field.get("type"):
        case "boolean":
            return "check"
        case "integer":
            return "integer"
        case "number":
            return "number"
        case "string":
            return "lines" if int(field.get("maxLength", 0)) > _LONG else "text"
        case "object" if _members(field) and depth < _DEEPEST:
            return "group"
        case _:
            return "json"


def _shown(kind: Kind, default: Any) -> str:
    if default is None:
        return ""
    if kind == "check":
        return "yes" if default is True else ""
    if kind in ("text", "lines"):
        return str(default)
    return json.dumps(default, ensure_ascii=False)


async def read_answer(fields: Sequence[FormField], typed: FormData, prefix: str = "") -> Any:
    """The answer that was typed. Raises InvalidAnswer with every field that cannot be read."""
    faults: list[tuple[str, str]] = []
    if len(fields) == 1 and fields[0].pointer == "":
        found = await _value(fields[0], typed, prefix, faults)
        answer: Any = None if found is _ABSENT else found
    else:
        answer = await _object(fields, typed, prefix, faults)
    if faults:
        words = "; ".join(f"{place}: {what}" for place, what in faults)
        raise InvalidAnswer(f"this cannot be read. {words}", faults)
    return answer


_ABSENT: Final = object()


async def _object(
    fields: Sequence[FormField], typed: FormData, prefix: str, faults: list[tuple[str, str]]
) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    for field in fields:
        value = await _value(field, typed, prefix, faults)
        if value is not _ABSENT:
            name = field.pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
            answer[name] = value
    return answer


async def _value(field: FormField, typed: FormData, prefix: str, faults: list[tuple[str, str]]) -> Any:
    if field.kind == "group":
        inner = await _object(field.fields, typed, prefix, faults)
        return inner if inner or field.required else _ABSENT
    given = typed.get(prefix + field.pointer)
    if field.kind == "check":
        return given is not None
    if isinstance(given, UploadFile):
        data = await given.read()
        return Attachment(given.filename or "file", data, given.content_type or "") if given.filename else _ABSENT
    text = given if isinstance(given, str) else ""
    if not text.strip():
        return _ABSENT
    return _parsed(field, text, faults)


def _parsed(field: FormField, text: str, faults: list[tuple[str, str]]) -> Any:
    if field.kind in ("text", "lines"):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        words = {"number": "it is a number", "integer": "it is a whole number"}
        faults.append((field.pointer, words.get(field.kind, "it is JSON: a text is written in quotes")))
        return None
    if field.kind in ("number", "integer") and (isinstance(value, bool) or not isinstance(value, int | float)):
        faults.append((field.pointer, "it is a number"))
    return value
