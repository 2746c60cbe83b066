"""A cell as a turn leaves it: as the turn's note and as the cell's row have it."""

from __future__ import annotations

import hashlib

import msgspec

from holdfast.cells.cell import CellRecord, encode_cell
from holdfast.store.protocol import CellChange


class ChangedCell(msgspec.Struct, gc=False):
    """Its key, the hash of its record, and the change of its row. A deleted cell has no hash."""

    key: bytes
    record_hash: bytes | None
    change: CellChange


def encode_changed(key: bytes, record: CellRecord | None) -> ChangedCell:
    """The cell, or None where it was deleted, in both forms."""
    if record is None:
        return ChangedCell(key, None, CellChange(key, None))
    data = encode_cell(record)
    change = CellChange(key, data, record.status, record.next_wake, record.last_active)
    return ChangedCell(key, hashlib.sha256(data).digest(), change)
