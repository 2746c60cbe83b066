"""Roots of lanes, and the nodes and records of their trees."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from holdfast.store import protocol as p
from holdfast.store import sql_rows
from holdfast.store.sqlite.governance import SqliteGovernance
from holdfast.store.sqlite.sql import SQL


def last_root(cursor: sqlite3.Cursor | sqlite3.Connection, lane: p.Key) -> int:
    """The version of a lane's last root; 0 where there is none."""
    found = cursor.execute(SQL["last_root"], lane).fetchone()
    return 0 if found is None else int(found[0])


def put_root(cursor: sqlite3.Cursor, change: p.PutRoot) -> None:
    """Keep a root with its nodes."""
    row = change.row
    cursor.execute(SQL["put_root"], row)
    cursor.executemany(SQL["put_node"], [(*row.key, name, data) for name, data in change.nodes.items()])
    cursor.execute(SQL["forget_deleted_cells"], (*row.key, row.version))


class SqliteRoots(SqliteGovernance):
    """The operations of the SQLite store about roots."""

    async def unrooted(self, lane: p.Key, since: int) -> p.Unrooted | None:
        return sql_rows.unrooted(self._read(SQL["unrooted"], (*lane, since)))

    async def roots(self, lane: p.Key, limit: int, at: int | None = None) -> list[p.RootRow]:
        return [p.RootRow(*row) for row in self._read(SQL["cell_roots"], (*lane, limit, at))]

    async def cell_nodes(self, lane: p.Key, names: Sequence[bytes]) -> dict[bytes, bytes]:
        return dict(row for name in names for row in self._read(SQL["cell_node"], (*lane, name)))

    async def cell_node_names(self, lane: p.Key, limit: int, after: bytes = b"") -> list[bytes]:
        return [name for (name,) in self._read(SQL["cell_node_names"], (*lane, after, limit))]

    async def sweep(self, lane: p.Key, last: int, versions: Sequence[int], names: Sequence[bytes]) -> bool:
        async with self._transaction() as connection:
            if last_root(connection, lane) != last:
                return False
            connection.executemany(SQL["drop_root"], [(*lane, version) for version in versions])
            connection.executemany(SQL["drop_node"], [(*lane, name) for name in names])
            return True
