"""Values become data and come back as the annotated type."""

import dataclasses
import datetime
import decimal
import enum
import uuid
from typing import Any, Generic, TypeVar

import msgspec
import pydantic
import pytest

from holdfast.errors import InvalidFunction, PayloadTooLarge, Undecodable, Unencodable
from holdfast.journal.payload import NOTHING, Payload
from holdfast.programs.function import values
from holdfast.programs.function.values import Signature, decode, encode
from tests.scope import one_stays

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 2


class Item(msgspec.Struct, frozen=True):
    name: str
    price: decimal.Decimal = decimal.Decimal("1.10")


@dataclasses.dataclass
class Order:
    id: uuid.UUID
    items: list[Item]
    when: datetime.datetime


class Model(pydantic.BaseModel):
    name: str
    tags: list[str] = []
    due: datetime.date | None = None


class Box(msgspec.Struct, Generic[T]):
    value: T


@dataclasses.dataclass
class Mixed:
    model: Model
    colour: Colour


WHEN = datetime.datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=datetime.UTC)
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")

ROUND_TRIPS: list[tuple[Any, Any]] = [
    (None, None),
    (True, bool),
    (2**70, int),
    (-(2**40), int),
    (0.1, float),
    ("żółw", str),
    (b"\x00\xff", bytes),
    ([1, "two", None, 3.5], list),
    ({"a": {"b": [1]}}, dict),
    (Item("x"), Item),
    (Order(ID, [Item("x"), Item("y")], WHEN), Order),
    (Model(name="m", tags=["a"], due=datetime.date(2024, 1, 1)), Model),
    (Mixed(Model(name="m"), Colour.RED), Mixed),
    ([Model(name="a"), Model(name="b")], list[Model]),
    ({"k": Model(name="a")}, dict[str, Model]),
    ([Item("x")], list[Item]),
    ({"k": [Item("x")]}, dict[str, list[Item]]),
    (Item("x"), Item | None),
    (None, Item | None),
    (Model(name="m"), Model | None),
    (Box(Item("x")), Box[Item]),
    (Colour.RED, Colour),
    (Level.HIGH, Level),
    (WHEN, datetime.datetime),
    (datetime.date(2024, 2, 29), datetime.date),
    (datetime.timedelta(hours=1, microseconds=5), datetime.timedelta),
    (ID, uuid.UUID),
    (decimal.Decimal("1.10"), decimal.Decimal),
    ((1, "a"), tuple[int, str]),
    ((1, 2, 3), tuple[int, ...]),
    ({3, 1, 2}, set[int]),
    (frozenset({"b", "a"}), frozenset[str]),
    ({1: "a"}, dict[int, str]),
]


@pytest.mark.parametrize(("value", "kind"), ROUND_TRIPS, ids=[str(kind) for _, kind in ROUND_TRIPS])
def test_a_value_comes_back_as_its_annotated_type(value: Any, kind: Any) -> None:
    """A workflow sees the same value live and in every replay."""
    back = decode(encode(value), kind)
    assert back == value
    assert type(back) is type(value)


def test_equal_values_are_equal_bytes() -> None:
    """The order of a dict's keys, or of a set, makes no difference to a replayed command."""
    assert encode({"a": 1, "b": 2}) == encode({"b": 2, "a": 1})
    assert encode({3, 1, 2}) == encode({2, 3, 1})


def test_without_an_annotation_plain_data_comes_back() -> None:
    """Data that is JSON-compatible needs no annotation."""
    assert decode(encode({"a": [1, None]})) == {"a": [1, None]}
    assert encode(None) == NOTHING


def _cycle() -> list[Any]:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


