"""What is known of a value before it is there: its type, its members, its items. Made from JSON Schema.

``number`` is a double and ``integer`` an int. Where a schema allows several types, nothing is known: ``dyn``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

ShapeKind = Literal[
    "bool", "bytes", "double", "duration", "dyn", "int", "list", "map", "null", "optional", "string", "timestamp",
    "type", "uint",
]  # fmt: skip

_DEEPEST_SCHEMA: Final = 64
_COMBINED: Final = ("oneOf", "anyOf", "allOf", "not", "if")


@dataclass(frozen=True, slots=True)
class ValueShape:
    """A type. ``inner`` is of a list's items, of a map's other values, or of what an optional holds.

    A map has ``members`` where their names are known; a ``closed`` one has no others.
    """

    kind: ShapeKind
    inner: ValueShape | None = None
    members: Mapping[str, ValueShape] = field(default_factory=dict, hash=False)
    required: frozenset[str] = frozenset()
    closed: bool = False
    has_numbers: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        inner = (self.inner, *self.members.values())
        found = self.kind in ("int", "double") or any(part is not None and part.has_numbers for part in inner)
        object.__setattr__(self, "has_numbers", found)

    def __str__(self) -> str:
        if self.kind == "list" and self.inner is not None and self.inner.kind != "dyn":
            return f"list of {self.inner}"
        return self.kind

    @property
    def with_article(self) -> str:
        """As a sentence needs it."""
        return "null" if self.kind == "null" else f"{'an' if str(self)[0] in 'io' else 'a'} {self}"

    @property
    def contained(self) -> ValueShape:
        """What it holds, as far as that is known."""
        return self.inner or DYN


DYN: Final = ValueShape("dyn")
BOOL: Final = ValueShape("bool")
BYTES: Final = ValueShape("bytes")
DOUBLE: Final = ValueShape("double")
DURATION: Final = ValueShape("duration")
INT: Final = ValueShape("int")
MAP: Final = ValueShape("map")
NULL: Final = ValueShape("null")
STRING: Final = ValueShape("string")
TIMESTAMP: Final = ValueShape("timestamp")
TYPE: Final = ValueShape("type")
UINT: Final = ValueShape("uint")

_SIMPLE: Final[Mapping[str, ValueShape]] = {
    "number": DOUBLE, "integer": INT, "string": STRING, "boolean": BOOL, "null": NULL,
}  # fmt: skip


def list_of(inner: ValueShape = DYN) -> ValueShape:
    """A list whose items have this shape."""
    return ValueShape("list", inner)


def optional_of(inner: ValueShape) -> ValueShape:
    """A value that may be missing: ``a.?b``."""
    return ValueShape("optional", inner)


def map_of(members: Mapping[str, ValueShape], *, required: Iterable[str] = (), closed: bool = True) -> ValueShape:
    """A map with these members, and unless it is ``closed``, with any others."""
    return ValueShape("map", DYN, dict(members), frozenset(required), closed)


def shape_of(schema: Any, *, closed: bool = False) -> ValueShape:
    """The shape of what a JSON Schema allows. It is never refused: what is not understood is ``dyn``.

    With ``closed``, an object that names its properties has no others unless ``additionalProperties`` says so.
    """
    return _Reader(schema, closed).shape(schema, ())


class _Reader:
    """``within`` are the references, and a blank for each level, in which a schema stands. One in itself is ``dyn``."""

    def __init__(self, document: Any, closed: bool) -> None:
        self._document = document
        self._closed = closed

    def shape(self, schema: Any, within: tuple[str, ...]) -> ValueShape:
        if (
            not isinstance(schema, Mapping)
            or len(within) > _DEEPEST_SCHEMA
            or any(word in schema for word in _COMBINED)
        ):
            return DYN
        if "$ref" in schema:
            reference = schema["$ref"]
            return DYN if reference in within else self.shape(self._resolved(reference), (*within, str(reference)))
        kind = schema.get("type", "object" if "properties" in schema else None)
        if kind == "array":
            return list_of(self.shape(schema.get("items"), (*within, "")))
        if kind == "object":
            return self._object(schema, within)
        if kind is None:
            return _among(schema)
        return _SIMPLE.get(kind, DYN) if isinstance(kind, str) else DYN

    def _object(self, schema: Mapping[str, Any], within: tuple[str, ...]) -> ValueShape:
        properties = schema.get("properties")
        members = properties if isinstance(properties, Mapping) else {}
        others = schema.get("additionalProperties", not (self._closed and members))
        open_names = "patternProperties" in schema or others is not False
        required = schema.get("required")
        return ValueShape(
            "map",
            self.shape(others, (*within, "")),
            {str(name): self.shape(member, (*within, "")) for name, member in members.items()},
            frozenset(map(str, required)) if isinstance(required, list | tuple) else frozenset(),
            closed=not open_names,
        )

    def _resolved(self, reference: Any) -> Any:
        """What a reference within the document points to."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        found = self._document
        for step in reference.removeprefix("#").split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        return found


