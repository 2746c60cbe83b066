"""The record of a cell and its index entry: bytes that mean one thing."""

from __future__ import annotations

import cbor2
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.cells.cell import (
    CellIntent,
    CellRecord,
    CellTimer,
    HeldChain,
    IndexEntry,
    decode_cell,
    decode_entry,
    encode_cell,
    encode_entry,
    index_entry,
    next_link,
)
from holdfast.cells.tree import key_hash
from holdfast.errors import StoreCorrupt

numbers = st.integers(0, 2**63)
texts = st.text(max_size=6)
intents = st.lists(st.builds(CellIntent, numbers, texts, numbers), max_size=3, unique_by=lambda each: each.position)
timers = st.lists(st.builds(CellTimer, numbers, numbers, texts, st.binary(max_size=4)), max_size=3, unique=True)
ends = st.tuples(st.sampled_from(["running", "waiting", "completed"]), st.just("")) | st.tuples(
    st.sampled_from(["failed", "parked"]), st.text(min_size=1, max_size=6)
)
links = st.binary(min_size=32, max_size=32)
reports = st.lists(st.tuples(numbers, st.binary(max_size=4)), max_size=2)
chains = st.builds(
    lambda first, count, base, head, cause, receipts, reports: HeldChain(
        first, first + count, base, head, cause, tuple(receipts), tuple(reports)
    ),
    st.integers(0, 2**62),
    st.integers(1, 9),
    links,
    links,
    st.none() | links,
    st.lists(st.tuples(links, numbers), max_size=2),
    reports,
)
cells = st.builds(
    lambda key, state, end, asked, set_up, sequence, active, version, digest, chain: CellRecord(
        key=key,
        state=state,
        status=end[0],
        reason=end[1],
        intents=tuple(sorted(asked)),
        timers=tuple(sorted(set_up)),
        last_sequence=sequence,
        last_active=active,
        machine_version=version,
        machine_hash=digest,
        chain=chain,
    ),
    st.binary(max_size=6),
    st.none() | st.binary(max_size=6),
    ends,
    intents,
    timers,
    numbers,
    numbers,
    numbers,
    st.binary(max_size=4),
    st.none() | chains,
)

SAMPLE = CellRecord(
    key=b"\x62o1",
    state=b"\xa0",
    status="parked",
    reason="handler raised",
    intents=(CellIntent(3, "charge", 17),),
    timers=(CellTimer(1_000, 17, "app/Expired@1", b"\xa0"),),
    last_sequence=17,
    last_active=900,
    machine_version=2,
    machine_hash=bytes(32),
)


@settings(deadline=None)
@given(cells)
def test_a_cell_is_read_as_it_was_written(cell: CellRecord) -> None:
    assert decode_cell(encode_cell(cell)) == cell
    entry = index_entry(cell, encode_cell(cell))
    assert decode_entry(encode_entry(entry)) == entry


@settings(deadline=None)
@given(cells, st.data())
def test_bytes_are_refused_or_are_those_that_would_be_written(cell: CellRecord, data: st.DataObject) -> None:
    """A changed byte gives another cell or an error, never a second form of one cell, and no other error."""
    for written, read, write in (
        (encode_cell(cell), decode_cell, encode_cell),
        (encode_entry(index_entry(cell, b"")), decode_entry, encode_entry),
    ):
        changed = bytearray(written)
        changed[data.draw(st.integers(0, len(written) - 1))] ^= data.draw(st.integers(1, 255))
        try:
            found = read(bytes(changed))
        except StoreCorrupt:
            continue
        assert write(found) == changed  # type: ignore[arg-type]  # the writer that belongs to the reader


def test_a_known_cell_has_known_bytes() -> None:
    """Records are kept for ever."""
    record = encode_cell(SAMPLE)
    assert record.hex() == (
        "8d0143626f3141a0667061726b65646e68616e646c6572207261697365648184036663686172676511f681841903e8116d6170702f4578"
        "7069726564403141a01119038402582000000000000000000000000000000000000000000000000000000000000000000080"
    )
    assert encode_entry(index_entry(SAMPLE, record)).hex() == (
        "860143626f315820c19a797fa1fd590cd2e5b42d1cf5f246e29b91684e2f87404b81dc345c7a56a01869190384582023b878d39ba26d19"
        "fe2ea5572d5483e69e464abee3a59cf9ea20613b6dc87fe9"
    )


