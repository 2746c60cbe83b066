"""Cells of machines: written in the commit of their lane's turn, read before the next."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from holdfast.store import protocol as p
from holdfast.store.cells import buried
from holdfast.store.sqlite.cell_roots import SqliteRoots
from holdfast.store.sqlite.sql import SQL


def put_cells(cursor: sqlite3.Cursor, change: p.PutCells) -> p.Answer:
    """Write a turn's cells, and what is held for them."""
    lane = change.key
    kept = [
        (*lane, each.key, change.machine, each.record, each.status, each.wake_at, each.active_at, change.version)
        for each in change.cells
        if each.record is not None
    ]
    if kept:
        cursor.executemany(SQL["put_cell"], kept)
    deleted = [(*lane, each.key) for each in change.cells if each.record is None]
    if deleted:
        cursor.executemany(SQL["drop_cell"], deleted)
        cursor.executemany(SQL["mark_deleted_cell"], [(*place, change.version) for place in deleted])
    for held in change.held:
        place = (*lane, held.key)
        cursor.executemany(SQL["mark_held_events"], [(*place, *each, change.version) for each in held.gone])
        cursor.executemany(SQL["put_held_event"], [(*place, *each, change.version) for each in held.held])
    if change.dead:
        cursor.executemany(SQL["bury"], buried(change))
    return p.Kept()


class SqliteCells(SqliteRoots):
    """The operations of the SQLite store that read cells."""

    async def cells(self, lane: p.Key, keys: Sequence[bytes]) -> list[p.CellRow]:
        return [p.CellRow(*row) for key in keys for row in self._read(SQL["cell"], (*lane, key))]

    async def held_events(
        self, lane: p.Key, key: bytes, first: int, limit: int, size_bytes: int
    ) -> list[tuple[int, bytes]]:
        return [(row[0], row[1]) for row in self._read(SQL["held_events"], (*lane, key, first, limit, size_bytes))]

    async def due_cells(self, lane: p.Key, now: int, limit: int) -> list[p.CellRow]:
        return [p.CellRow(*row) for row in self._read(SQL["due_cells"], (*lane, now, limit))]

    async def next_wake(self, lane: p.Key, after: int) -> int | None:
        found: int | None = self._read(SQL["next_cell_wake"], (*lane, after))[0][0]
        return found

    async def find_cells(self, query: p.CellQuery, limit: int, after: p.CellCursor | None = None) -> list[p.CellRow]:
        lane, key = after or ("", b"")
        values = (query.tenant, query.machine, query.status, query.active_since, lane, key, limit)
        return [p.CellRow(*row) for row in self._read(SQL["find_cells"], values)]

    async def dead_letters(self, tenant: str, limit: int, after: tuple[str, int, int] | None = None) -> list[p.DeadRow]:
        return [p.DeadRow(*row) for row in self._read(SQL["dead_letters"], (tenant, *(after or ("", 0, 0)), limit))]

    async def count_cells(self, tenant: str, machine: str) -> dict[str, int]:
        return dict(self._read(SQL["count_cells"], (tenant, machine)))