def _among(schema: Mapping[str, Any]) -> ValueShape:
    """The shape of ``enum`` or ``const``, where all its values have one."""
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(values, list | tuple) or not values:
        return DYN
    kinds = {_of_value(value) for value in values}
    if kinds == {INT, DOUBLE}:
        return DOUBLE
    return kinds.pop() if len(kinds) == 1 else DYN


def _of_value(value: Any) -> ValueShape:
    match value:
        case None:
            return NULL
        case bool():
            return BOOL
        case int():
            return INT
        case float():
            return DOUBLE
        case str():
            return STRING
    return DYN


def fitted(value: Any, shape: ValueShape) -> Any:
    """The value with its numbers as the shape has them: JSON writes a double as ``1``, and an int as ``1.0``.

    What does not fit stays as it is, and is found where it is used.
    """
    if not shape.has_numbers:
        return value
    kind = type(value)
    if kind is int and shape.kind == "double":
        return _as_double(value)
    if kind is float and shape.kind == "int" and value.is_integer() and -(2**63) <= value < 2**63:
        return int(value)
    if kind in (list, tuple) and shape.kind == "list":
        return [fitted(item, shape.contained) for item in value]
    if isinstance(value, Mapping) and shape.kind == "map":
        return {name: fitted(item, shape.members.get(name, shape.contained)) for name, item in value.items()}
    return value


def _as_double(value: int) -> float | int:
    try:
        return float(value)
    except OverflowError:
        return value


def joined(one: ValueShape, other: ValueShape) -> ValueShape:
    """What is known of a value that is one or the other."""
    if one == other:
        return one
    if one.kind == other.kind == "list":
        return list_of(joined(one.contained, other.contained))
    if one.kind == other.kind == "optional":
        return optional_of(joined(one.contained, other.contained))
    if one.kind == other.kind == "map":
        return ValueShape("map", DYN)
    return DYN


def could_be(given: ValueShape, wanted: ValueShape) -> bool:
    """Whether a value of one shape may be one of another."""
    if "dyn" in (given.kind, wanted.kind):
        return True
    if given.kind != wanted.kind:
        return given.kind in ("int", "uint") and wanted.kind == "double"
    if given.kind == "map":
        shared = given.members.keys() & wanted.members.keys()
        return all(could_be(given.members[name], wanted.members[name]) for name in shared)
    return could_be(given.contained, wanted.contained)


def could_equal(one: ValueShape, other: ValueShape) -> bool:
    """Whether two values can be equal; a comparison with null is always allowed."""
    if {"dyn", "null"} & {one.kind, other.kind}:
        return True
    if one.kind == other.kind == "list":
        return could_equal(one.contained, other.contained)
    return one.kind == other.kind or {one.kind, other.kind} == {"int", "double"}
