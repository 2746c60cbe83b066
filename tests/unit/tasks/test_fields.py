"""The fields of a form: defaults, files, order, and what depends on other fields; as tables."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import InvalidRequest
from holdfast.tasks.fields import answerable, fields_of, is_file, ordered, required_of
from holdfast.tasks.files import FileReference, files_in
from holdfast.tasks.forms import check_form, filled, form_problems, holds_in

HASH = "0" * 64
FILE = {"name": "a.pdf", "type": "application/pdf", "size": 1, "sha256": HASH}
PDF = {"format": "file", "contentMediaType": "application/pdf"}


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("form", "given", "expected"),
    [
        (an_object(a={"default": 1}), {}, {"a": 1}),
        (an_object(a={"default": 1}), {"a": None}, {"a": None}),
        (an_object(a={"default": 1}), "text", "text"),
        (an_object(a=an_object(b={"default": 1})), {"a": {}}, {"a": {"b": 1}}),
        (an_object(a=an_object(b={"default": 1})), {}, {}),
        ({"items": an_object(b={"default": 1})}, [{}, {"b": 2}, 3], [{"b": 1}, {"b": 2}, 3]),
        ({"$ref": "#/$defs/x", "$defs": {"x": an_object(a={"default": 1})}}, {}, {"a": 1}),
        ({"allOf": [an_object(a={"default": 1}), an_object(b={"default": 2})]}, {}, {"a": 1, "b": 2}),
        ({"dependentSchemas": {"a": an_object(b={"default": 1})}}, {"a": 0}, {"a": 0, "b": 1}),
        ({"dependentSchemas": {"a": an_object(b={"default": 1})}}, {}, {}),
        (
            {"if": {"required": ["a"]}, "then": an_object(b={"default": 1}), "else": an_object(c={"default": 2})},
            {"a": 0},
            {"a": 0, "b": 1},
        ),
        (
            {"if": {"required": ["a"]}, "then": an_object(b={"default": 1}), "else": an_object(c={"default": 2})},
            {},
            {"c": 2},
        ),
        (  # a default makes a condition hold, which brings another default
            {
                **an_object(kind={"default": "gift"}),
                "if": {"properties": {"kind": {"const": "gift"}}, "required": ["kind"]},
                "then": an_object(paper={"default": "gold"}),
            },
            {},
            {"kind": "gift", "paper": "gold"},
        ),
        ({"$ref": "#"}, {"a": 1}, {"a": 1}),
    ],
)
def test_defaults_are_filled_in(form: dict[str, Any], given: object, expected: object) -> None:
    assert filled(form, given) == expected


def test_a_default_is_a_copy() -> None:
    """Two answers to one form share nothing."""
    form = an_object(a={"default": []})
    first = filled(form, {})
    first["a"].append(1)
    assert filled(form, {}) == {"a": []}


def test_a_form_that_contains_itself_is_filled_in_as_far_as_the_answer_goes() -> None:
    tree = {"$ref": "#/$defs/t", "$defs": {"t": an_object(n={"default": 0}, inside={"$ref": "#/$defs/t"})}}
    assert filled(tree, {"inside": {"inside": {}}}) == {"n": 0, "inside": {"n": 0, "inside": {"n": 0}}}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"format": "file"}, True),
        ({"type": "string", "contentMediaType": "image/png"}, True),
        ({"type": "string", "contentMediaType": "application/json", "contentSchema": {}}, False),
        ({"type": "string"}, False),
        (True, False),
    ],
)
def test_what_is_a_file(schema: object, expected: bool) -> None:
    assert is_file(schema) == expected


def test_a_member_that_is_called_like_a_word_of_schemas_is_no_such_word() -> None:
    """Values are not schemas, whatever they look like; members named ``default`` or ``items`` are fields."""
    form = an_object(default=PDF, format={"type": "string"}, x={"const": {"format": "file"}, "enum": [PDF]})
    found = answerable(form)["properties"]
    assert found["default"]["required"] == ["name", "sha256", "size", "type"]
    assert found["format"] == {"type": "string"}
    assert found["x"] == {"const": {"format": "file"}, "enum": [PDF]}


@pytest.mark.parametrize(
    ("form", "value", "expected"),
    [
        (an_object(a=PDF), {"a": FILE}, []),
        (an_object(a=PDF), {"a": "a.pdf"}, ["/a"]),
        (an_object(a=PDF), {"a": {**FILE, "type": "image/png"}}, ["/a"]),
        (an_object(a=PDF), {"a": {**FILE, "sha256": "x", "more": 1}}, ["/a"]),
        (an_object(a={"format": "file", "contentMediaType": "image/*"}), {"a": {**FILE, "type": "image/x.y+z"}}, []),
        (an_object(a={"format": "file", "contentMediaType": "image/*"}), {"a": FILE}, ["/a"]),
        ({**an_object(a={"$ref": "#/$defs/f"}), "$defs": {"f": PDF}}, {"a": 1}, ["/a"]),
        (an_object(a={"type": "array", "items": PDF}), {"a": [FILE, 1]}, ["/a/1"]),
        ({**an_object(a={"type": "integer"}), "required": ["b"]}, {"a": "x"}, ["", "/a"]),
    ],
)
def test_problems_have_their_places(form: dict[str, Any], value: object, expected: list[str]) -> None:
    assert [place for place, _ in form_problems(form, value)] == expected


def test_fields_come_in_the_order_of_the_form_and_of_its_conditions() -> None:
    form = {
        "properties": {"z": {}, "a": {}, "m": {}, "b": {}},
        "x-order": ["m"],
        "required": ["z"],
        "if": {"properties": {"m": {"const": 1}}, "required": ["m"]},
        "then": {"properties": {"late": {}}, "required": ["late"]},
        "dependentRequired": {"a": ["b"]},
    }
    assert [name for name, _ in ordered(form)] == ["m", "z", "a", "b"]
    holds = holds_in(form)
    assert list(fields_of(form, form, {}, holds)) == ["m", "z", "a", "b"]
    assert list(fields_of(form, form, {"m": 1}, holds)) == ["m", "z", "a", "b", "late"]
    assert required_of(form, form, {}, holds) == {"z"}
    assert required_of(form, form, {"m": 1, "a": 2}, holds) == {"z", "late", "b"}


def test_a_condition_that_cannot_be_read_holds_for_nothing() -> None:
    assert not holds_in({})({"type": "no such"}, 1)


def test_the_files_of_an_answer_are_found_with_their_places() -> None:
    value = {"b/c": [FILE, {"x": FILE}], "a": {**FILE, "size": "1"}, "n": {**FILE, "sha256": "zz"}}
    assert list(files_in(value)) == [
        ("/b~1c/0", FileReference("a.pdf", HASH, 1, "application/pdf")),
        ("/b~1c/1/x", FileReference("a.pdf", HASH, 1, "application/pdf")),
    ]


@pytest.mark.parametrize("form", [{"type": "no such"}, {"$ref": "http://example.com/x"}, {"minLength": "x"}])
def test_what_is_no_form_is_refused(form: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="no JSON Schema"):
        check_form(form)
