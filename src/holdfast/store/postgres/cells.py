"""Cells of machines: written in the commit of their lane's turn, read before the next."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.store import protocol as p
from holdfast.store.cells import buried
from holdfast.store.postgres.cell_roots import PostgresRoots
from holdfast.store.postgres.writer import Writer


async def put_cells(writer: Writer, changes: Sequence[p.PutCells]) -> list[p.Answer]:
    """Write the cells of many turns, and what is held for them: in the order of their keys, so that no two batches lock
    them crosswise."""
    kept, deleted = [], []
    for change in changes:
        for each in change.cells:
            place = (*change.key, each.key)
            if each.record is None:
                deleted.append((*place, change.version))
            else:
                kept.append(
                    (*place, change.machine, each.record, each.status, each.wake_at, each.active_at, change.version)
                )
    if kept:
        await writer.fetch_columns("put_cells", sorted(kept), width=9)
    if deleted:
        deleted.sort()
        await writer.fetch_columns("drop_cells", [row[:3] for row in deleted], width=3)
        await writer.fetch_columns("mark_deleted_cells", deleted, width=4)
    held = [(change.key, change.version, each) for change in changes for each in change.held]
    if gone := sorted((*lane, each.key, *numbers, version) for lane, version, each in held for numbers in each.gone):
        await writer.fetch_columns("mark_held_events", gone, width=6)
    if put := sorted((*lane, each.key, *row, version) for lane, version, each in held for row in each.held):
        await writer.fetch_columns("put_held_events", put, width=6)
    dead = [row for change in changes for row in buried(change)]
    if dead:
        await writer.fetch_columns("bury", sorted(dead), width=11)
    return [p.Kept() for _ in changes]


class PostgresCells(PostgresRoots):
    """The operations of the PostgreSQL store that read cells."""

    async def cells(self, lane: p.Key, keys: Sequence[bytes]) -> list[p.CellRow]:
        return [p.CellRow(*row) for row in await self._read("cells", *lane, list(keys))]

    async def held_events(
        self, lane: p.Key, key: bytes, first: int, limit: int, size_bytes: int
    ) -> list[tuple[int, bytes]]:
        return [(row[0], row[1]) for row in await self._read("held_events", *lane, key, first, limit, size_bytes)]

    async def due_cells(self, lane: p.Key, now: int, limit: int) -> list[p.CellRow]:
        return [p.CellRow(*row) for row in await self._read("due_cells", *lane, now, limit)]

    async def next_wake(self, lane: p.Key, after: int) -> int | None:
        (row,) = await self._read("next_cell_wake", *lane, after)
        found: int | None = row[0]
        return found

    async def find_cells(self, query: p.CellQuery, limit: int, after: p.CellCursor | None = None) -> list[p.CellRow]:
        lane, key = after or ("", b"")
        values = (query.tenant, query.machine, query.status, query.active_since, lane, key, limit)
        return [p.CellRow(*row) for row in await self._read("find_cells", *values)]

    async def dead_letters(self, tenant: str, limit: int, after: tuple[str, int, int] | None = None) -> list[p.DeadRow]:
        found = await self._read("dead_letters", tenant, *(after or ("", 0, 0)), limit)
        return [p.DeadRow(*row) for row in found]

    async def count_cells(self, tenant: str, machine: str) -> dict[str, int]:
        return {row[0]: row[1] for row in await self._read("count_cells", tenant, machine)}
