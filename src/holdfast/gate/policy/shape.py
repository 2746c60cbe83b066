"""Checks plain data by a JSON Schema, and describes everything that does not fit in words.

It knows only the parts of JSON Schema that ``msgspec.json.schema`` writes. Its messages include the descriptions of the
schema, so the editor and the message about a refused file explain a key in the same words.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from holdfast.gate.policy.place import Path

Schema = Mapping[str, Any]

_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_WORDS: Final = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "nothing",
}


class Misfit(NamedTuple):
    """A part that does not fit. ``key`` is whether the key is wrong, and not the value."""

    path: Path
    what: str
    key: bool = False


def misfits(data: Any, schema: Schema) -> Iterator[Misfit]:
    """All parts of the data that do not fit the schema."""
    yield from _value(data, schema, schema.get("$defs", {}), ())


def nearest(name: str, known: Iterable[str]) -> str:
    """``: did you mean …?``, or a list of the known names."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, 1)
    return f": did you mean `{close[0]}`?" if close else f": there are {', '.join(f'`{each}`' for each in names)}"


def _value(data: Any, schema: Schema, defs: Schema, path: Path) -> Iterator[Misfit]:
    if "$ref" in schema:
        yield from _value(data, defs[schema["$ref"].rpartition("/")[2]], defs, path)
    elif "discriminator" in schema and isinstance(data, dict):
        yield from _tagged(data, schema["discriminator"], defs, path)
    elif not _fits(data, schema, defs):
        yield Misfit(path, f"{_subject(path)} must be {_expected(schema, defs)}, not {_describe(data)}{_about(schema)}")
    elif "anyOf" in schema:
        fitting = next(each for each in schema["anyOf"] if _fits(data, _resolved(each, defs), defs))
        yield from _value(data, fitting, defs, path)
    elif isinstance(data, dict):
        yield from _mapping(data, schema, defs, path)
    elif isinstance(data, list):
        for index, item in enumerate(data):
            yield from _value(item, schema.get("items", {}), defs, (*path, index))


def _tagged(data: dict[str, Any], discriminator: Schema, defs: Schema, path: Path) -> Iterator[Misfit]:
    """One of several shapes, which one key distinguishes."""
    field, mapping = discriminator["propertyName"], discriminator["mapping"]
    tag = data.get(field)
    if field not in data:
        yield Misfit(path, f"`{field}` is missing: write one of {_list(mapping)}")
    elif not isinstance(tag, str) or tag not in mapping:
        yield Misfit((*path, field), f"`{field}` must be one of {_list(mapping)}, not {_describe(tag)}")
    else:
        yield from _value(data, {"$ref": mapping[tag]}, defs, path)


def _mapping(data: dict[str, Any], schema: Schema, defs: Schema, path: Path) -> Iterator[Misfit]:
    known: Schema = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    for key, value in data.items():
        if key in known:
            yield from _value(value, known[key], defs, (*path, key))
        elif others is False:
            yield Misfit((*path, key), f"`{key}` is not known here{nearest(key, known)}", key=True)
        elif isinstance(others, dict):
            yield from _value(value, others, defs, (*path, key))
    for key in schema.get("required", ()):
        if key not in data:
            yield Misfit(path, f"`{key}` is missing{_about(known[key]) or f': write {_expected(known[key], defs)}'}")


def _fits(data: Any, schema: Schema, defs: Schema) -> bool:
    """Whether a value itself is right; its parts are checked elsewhere."""
    if "anyOf" in schema:
        return any(_fits(data, _resolved(each, defs), defs) for each in schema["anyOf"])
    if "enum" in schema:
        return any(data == each and type(data) is type(each) for each in schema["enum"])
    kind = schema.get("type")
    if kind is None:
        return True
    if not isinstance(data, _KINDS[kind]) or (isinstance(data, bool) and kind != "boolean"):
        return False
    if isinstance(data, str):
        return bool(len(data) >= schema.get("minLength", 0) and re.search(schema.get("pattern", ""), data))
    if isinstance(data, list):
        return bool(len(data) >= schema.get("minItems", 0))
    if isinstance(data, int | float) and not isinstance(data, bool):
        return bool(schema.get("minimum", data) <= data <= schema.get("maximum", data))
    return True


def _resolved(schema: Schema, defs: Schema) -> Schema:
    found: Schema = defs[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return found


def _expected(schema: Schema, defs: Schema) -> str:
    schema = _resolved(schema, defs)
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_expected(each, defs) for each in schema["anyOf"]))
    if "enum" in schema:
        return f"one of {_list(schema['enum'])}" if len(schema["enum"]) > 1 else str(schema["enum"][0])
    words = _WORDS.get(schema.get("type", ""), "something else")
    if "minimum" in schema:
        words += f", {schema['minimum']}" + (f" to {schema['maximum']}" if "maximum" in schema else " or more")
    if schema.get("minItems") or schema.get("minLength"):
        words += " that is not empty"
    if "examples" in schema:
        words += f" like {schema['examples'][0]}"
    return words


def _subject(path: Path) -> str:
    if not path:
        return "the file"
    return f"`{path[-1]}`" if isinstance(path[-1], str) else f"each of `{path[-2]}`" if len(path) > 1 else "each entry"


def _about(schema: Schema) -> str:
    return f": {schema['description']}" if "description" in schema else ""


def _list(names: Iterable[Any]) -> str:
    return ", ".join(str(name) for name in names)


def _describe(data: Any) -> str:
    match data:
        case dict():
            return "a mapping"
        case list():
            return "a list" if data else "an empty list"
        case None:
            return "nothing"
        case bool():
            return "true" if data else "false"
        case str():
            return repr(data) if len(data) <= 60 else f"{data[:60]!r}…"
        case _:
            return str(data)
