"""What is held for the cells of a turn, event by event: the rows that were brought to it, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from holdfast.cells.cell import HeldChain, next_link, shown_key
from holdfast.errors import StoreCorrupt
from holdfast.store.protocol import HeldChange

Rows: TypeAlias = Sequence[tuple[int, bytes]]
"""Held events by their numbers, in order."""


class HeldRows:
    """``brought`` are the first rows of some chains, by cell."""

    def __init__(self, brought: Mapping[bytes, Rows]) -> None:
        self._known = {key: dict(rows) for key, rows in brought.items()}
        self._put: dict[bytes, dict[int, bytes]] = {}
        self._gone: dict[bytes, list[tuple[int, int]]] = {}

    def get(self, key: bytes, number: int) -> bytes | None:
        """The event of this number, where it is here."""
        return self._known.get(key, {}).get(number)

    def put(self, key: bytes, number: int, event: bytes) -> None:
        """It is held from now on."""
        self._known.setdefault(key, {})[number] = event
        self._put.setdefault(key, {})[number] = event

    def drop(self, key: bytes, number: int) -> None:
        """It is held no more."""
        self._known.get(key, {}).pop(number, None)
        self._put.get(key, {}).pop(number, None)
        gone = self._gone.setdefault(key, [])
        if gone and gone[-1][1] == number:
            gone[-1] = gone[-1][0], number + 1
        else:
            gone.append((number, number + 1))

    def changes(self) -> tuple[HeldChange, ...]:
        """What the turn changes of the rows."""
        keys = dict.fromkeys((*self._gone, *self._put))
        return tuple(
            HeldChange(key, tuple(self._gone.get(key, ())), tuple(self._put.get(key, {}).items())) for key in keys
        )


class KeptRows:
    """All rows of a lane that is replayed, in memory."""

    def __init__(self) -> None:
        self.rows: dict[bytes, dict[int, bytes]] = {}

    def first(self, key: bytes, number: int, count: int) -> Rows:
        """So many rows of a cell, from this number on."""
        kept = self.rows.get(key, {})
        return [(each, kept[each]) for each in range(number, number + count) if each in kept]

    def apply(self, changes: Sequence[HeldChange]) -> None:
        """As the store does."""
        for change in changes:
            rows = self.rows.setdefault(change.key, {})
            for first, end in change.gone:
                for number in range(first, end):
                    rows.pop(number, None)
            rows.update(change.held)
            if not rows:
                del self.rows[change.key]


def check_rows(key: bytes, chain: HeldChain, rows: Rows) -> None:
    """Raises StoreCorrupt unless these are the first rows of the chain; all of them, if they reach its end."""
    link = chain.base
    for number, (found, event) in enumerate(rows, chain.first):
        if number != found:
            break
        link = next_link(link, event)
    else:
        end = chain.first + len(rows)
        if end == chain.end and link == chain.head:
            return
        if chain.first < end < chain.end:
            return
    raise StoreCorrupt(
        f"what is held for cell {shown_key(key)} is not what its record says: an event was changed or is missing. "
        "Restore the database from a backup."
    )
