"""Roots of lanes, and the nodes and records of their trees."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.store import protocol as p
from holdfast.store.memory.governance import MemoryGovernance
from holdfast.store.memory.tables import Tables


def put_root(tables: Tables, change: p.PutRoot) -> None:
    """Keep a root with its nodes."""
    row = change.row
    tables.cell_roots.setdefault(row.key, []).append(row)
    tables.cell_nodes.setdefault(row.key, {}).update(change.nodes)
    marks = tables.deleted_cells.get(row.key, {})
    for key in [key for key, version in marks.items() if version < row.version]:
        del marks[key]
    for rows in tables.held_events.get(row.key, {}).values():
        for number in [number for number, held in rows.items() if held.event is None and held.version < row.version]:
            del rows[number]


class MemoryRoots(MemoryGovernance):
    """The operations of the memory store about roots."""

    async def unrooted(self, lane: p.Key, since: int) -> p.Unrooted | None:
        with self._transaction() as tables:
            run = tables.runs.get(lane)
            if run is None:
                return None
            kept = tables.cells.get(lane, {})
            cells = [(row.key, row.record) for row in kept.values() if row.version >= since]
            marks = tables.deleted_cells.get(lane, {})
            deleted = [key for key, version in marks.items() if version >= since and key not in kept]
            held = [
                (key, number, row.event)
                for key, rows in tables.held_events.get(lane, {}).items()
                for number, row in rows.items()
                if row.version >= since
            ]
            return p.Unrooted(run.version, run.head, cells, deleted, held)

    async def roots(self, lane: p.Key, limit: int, at: int | None = None) -> list[p.RootRow]:
        with self._transaction() as tables:
            found = [row for row in tables.cell_roots.get(lane, ()) if at in (None, row.version)]
            return found[::-1][:limit]

    async def cell_nodes(self, lane: p.Key, names: Sequence[bytes]) -> dict[bytes, bytes]:
        with self._transaction() as tables:
            kept = tables.cell_nodes.get(lane, {})
            return {name: kept[name] for name in names if name in kept}

    async def cell_node_names(self, lane: p.Key, limit: int, after: bytes = b"") -> list[bytes]:
        with self._transaction() as tables:
            return sorted(name for name in tables.cell_nodes.get(lane, ()) if name > after)[:limit]

    async def sweep(self, lane: p.Key, last: int, versions: Sequence[int], names: Sequence[bytes]) -> bool:
        with self._transaction() as tables:
            roots = tables.cell_roots.get(lane, [])
            if not roots or roots[-1].version != last:
                return False
            tables.cell_roots[lane] = [row for row in roots if row.version not in versions]
            kept = tables.cell_nodes.get(lane, {})
            for name in names:
                kept.pop(name, None)
            return True