def test_a_known_cell_with_a_chain_has_known_bytes() -> None:
    """They are of a format of their own: a record without a chain is as it always was."""
    head = next_link(bytes(32), b"\x80")
    chain = HeldChain(4, 5, bytes(32), head, b"c" * 32, ((b"r" * 32, 3),), ((5, b"\x81\x01"),))
    record = encode_cell(msgspec.structs.replace(SAMPLE, chain=chain))
    assert record.hex() == (
        "8e0343626f3141a0667061726b65646e68616e646c6572207261697365648185036663686172676511f6f681841903e8116d6170702f"
        "45787069726564403141a011190384025820000000000000000000000000000000000000000000000000000000000000000000808704"
        "055820000000000000000000000000000000000000000000000000000000000000000058205b5b59110dadccd00007f5dd30c1b88be4"
        "81a555dda4dfed3173c40045b786a7582063636363636363636363636363636363636363636363636363636363636363638182582072"
        "7272727272727272727272727272727272727272727272727272727272727203818205428101"
    )
    assert decode_cell(record).chain == chain


def test_a_cell_says_its_hash_and_when_it_wakes() -> None:
    assert SAMPLE.state_hash == key_hash(b"\xa0")
    assert SAMPLE.wake_at == 1_000
    assert CellRecord(key=b"").state_hash is None
    assert CellRecord(key=b"").wake_at is None


UNLAWFUL = {
    "intents out of order": {"intents": (CellIntent(3, "a", 1), CellIntent(1, "a", 1))},
    "one position twice": {"intents": (CellIntent(3, "a", 1), CellIntent(3, "b", 1))},
    "timers out of order": {"timers": (CellTimer(3, 1, "a", b""), CellTimer(1, 1, "a", b""))},
    "parked for no reason": {"reason": ""},
    "waiting for a reason": {"status": "waiting"},
    "a status that is none": {"status": "asleep"},
    "a negative time": {"last_active": -1},
    "a chain of nothing": {"chain": HeldChain()},
    "a chain beside what is held in the record": {"chain": HeldChain(end=1), "held": (b"\x80",)},
    "a chain that ends before it begins": {"chain": HeldChain(first=2, end=1, reports=((2, b""), (2, b"")))},
    "a chain of reports with links of its own": {"chain": HeldChain(base=b"1" * 32, reports=((0, b""),))},
    "a link that is none": {"chain": HeldChain(end=1, head=b"1")},
}


@pytest.mark.parametrize("fields", UNLAWFUL.values(), ids=UNLAWFUL)
def test_a_cell_that_breaks_its_rules_is_neither_written_nor_read(fields: dict[str, object]) -> None:
    unlawful = msgspec.structs.replace(SAMPLE, **fields)
    with pytest.raises(ValueError, match=r".+"):
        encode_cell(unlawful)
    form = [3, *msgspec.to_builtins(unlawful, builtin_types=(bytes,))]
    form = form if unlawful.chain is not None else [1, *form[1:-1]]
    with pytest.raises(StoreCorrupt, match="the record of a cell"):
        decode_cell(cbor2.dumps(form, canonical=True))


def test_a_field_too_many_too_few_or_of_another_type_is_refused() -> None:
    form = cbor2.loads(encode_cell(SAMPLE))
    for wrong in (form[:-1], [*form, 0], [2, *form[1:]], [True, *form[1:]], [form[0], "o1", *form[2:]], {}, b"", 1):
        with pytest.raises(StoreCorrupt):
            decode_cell(cbor2.dumps(wrong, canonical=True))


@pytest.mark.parametrize("fields", [{"last_active": 2**64}, {"reason": "\ud800"}])
def test_what_has_no_bytes_is_refused_in_words(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="over 64 bits"):
        encode_cell(msgspec.structs.replace(SAMPLE, **fields))


def test_an_index_entry_has_whole_hashes() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        encode_entry(IndexEntry(b"", b"short", 1, 1, bytes(32)))
