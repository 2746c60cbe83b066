"""Canonical CBOR is read strictly: bytes mean one thing, and one thing has one form."""

from __future__ import annotations

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.journal import cbor

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(values)
def test_what_is_written_is_read_as_the_same(value: object) -> None:
    data = cbor.canonical(value)
    assert cbor.canonical(cbor.read(data)) == data


@settings(deadline=None, max_examples=500)
@given(st.binary(max_size=12) | values.map(cbor2.dumps))
def test_any_bytes_are_canonical_or_refused(data: bytes) -> None:
    """There is no other error, and what is accepted encodes to itself."""
    try:
        value = cbor.read(data)
    except cbor.NotCanonical:
        return
    assert cbor.canonical(value) == data


BAD = {
    "a number in a longer form": "1817",
    "a length in a longer form": "780161",
    "a float that fits into a shorter one": "fb3fe0000000000000",
    "members out of order": "a2616202616101",
    "a shorter member after a longer one": "a262616101616202",
    "a member twice": "a2616101616102",
    "members that are one to Python": "a20100f500",
    "an indefinite length": "9fff",
    "undefined": "f7",
    "a simple value": "f0",
    "a time": "c11a514b67b0",
    "a set": "d9010281" + "01",
    "a number as a large one": "c24101",
    "an unknown tag": "d82a00",
    "self-described bytes": "d9d9f7a0",
    "a list as a member's name": "a1800" + "0",
    "bytes after the end": "0000",
    "nothing": "",
    "a part": "8201",
    "a text that is no Unicode": "61ff",
    "more than there is": "5bffffffffffffffff",
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_what_is_not_canonical_is_refused(data: str) -> None:
    with pytest.raises(cbor.NotCanonical):
        cbor.read(bytes.fromhex(data))


def test_shared_references_do_not_stand_for_more_than_they_are() -> None:
    """A hundred levels, each twice the one before, are a few hundred bytes and would be 2¹⁰⁰ lists."""
    bomb = b"\x80"
    for level in range(100):
        bomb = b"\xd8\x1c\x82" + bomb + b"\xd8\x1d" + cbor.integer(level)
    with pytest.raises(cbor.NotCanonical):
        cbor.read(bomb)
    with pytest.raises(cbor.NotCanonical):
        cbor.read(bytes.fromhex("d81c82fb3ff199999999999ad81d00"))  # a list that holds a float and itself


def test_what_is_nested_too_deeply_is_refused() -> None:
    assert cbor.read(b"\x81" * (cbor.DEEPEST - 1) + b"\x80") is not None
    with pytest.raises(cbor.NotCanonical):
        cbor.read(b"\x81" * (cbor.DEEPEST + 1) + b"\x80")
    with pytest.raises(cbor.NotCanonical):
        cbor.read(b"\x81" * 5 + b"\x80", levels=4)
