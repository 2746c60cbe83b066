"""Cells: the states of machines, one row for each key, written in the commit of their lane's turn.

A row is the cell as it stands at the head of its lane's journal. ``record`` is what the machine's engine writes; the
other columns are what lists and timers look for. Only the lane's own turn writes it, so its lease guards it.

What is held for a parked cell has rows of its own, by cell and number, written in the same commits. A row whose event
is held no more stays as a mark until a root of the lane has seen that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from holdfast.store.cell_roots import RootPort
from holdfast.store.values import Key


class CellRow(NamedTuple):
    """A cell of a lane. ``version`` is that of the lane's journal in front of the turn that wrote it."""

    tenant: str
    lane: str
    key: bytes
    machine: str
    record: bytes
    status: str
    wake_at: int | None
    active_at: int
    version: int


class CellChange(msgspec.Struct, frozen=True, gc=False):
    """A cell as a turn leaves it; without a record it is deleted."""

    key: bytes
    record: bytes | None
    status: str = ""
    wake_at: int | None = None
    active_at: int = 0


class HeldChange(msgspec.Struct, frozen=True, gc=False):
    """What a turn changes of that which is held for a cell: the numbers of each range, from the first up to before the
    second, are held no more; then these are held, by their numbers."""

    key: bytes
    gone: tuple[tuple[int, int], ...] = ()
    held: tuple[tuple[int, bytes], ...] = ()


class DeadLetter(msgspec.Struct, frozen=True, gc=False):
    """An event that no cell could handle: what it was, for which cell, and why."""

    machine: str
    schema: str
    value: bytes
    key: bytes
    reason: str
    at: int
    id: str | None = None


class PutCells(msgspec.Struct, frozen=True, gc=False):
    """Write the cells of a lane that a turn has changed, and what is held for them, each once. Answered ``Kept``. It is
    attached to that turn."""

    key: Key
    machine: str
    version: int
    cells: tuple[CellChange, ...]
    dead: tuple[DeadLetter, ...] = ()
    held: tuple[HeldChange, ...] = ()


class DropDead(msgspec.Struct, frozen=True, gc=False):
    """Delete a dead letter, because it was delivered again. Refused with ``Fenced`` where it is not there: somebody was
    faster. It is part of an ``Operate``. ``key`` is the lane that buried it."""

    key: Key
    version: int
    number: int


class CellQuery(msgspec.Struct, frozen=True, gc=False):
    """Which cells to list: those of a tenant's machine, with that status, active since then."""

    tenant: str
    machine: str
    status: str | None = None
    active_since: int | None = None


class CellCursor(NamedTuple):
    """The place of a cell in a list: by lane and key."""

    lane: str
    key: bytes


class DeadRow(NamedTuple):
    """A dead letter, and its place: the lane that buried it, the version of its journal, and its number there."""

    tenant: str
    lane: str
    version: int
    number: int
    machine: str
    schema: str
    value: bytes
    key: bytes
    reason: str
    at: int
    id: str | None

    @property
    def place(self) -> tuple[str, int, int]:
        """Its place in a list."""
        return self.lane, self.version, self.number


def buried(change: PutCells) -> list[DeadRow]:
    """The dead letters of a turn, as rows."""
    return [
        DeadRow(
            *change.key,
            change.version,
            number,
            each.machine,
            each.schema,
            each.value,
            each.key,
            each.reason,
            each.at,
            each.id,
        )
        for number, each in enumerate(change.dead)
    ]


class CellPort(RootPort, Protocol):
    """The operations that read cells."""

    async def cells(self, lane: Key, keys: Sequence[bytes]) -> list[CellRow]:
        """Those of the cells that exist."""
        ...

    async def held_events(
        self, lane: Key, key: bytes, first: int, limit: int, size_bytes: int
    ) -> list[tuple[int, bytes]]:
        """What is held for a cell, from this number on, in order: at most so much, and no more behind so many bytes."""
        ...

    async def due_cells(self, lane: Key, now: int, limit: int) -> list[CellRow]:
        """The cells of a lane whose timer has come, the longest due first."""
        ...

    async def next_wake(self, lane: Key, after: int) -> int | None:
        """When the next timer of a lane's cells comes, later than ``after``; None where none does."""
        ...

    async def find_cells(self, query: CellQuery, limit: int, after: CellCursor | None = None) -> list[CellRow]:
        """A page of cells by lane and key, beginning after ``after``."""
        ...

    async def dead_letters(self, tenant: str, limit: int, after: tuple[str, int, int] | None = None) -> list[DeadRow]:
        """A page of a tenant's dead letters by lane, version and number, beginning after ``after``."""
        ...

    async def count_cells(self, tenant: str, machine: str) -> dict[str, int]:
        """How many cells a machine has, by status."""
        ...
