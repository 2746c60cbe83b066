"""Roots of lanes, and the nodes and records of their trees."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from holdfast.store import protocol as p
from holdfast.store import sql_rows
from holdfast.store.sqlite.governance import SqliteGovernance
from holdfast.store.sqlite.sql import SQL
from holdfast.store.sqlite.usual_turns import filled

_NODE_COLUMNS: Final = 4
_AT_ONCE: Final = 512
_READ_AT_ONCE: Final = 64


def last_root(cursor: sqlite3.Cursor | sqlite3.Connection, lane: p.Key) -> int:
    """The version of a lane's last root; 0 where there is none."""
    found = cursor.execute(SQL["last_root"], lane).fetchone()
    return 0 if found is None else int(found[0])


def put_root(cursor: sqlite3.Cursor, change: p.PutRoot) -> None:
    """Keep a root. Its nodes, which are many, come with ``NewNodes``."""
    row = change.row
    cursor.execute(SQL["put_root"], row)
    cursor.execute(SQL["forget_deleted_cells"], (*row.key, row.version))
    cursor.execute(SQL["forget_held_events"], (*row.key, row.version))


class NewNodes:
    """The nodes of a batch's roots, many in a statement, for the thread that commits (see ``usual_turns``)."""

    def __init__(self) -> None:
        self._rows: list[Any] = []

    def add(self, change: p.Change, answer: p.Answer) -> None:
        """Add those of a change that was made."""
        if type(change) is p.Operate and type(answer) is p.OperatedOn:
            for act in change.changes:
                if isinstance(act, p.PutRoot):
                    self._rows += [
                        value for name, data in sorted(act.nodes.items()) for value in (*act.row.key, name, data)
                    ]

    def write(self, connection: sqlite3.Connection) -> None:
        size = _AT_ONCE * _NODE_COLUMNS
        for at in range(0, len(self._rows), size):
            connection.execute(*filled("put_nodes", _NODE_COLUMNS, self._rows[at : at + size]))


class SqliteRoots(SqliteGovernance):
    """The operations of the SQLite store about roots."""

    async def unrooted(self, lane: p.Key, since: int) -> p.Unrooted | None:
        return sql_rows.unrooted(self._read(SQL["unrooted"], (*lane, since)))

    async def roots(self, lane: p.Key, limit: int, at: int | None = None) -> list[p.RootRow]:
        return [p.RootRow(*row) for row in self._read(SQL["cell_roots"], (*lane, limit, at))]

    async def cell_nodes(self, lane: p.Key, names: Sequence[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for at in range(0, len(names), _READ_AT_ONCE):
            for name in names[at : at + _READ_AT_ONCE]:
                found.update(self._read(SQL["cell_node"], (*lane, name)))
            await asyncio.sleep(0)  # others have their turn
        return found

    async def cell_node_names(self, lane: p.Key, limit: int, after: bytes = b"") -> list[bytes]:
        return [name for (name,) in self._read(SQL["cell_node_names"], (*lane, after, limit))]

    async def sweep(self, lane: p.Key, last: int, versions: Sequence[int], names: Sequence[bytes]) -> bool:
        async with self._transaction() as connection:
            if last_root(connection, lane) != last:
                return False
            connection.executemany(SQL["drop_root"], [(*lane, version) for version in versions])
            connection.executemany(SQL["drop_node"], [(*lane, name) for name in names])
            return True
