"""Named schemas: a value has one form, and nothing that is not of a schema gets through it."""

from __future__ import annotations

import datetime
import enum
import math
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NewType, TypedDict

import cbor2
import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidFunction, SchemaMismatch
from holdfast.programs.machine.schemas import ValueSchema, arms_of, name_of, parse_name, scalar_schemas, schema


@dataclass
class Line:
    sku: str
    count: int = 1


@dataclass
class Placed:
    order_id: str
    cents: int
    weight: float = 0.5
    lines: list[Line] = field(default_factory=list)
    note: str | None = None


class Paid(msgspec.Struct, frozen=True):
    order_id: str
    at: datetime.datetime
    by: uuid.UUID
    amount: Decimal
    proof: bytes
    tags: set[str] = set()


class Brief(msgspec.Struct, omit_defaults=True):
    name: str
    size: int = 3


@schema("acme/Shipped@2")
class Shipped(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    order_id: str
    at: datetime.datetime
    parcels: int = 1


class Cancelled(TypedDict):
    order_id: str
    because: str


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Painted(msgspec.Struct):
    __schema__ = "acme/Painted@7"

    colour: Colour


class Repainted(Painted):
    """A subclass is another type, and has the name of its own class."""


PLACED = ValueSchema(Placed)
NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)

VALUES: list[Any] = [
    Placed("o1", 500),
    Placed("o1", 2**70, 1.1, [Line("a", 2), Line("b")], "wrap it"),
    Placed("o1", -1, math.inf),
    Paid("o1", NOW, uuid.UUID(int=7), Decimal("1.50"), b"\0\xff", {"b", "a"}),
    Brief("x"),
    Brief("x", 4),
    Shipped(order_id="o1", at=NOW),
    Painted(Colour.RED),
    "text",
    7,
    1.5,
    True,
    b"bytes",
    uuid.UUID(int=9),
    Decimal("2.00"),
    NOW,
    NOW.date(),
    datetime.timedelta(seconds=90),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{type(value).__name__}")
def test_a_value_is_read_as_it_was_written(value: Any) -> None:
    found = ValueSchema(type(value))
    data = found.encode(value)
    again = found.decode(data)
    assert (again, type(again)) == (value, type(value))
    assert found.encode(again) == data == cbor2.dumps(cbor2.loads(data), canonical=True)


def test_a_typed_dict_is_a_schema() -> None:
    found = ValueSchema(Cancelled)
    value = {"order_id": "o1", "because": "late"}
    assert found.name == "app/Cancelled@1"
    assert found.decode(found.encode(value)) == value
    with pytest.raises(SchemaMismatch, match="because"):
        found.encode({"order_id": "o1"})


def test_names_are_of_the_class_or_as_the_author_says() -> None:
    names = {kind: name_of(kind) for kind in (Placed, Shipped, Painted, Repainted, Colour, str, uuid.UUID)}
    assert names == {
        Placed: "app/Placed@1",
        Shipped: "acme/Shipped@2",
        Painted: "acme/Painted@7",
        Repainted: "app/Repainted@1",
        Colour: "app/Colour@1",
        str: "sys/Text@1",
        uuid.UUID: "sys/Uuid@1",
    }
    assert str(parse_name("com.acme/order.step@12")) == "com.acme/order.step@12"
    assert scalar_schemas()["sys/Integer@1"].kind is int


@pytest.mark.parametrize(
    "name", ["Placed", "app/Placed", "app/Placed@0", "app/Placed@x", "/P@1", "a b/P@1", "a/P@1\n", ""]
)
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidFunction, match="namespace/Name@1"):
        schema(name)
    with pytest.raises(ValueError, match="namespace/Name@1"):
        ValueSchema(Placed, name)


@pytest.mark.parametrize("kind", [list[int], int | str, dict[str, int]])
def test_a_type_without_a_name_is_no_schema(kind: Any) -> None:
    with pytest.raises(InvalidFunction, match="has no name"):
        ValueSchema(kind)


