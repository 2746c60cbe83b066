"""What written cells change in a tree."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cells.cell import CellRecord, encode_cell, encode_entry, index_entry
from holdfast.cells.growth import growth
from holdfast.cells.tree import key_hash
from holdfast.errors import StoreCorrupt

records = st.builds(
    lambda key, state, active: CellRecord(key=key, state=state, status="waiting", last_active=active),
    st.binary(max_size=40),
    st.none() | st.binary(max_size=300),
    st.integers(0, 2**63),
)


@given(st.lists(records, unique_by=lambda cell: cell.key, max_size=5))
def test_entries_are_those_of_the_index(cells: list[CellRecord]) -> None:
    """Byte for byte, although the records are not read as a whole."""
    written = {cell.key: encode_cell(cell) for cell in cells}

    found = growth(written.items())

    assert found.changes == {key_hash(cell.key): encode_entry(index_entry(cell, written[cell.key])) for cell in cells}
    assert found.records == {hashlib.sha256(data).digest(): data for data in written.values()}


def test_deleted_cells_are_taken_out() -> None:
    assert growth([], [b"k"]).changes == {key_hash(b"k"): None}


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff", b"no record", encode_cell(CellRecord(key=b"another"))])
def test_a_row_without_a_record_of_its_key_is_refused(data: bytes) -> None:
    """The root would not be that of the journal."""
    with pytest.raises(StoreCorrupt):
        growth([(b"k", data)])
