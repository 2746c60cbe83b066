"""What written cells, and events that are held for them, change in the tree of their lane: entries by path, and the
records that they name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final, NamedTuple

import cbor2

from holdfast.cells.cell import CellRecord, decode_cell, encode_entry, held_entry, held_key, index_entry
from holdfast.cells.tree import key_hash
from holdfast.errors import StoreCorrupt

_KEY, _STATE, _LAST_ACTIVE = (
    CellRecord.__struct_fields__.index(name) + 1  # behind the number of the format
    for name in ("key", "state", "last_active")
)
_FORMAT: Final = 1


class Growth(NamedTuple):
    """``changes`` are for ``tree.apply``; ``records`` are the bytes of the cells by their SHA-256."""

    changes: dict[bytes, bytes | None]
    records: dict[bytes, bytes]


def growth(
    cells: Iterable[tuple[bytes, bytes]],
    deleted: Iterable[bytes] = (),
    held: Iterable[tuple[bytes, int, bytes | None]] = (),
) -> Growth:
    """The growth by these cells, each a key and a record, and without the deleted ones; and by what is held for them,
    each with the cell's key and a number, None where it is held no more. Raises StoreCorrupt."""
    changes: dict[bytes, bytes | None] = {key_hash(key): None for key in deleted}
    records: dict[bytes, bytes] = {}
    for key, record in cells:
        name = hashlib.sha256(record).digest()
        changes[key_hash(key)] = _entry(key, record, name)
        records[name] = record
    for key, number, event in held:
        if event is None:
            changes[key_hash(held_key(key, number))] = None
        else:
            entry = held_entry(key, number, event)
            changes[key_hash(entry.key)] = encode_entry(entry)
            records[entry.record_hash] = event
    return Growth(changes, records)


def _entry(key: bytes, record: bytes, name: bytes) -> bytes:
    """The entry of a cell, as ``encode_entry(index_entry(…))`` writes it.

    There are many, and only three fields count: the whole record is read only where these are not what they should be.
    """
    try:
        form = cbor2.loads(record)
        state, last_active = form[_STATE], form[_LAST_ACTIVE]
        if form[0] == _FORMAT and form[_KEY] == key and type(last_active) is int and last_active >= 0:
            state_hash = None if state is None else hashlib.sha256(state).digest()
            # Bytes and whole numbers in a list: there is but one shortest form.
            return cbor2.dumps([_FORMAT, key, state_hash, len(record), last_active, name])
    except (cbor2.CBORError, ValueError, TypeError, LookupError):
        pass
    cell = decode_cell(record)
    if cell.key != key:
        raise StoreCorrupt(
            f"the row of cell {key!r:.60} has the record of another one ({cell.key!r:.60}): restore it from a backup."
        )
    return encode_entry(index_entry(cell, record))