def test_a_type_that_is_no_data_is_no_schema() -> None:
    class Connection:
        pass

    with pytest.raises(InvalidFunction, match="of plain data"):
        ValueSchema(Connection)


WRONG_VALUES: list[tuple[type, Any, str]] = [
    (Placed, Line("a"), ""),
    (Placed, {"order_id": "o1", "cents": 5}, ""),
    (Placed, Placed(5, 5), "order_id"),  # type: ignore[arg-type]
    (Placed, Placed("o1", "5"), "cents"),  # type: ignore[arg-type]
    (Placed, Placed("o1", True), "cents"),
    (Placed, Placed("o1", 5.0), "cents"),  # type: ignore[arg-type]
    (Placed, Placed("o1", 5, lines=[Line("a"), Line("b", "2")]), "lines[1].count"),  # type: ignore[arg-type]
    (Placed, Placed("o1", 5, note=object()), ""),  # type: ignore[arg-type]
    (Placed, Placed("\ud800", 5), ""),
    (Shipped, Shipped.model_construct(order_id="o1", at=NOW, parcels="2"), "parcels"),
    (int, True, ""),
    (int, 1.0, ""),
    (str, b"a", ""),
    (float, "1", ""),
    (bytes, "a", ""),
]


@pytest.mark.parametrize(("kind", "value", "place"), WRONG_VALUES)
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_a_value_of_another_type_is_not_written(kind: type, value: Any, place: str) -> None:
    with pytest.raises(SchemaMismatch) as caught:
        ValueSchema(kind).encode(value)
    assert caught.value.field == place
    assert place in str(caught.value)
    assert name_of(kind) in str(caught.value)


def plain(**changes: Any) -> dict[str, Any]:
    whole = {"order_id": "o1", "cents": 5, "weight": 0.5, "lines": [{"sku": "a", "count": 1}], "note": None}
    return {name: value for name, value in {**whole, **changes}.items() if value is not ...}


WRONG_DATA = {
    "a text for a number": (plain(cents="5"), "cents"),
    "a float for a number": (plain(cents=5.0), "cents"),
    "a whole number for a float": (plain(weight=1), "weight"),
    "a truth for a number": (plain(cents=True), "cents"),
    "a field too many": (plain(colour="red"), "colour"),
    "a field too many inside": (plain(lines=[{"sku": "a", "count": 1, "x": 1}]), "lines[0].x"),
    "a field missing": (plain(cents=...), ""),
    "a field missing that has a default": (plain(note=...), "note"),
    "a field missing inside that has a default": (plain(lines=[{"sku": "a"}]), "lines[0].count"),
    "a list": ([1], ""),
    "nothing": (None, ""),
}


@pytest.mark.parametrize(("data", "place"), WRONG_DATA.values(), ids=WRONG_DATA)
def test_data_that_does_not_fit_is_refused_with_its_field(data: Any, place: str) -> None:
    assert PLACED.decode(cbor2.dumps(plain(), canonical=True)) == Placed("o1", 5, 0.5, [Line("a")])
    with pytest.raises(SchemaMismatch) as caught:
        PLACED.decode(cbor2.dumps(data, canonical=True))
    assert caught.value.field == place
    assert str(caught.value).startswith("app/Placed@1: ")


def test_another_spelling_of_a_value_is_refused() -> None:
    """A time, an id and a model have one form each; another that means the same is not taken."""
    data = cbor2.loads(ValueSchema(Paid).encode(VALUES[3]))
    for name, other in (
        ("at", "2026-01-02T03:04:05+00:00"),
        ("by", str(uuid.UUID(int=7)).replace("-", "")),
        ("tags", ["b", "a"]),
    ):
        with pytest.raises(SchemaMismatch) as caught:
            ValueSchema(Paid).decode(cbor2.dumps({**data, name: other}, canonical=True))
        assert caught.value.field.startswith(name)
    with pytest.raises(SchemaMismatch, match="parcels"):
        ValueSchema(Shipped).decode(
            cbor2.dumps({"order_id": "o1", "at": "2026-01-02T03:04:05Z", "parcels": "1"}, canonical=True)
        )
    with pytest.raises(SchemaMismatch, match="size"):
        ValueSchema(Brief).decode(cbor2.dumps({"name": "x", "size": 3}, canonical=True))


