"""Cells of machines: written in the commit of their lane's turn, read before the next."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence

from holdfast.store import protocol as p
from holdfast.store.cells import buried
from holdfast.store.memory.cell_roots import MemoryRoots
from holdfast.store.memory.tables import HeldRow, Tables


def put_cells(tables: Tables, change: p.PutCells) -> p.Answer:
    """Write a turn's cells, and what is held for them."""
    lane = tables.cells.setdefault(change.key, {})
    for each in change.cells:
        if each.record is None:
            lane.pop(each.key, None)
            tables.deleted_cells.setdefault(change.key, {})[each.key] = change.version
        else:
            lane[each.key] = p.CellRow(
                *change.key,
                each.key,
                change.machine,
                each.record,
                each.status,
                each.wake_at,
                each.active_at,
                change.version,
            )
    for held in change.held:
        rows = tables.held_events.setdefault(change.key, {}).setdefault(held.key, {})
        for number in [number for first, end in held.gone for number in range(first, end) if number in rows]:
            rows[number] = HeldRow(None, change.version)
        rows.update((number, HeldRow(event, change.version)) for number, event in held.held)
    for row in buried(change):
        tables.dead_letters[(row.tenant, *row.place)] = row
    return p.Kept()


class MemoryCells(MemoryRoots):
    """The operations of the memory store that read cells."""

    async def cells(self, lane: p.Key, keys: Sequence[bytes]) -> list[p.CellRow]:
        with self._transaction() as tables:
            kept = tables.cells.get(lane, {})
            return [kept[key] for key in keys if key in kept]

    async def held_events(
        self, lane: p.Key, key: bytes, first: int, limit: int, size_bytes: int
    ) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        with self._transaction() as tables:
            rows = tables.held_events.get(lane, {}).get(key, {})
            kept = ((number, row.event) for number, row in rows.items() if number >= first and row.event is not None)
            for number, event in heapq.nsmallest(limit, kept):
                if size_bytes <= 0:
                    break
                found.append((number, event))
                size_bytes -= len(event)
        return found

    async def due_cells(self, lane: p.Key, now: int, limit: int) -> list[p.CellRow]:
        with self._transaction() as tables:
            kept = tables.cells.get(lane, {})
            due = [(row.wake_at, row.key) for row in kept.values() if row.wake_at is not None and row.wake_at <= now]
            return [kept[key] for _, key in heapq.nsmallest(limit, due)]

    async def next_wake(self, lane: p.Key, after: int) -> int | None:
        with self._transaction() as tables:
            kept = tables.cells.get(lane, {}).values()
            return min((row.wake_at for row in kept if row.wake_at is not None and row.wake_at > after), default=None)

    async def find_cells(self, query: p.CellQuery, limit: int, after: p.CellCursor | None = None) -> list[p.CellRow]:
        with self._transaction() as tables:
            found = [
                row
                for lane, kept in tables.cells.items()
                if lane.tenant == query.tenant
                for row in kept.values()
                if row.machine == query.machine
                and query.status in (None, row.status)
                and (query.active_since is None or row.active_at >= query.active_since)
                and (after is None or (row.lane, row.key) > after)
            ]
        return heapq.nsmallest(limit, found, key=lambda row: (row.lane, row.key))

    async def dead_letters(self, tenant: str, limit: int, after: tuple[str, int, int] | None = None) -> list[p.DeadRow]:
        with self._transaction() as tables:
            found = [row for row in tables.dead_letters.values() if row.tenant == tenant]
        return heapq.nsmallest(limit, (row for row in found if after is None or row.place > after))

    async def count_cells(self, tenant: str, machine: str) -> dict[str, int]:
        with self._transaction() as tables:
            kept = [row for lane, rows in tables.cells.items() if lane.tenant == tenant for row in rows.values()]
        return dict(Counter(row.status for row in kept if row.machine == machine))