@pytest.mark.parametrize(
    "value",
    [object(), open, {"deep": [object()]}, _cycle(), "\ud800", {object(): 1}],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_data_is_refused(value: Any) -> None:
    """The error names the value and what to use instead."""
    with pytest.raises(Unencodable, match=r"the result of f cannot be stored.*(dataclass|holds itself)"):
        encode(value, "the result of f")


@pytest.mark.parametrize(
    ("stored", "kind"),
    [("text", int), ({"nom": "x"}, Item), ({"tags": []}, Model), ([1], dict[str, int]), ("blue", Colour), (1, None)],
    ids=str,
)
def test_data_that_does_not_fit_is_refused(stored: Any, kind: Any) -> None:
    """The error shows the stored value and tells the author to keep to the annotation, or to widen it."""
    with pytest.raises(Undecodable, match=r"(?s)the result of f was stored as .*what the annotation says"):
        decode(encode(stored), kind, "the result of f")


def test_damaged_data_is_refused() -> None:
    """Bytes that are not CBOR give an error of the author, not a crash."""
    with pytest.raises(Undecodable):
        decode(Payload(b"\xff\x00"), int)


def test_a_value_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error gives both sizes and names the place for large data."""
    monkeypatch.setattr(values, "PAYLOAD_LIMIT_BYTES", 1000)
    assert encode(b"x" * 900)
    with pytest.raises(PayloadTooLarge, match=r"1,203 bytes and the limit is 1,000.*address"):
        encode(b"x" * 1200, "the result of f")


def test_arguments_are_read_as_their_annotations() -> None:
    """Positional, named, starred and keyword-only alike."""

    def function(first: Item, *rest: Colour, last: Model, **more: decimal.Decimal) -> None: ...

    signature = Signature(function, "function")
    stored = signature.write(
        (Item("x"), Colour.RED, Colour.RED), {"last": Model(name="m"), "extra": decimal.Decimal("2.5")}
    )
    args, kwargs = signature.read(stored)
    assert args == [Item("x"), Colour.RED, Colour.RED]
    assert kwargs == {"last": Model(name="m"), "extra": decimal.Decimal("2.5")}


def test_arguments_without_annotations_are_plain_data() -> None:
    """A function without annotations gets the stored data."""

    def function(a, b=2):  # type: ignore[no-untyped-def]
        ...

    signature = Signature(function, "function")
    assert signature.read(signature.write((1,), {"b": [3]})) == ([1], {"b": [3]})


@pytest.mark.parametrize("values", [(1, "x"), (1, ["x"]), ({"a": []}, "x")])
def test_arguments_read_twice_share_nothing_that_can_be_changed(values: tuple[Any, Any]) -> None:
    """A function may change its arguments; the judged copy stays unchanged."""

    def function(a, b):  # type: ignore[no-untyped-def]
        ...

    signature = Signature(function, "function")
    stored = signature.write(values, {})
    given, (args, kwargs) = signature.read_twice(stored)
    assert given == dict(zip("ab", values, strict=True)) == signature.by_name(stored)
    assert (args, kwargs) == (list(values), {}) == signature.read(stored)
    for one, other in zip(given.values(), args, strict=True):
        assert one is not other or not isinstance(one, list | dict)


def test_arguments_that_do_not_fit_the_function_are_refused_as_a_call_would() -> None:
    """The mistake is found where the call is made."""

    def function(a: int) -> None: ...

    with pytest.raises(TypeError, match="too many"):
        Signature(function, "function").write((1, 2), {})


def test_annotations_that_cannot_be_resolved_are_refused() -> None:
    """A type that only the type checker sees cannot be read back."""

    def function(a: "Nowhere") -> None:  # type: ignore[name-defined]  # noqa: F821
        ...

    with pytest.raises(InvalidFunction, match="TYPE_CHECKING"):
        Signature(function, "function")


class Opaque:
    """A class that no codec knows."""


def test_an_annotation_that_no_codec_knows_reads_plain_data() -> None:
    """A protocol or a bare class as annotation must not make every call fail."""

    def function(a: object, b: Opaque) -> Opaque: ...

    signature = Signature(function, "function")
    assert signature.read(signature.write((1, {"x": 2}), {})) == ([1, {"x": 2}], {})
    assert signature.read_result(encode({"x": 2})) == {"x": 2}


@pytest.mark.parametrize("leaf", one_stays([1, 1.5, [], {}, "a"]), ids=repr)
@pytest.mark.parametrize("wrap", [lambda value: [value], lambda value: {"a": value}], ids=["lists", "maps"])
def test_what_is_taken_can_be_read_back_however_deep_it_is(leaf: Any, wrap: Any) -> None:
    """Written by our own writer or by the library."""
    value, levels = leaf, []
    for depth in range(1, 1200):
        value = wrap(value)
        try:
            written = encode(value)
        except Unencodable:
            continue
        decode(written)
        levels.append(depth)
    with pytest.raises(Unencodable, match="nested more than 400 levels deep"):
        encode(value)
    assert levels[-1] == len(levels) >= 399