def test_two_spellings_of_one_value_are_written_alike() -> None:
    assert PLACED.encode(Placed("o1", 5, 1)) == PLACED.encode(Placed("o1", 5, 1.0))
    assert ValueSchema(float).encode(1) == ValueSchema(float).encode(1.0)


def test_bytes_that_are_not_canonical_are_refused() -> None:
    good = PLACED.encode(Placed("o1", 5))
    for bad in (
        b"",
        good + b"\0",
        good[:-1],
        b"\xd9\xd9\xf7" + good,
        cbor2.dumps(dict(reversed(cbor2.loads(good).items()))),
    ):
        with pytest.raises(SchemaMismatch, match="send canonical CBOR"):
            PLACED.decode(bad)


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_bytes_are_refused_or_are_what_encodes_to_them(data: st.DataObject) -> None:
    """No other error, whichever byte is changed."""
    found = ValueSchema(type(value := data.draw(st.sampled_from(VALUES))))
    changed = bytearray(found.encode(value))
    changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        again = found.decode(bytes(changed))
    except SchemaMismatch:
        return
    assert found.encode(again) == changed


def test_data_written_by_hand_gets_its_defaults_and_its_one_form() -> None:
    assert PLACED.accept({"order_id": "o1", "cents": 5, "weight": 1}) == Placed("o1", 5, 1.0)
    paid = {"order_id": "o1", "at": "2026-01-02T03:04:05+00:00", "by": str(uuid.UUID(int=7)), "amount": "1.50"}
    assert ValueSchema(Paid).accept({**paid, "proof": b""}).at == NOW
    for wrong, place in (({"order_id": "o1", "cents": "5"}, "cents"), ({"order_id": "o1", "cents": 5, "x": 1}, "x")):
        with pytest.raises(SchemaMismatch) as caught:
            PLACED.accept(wrong)
        assert caught.value.field == place


def test_a_schema_without_a_type_is_held_by_its_json_schema() -> None:
    written = ValueSchema(Any, "acme/Note@1", {"type": "object", "properties": {"id": {"type": "integer"}}})
    assert written.decode(written.encode({"id": 1, "more": [1.5]})) == {"id": 1, "more": [1.5]}
    for wrong, place in (({"id": "1"}, "id"), ([], ""), ({"id": b"x"}, "")):
        with pytest.raises(SchemaMismatch) as caught:
            written.encode(wrong)
        assert caught.value.field == place
    listed = ValueSchema(list[int], "acme/Numbers@1")
    assert listed.decode(listed.encode([1, 2])) == [1, 2]
    with pytest.raises(ValueError, match="nonsense"):
        ValueSchema(Any, "acme/Note@1", {"type": "nonsense"})
    with pytest.raises(ValueError, match="elsewhere"):
        ValueSchema(Any, "acme/Note@1", {"$ref": "https://example.org/schema.json"})


@pytest.mark.parametrize("data", ["f7", "f0", "c11a514b67b0", "d81c80", "a161" + "78f7"])
def test_what_is_no_plain_data_is_refused_where_any_data_fits(data: str) -> None:
    with pytest.raises(SchemaMismatch, match="send canonical CBOR"):
        ValueSchema(Any, "acme/Free@1").decode(bytes.fromhex(data))


def test_json_schemas_come_from_the_types() -> None:
    assert PLACED.json_schema["$defs"]["Placed"]["required"] == ["order_id", "cents"]
    assert ValueSchema(Shipped).json_schema["properties"]["parcels"]["type"] == "integer"


def test_the_arms_of_a_union_are_its_types_without_none() -> None:
    order_id = NewType("order_id", str)
    assert arms_of(Placed | Paid | None) == (Placed, Paid)
    assert arms_of(Placed) == (Placed,)
    assert arms_of(order_id | None) == (str,)
    assert arms_of(None) == (None,)
