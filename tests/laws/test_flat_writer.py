"""The law of flat types: their values are written and read as in the general way, and what is none is refused alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import cbor2
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import SchemaMismatch
from holdfast.programs.machine.flat_writer import flat_writer
from holdfast.programs.machine.schemas import ValueSchema
from tests.scope import volume


@dataclass
class FlatAddress:
    town: str
    number: int | None = None


@dataclass
class FlatOrder:
    LIMIT: ClassVar[int] = 9

    order_id: str
    cents: int
    paid: bool = False
    proof: bytes = b""
    note: str | None = None
    address: FlatAddress = field(default_factory=lambda: FlatAddress("Bath"))


class FlatVisit(msgspec.Struct, frozen=True, kw_only=True):
    b: str
    aa: int = 3
    a: FlatAddress | None = None


class FlatNothing(msgspec.Struct):
    """It has no fields."""


FLAT: list[type] = [FlatAddress, FlatOrder, FlatVisit, FlatNothing]


@dataclass
class Checked:
    size: int

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("it is negative")


@dataclass
class Derived:
    size: int
    double: int = field(init=False, default=0)


@dataclass
class Knotted:
    inner: Knotted | None = None


@dataclass
class Hidden:
    _size: int


class Renamed(msgspec.Struct, rename="camel"):
    first_name: str


class Tagged(msgspec.Struct, tag=True):
    size: int


class Listed(msgspec.Struct, array_like=True):
    size: int


class Brief(msgspec.Struct, omit_defaults=True):
    size: int = 1


@dataclass
class Bounded:
    size: Annotated[int, msgspec.Meta(ge=0)]


@dataclass
class Chosen:
    size: Literal["s", "m"]


@dataclass
class Weighed:
    size: float


NOT_FLAT: list[Any] = [
    Checked, Derived, Knotted, Hidden, Renamed, Tagged, Listed, Brief, Bounded, Chosen, Weighed, dict, int, None
]  # fmt: skip

lawful = settings(deadline=None, print_blob=True, max_examples=volume(150, 1000))
scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=70) | st.binary(max_size=30)
anything = scalars | st.floats(allow_nan=False) | st.builds(FlatAddress, scalars, scalars)
texts = st.text(max_size=70)
numbers = st.integers(-(2**66), 2**66)
addresses = st.builds(FlatAddress, texts, st.none() | numbers)
lawful_values = st.one_of(
    addresses,
    st.builds(FlatOrder, texts, numbers, st.booleans(), st.binary(max_size=30), st.none() | texts, addresses),
    st.builds(FlatVisit, b=texts, aa=numbers, a=st.none() | addresses),
    st.builds(FlatNothing),
)
values = lawful_values | st.one_of(
    st.builds(FlatAddress, anything, anything),
    st.builds(FlatOrder, anything, anything, anything, anything, anything, anything),
    st.builds(FlatVisit, b=anything, aa=anything, a=anything),
)


def both(kind: type) -> tuple[ValueSchema, ValueSchema]:
    """A schema that writes flat values straight, and one that does not."""
    general = ValueSchema(kind)
    general._write_flat = None
    return ValueSchema(kind), general


def outcome(call: Any, given: object) -> object:
    """What a call gives, or with which words it refuses."""
    try:
        return call(given)
    except SchemaMismatch as error:
        return str(error), error.field


@pytest.mark.parametrize("kind", FLAT)
def test_these_are_flat(kind: type) -> None:
    assert flat_writer(kind) is not None


@pytest.mark.parametrize("kind", NOT_FLAT)
def test_these_have_code_names_or_fields_of_their_own(kind: Any) -> None:
    assert flat_writer(kind) is None


@lawful
@given(values)
def test_a_value_is_written_in_both_ways_alike(value: Any) -> None:
    flat, general = both(type(value))
    assert outcome(flat.encode, value) == outcome(general.encode, value)


@lawful
@given(lawful_values, st.data())
def test_bytes_are_read_in_both_ways_alike(value: Any, data: st.DataObject) -> None:
    """Those of values, and those with a member changed, left out or added, in canonical form and in others."""
    flat, general = both(type(value))
    plain: dict[str, Any] = cbor2.loads(general.encode(value))
    assert flat.decode(general.encode(value)) == value
    names = st.sampled_from([*plain, "aa", "other"]) if plain else st.just("other")
    for name in data.draw(st.lists(names, max_size=2)):
        if data.draw(st.booleans()):
            plain.pop(name, None)
        else:
            plain[name] = data.draw(scalars | st.floats(allow_nan=False))
    changed = cbor2.dumps(plain, canonical=data.draw(st.booleans()))
    assert outcome(flat.decode, changed) == outcome(general.decode, changed)
