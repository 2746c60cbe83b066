"""Shapes: what JSON Schema says of a value before it is there."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.expressions.shapes import (
    BOOL,
    DOUBLE,
    DYN,
    INT,
    NULL,
    STRING,
    ValueShape,
    could_be,
    fitted,
    list_of,
    map_of,
    shape_of,
)


@pytest.mark.parametrize(
    ("schema", "shape"),
    [
        ({"type": "number"}, DOUBLE),
        ({"type": "integer"}, INT),
        ({"type": "string", "format": "date-time"}, STRING),
        ({"type": "boolean"}, BOOL),
        ({"type": "null"}, NULL),
        ({"type": "array"}, list_of(DYN)),
        ({"type": "array", "items": {"type": "integer"}}, list_of(INT)),
        ({"enum": ["a", "b"]}, STRING),
        ({"enum": [1, 2.5]}, DOUBLE),
        ({"enum": [True, 1]}, DYN),
        ({"const": 3}, INT),
        ({"type": "integer", "enum": [1, 2]}, INT),
        ({"type": ["string", "null"]}, DYN),
        ({"oneOf": [{"type": "string"}]}, DYN),
        ({"type": "object", "anyOf": []}, DYN),
        ({}, DYN),
        (True, DYN),
        (None, DYN),
        ({"type": "whatever"}, DYN),
        ({"type": "object"}, ValueShape("map", DYN)),
        ({"type": "object", "additionalProperties": {"type": "number"}}, ValueShape("map", DOUBLE)),
        (
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            map_of({"a": INT}, required=["a"], closed=False),
        ),
        ({"properties": {"a": {}}, "additionalProperties": False}, map_of({"a": DYN})),
        (
            {"$ref": "#/$defs/line", "$defs": {"line": {"type": "array", "items": {"$ref": "#/$defs/n"}},
                                               "n": {"type": "number"}}},
            list_of(DOUBLE),
        ),
        ({"$ref": "https://example.com/schema"}, DYN),
        ({"$ref": "#"}, DYN),
    ],
)  # fmt: skip
def test_a_schema_has_a_shape(schema: Any, shape: ValueShape) -> None:
    """What is not understood is not known, and nothing is refused."""
    assert shape_of(schema) == shape


def test_a_schema_within_itself_ends() -> None:
    """However often it refers to itself."""
    node = {"type": "object", "properties": {name: {"$ref": "#/$defs/node"} for name in "abcdefgh"}}
    shape = shape_of({"$defs": {"node": node}, "$ref": "#/$defs/node"})
    assert shape.members["a"] == DYN
    deep: dict[str, Any] = {"type": "integer"}
    for _ in range(500):
        deep = {"type": "array", "items": deep}
    assert shape_of(deep).kind == "list"


def test_objects_can_be_read_as_closed() -> None:
    """As a Python class's are, unless the schema says otherwise."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert not shape_of(schema).closed
    assert shape_of(schema, closed=True).closed
    assert not shape_of({**schema, "additionalProperties": True}, closed=True).closed
    assert not shape_of({"type": "object"}, closed=True).closed


@pytest.mark.parametrize(
    ("value", "shape", "wanted"),
    [
        (1, DOUBLE, 1.0),
        (True, DOUBLE, True),
        (2.0, INT, 2),
        (2.5, INT, 2.5),
        (1e30, INT, 1e30),
        (10**400, DOUBLE, 10**400),
        (1, DYN, 1),
        ("1", DOUBLE, "1"),
        ((1, 2), list_of(DOUBLE), [1.0, 2.0]),
        ({"a": 1, "b": 1}, map_of({"a": DOUBLE}), {"a": 1.0, "b": 1}),
        ({"a": 1}, ValueShape("map", DOUBLE), {"a": 1.0}),
    ],
)
def test_numbers_are_made_to_fit(value: Any, shape: ValueShape, wanted: Any) -> None:
    """What does not fit is left alone."""
    assert repr(fitted(value, shape)) == repr(wanted)


def test_what_could_be_what() -> None:
    """Only what can never fit is refused."""
    assert could_be(INT, DOUBLE)
    assert not could_be(DOUBLE, INT)
    assert could_be(DYN, STRING)
    assert could_be(list_of(INT), list_of(DYN))
    assert not could_be(list_of(INT), list_of(STRING))
    assert not could_be(map_of({"a": INT}), map_of({"a": STRING}))
    assert could_be(map_of({"a": INT}), map_of({"b": STRING}))
