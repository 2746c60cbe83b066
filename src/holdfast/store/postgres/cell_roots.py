"""Roots of lanes, and the nodes and records of their trees."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.store import protocol as p
from holdfast.store import sql_rows
from holdfast.store.postgres.governance import PostgresGovernance
from holdfast.store.postgres.sql import SQL
from holdfast.store.postgres.writer import SET_SIZE, Writer


async def last_root(writer: Writer, lane: p.Key) -> int:
    """The version of a lane's last root, 0 where there is none. It stays the last one until the commit."""
    await writer.fetch("lock_roots", *lane)
    found = await writer.fetch("last_root", *lane)
    return int(found[0][0]) if found else 0


async def put_root(writer: Writer, change: p.PutRoot) -> None:
    """Keep a root with its nodes."""
    row, names = change.row, sorted(change.nodes)
    await writer.fetch("put_root", *row)
    for at in range(0, len(names), SET_SIZE):
        some = names[at : at + SET_SIZE]
        await writer.fetch("put_nodes", *row.key, some, [change.nodes[name] for name in some])
    await writer.fetch("forget_deleted_cells", *row.key, row.version)
    await writer.fetch("forget_held_events", *row.key, row.version)


class PostgresRoots(PostgresGovernance):
    """The operations of the PostgreSQL store about roots."""

    async def unrooted(self, lane: p.Key, since: int) -> p.Unrooted | None:
        return sql_rows.unrooted(await self._read("unrooted", *lane, since))

    async def roots(self, lane: p.Key, limit: int, at: int | None = None) -> list[p.RootRow]:
        return [p.RootRow(*row) for row in await self._read("cell_roots", *lane, limit, at)]

    async def cell_nodes(self, lane: p.Key, names: Sequence[bytes]) -> dict[bytes, bytes]:
        return {row[0]: row[1] for row in await self._read("cell_nodes", *lane, list(names))}

    async def cell_node_names(self, lane: p.Key, limit: int, after: bytes = b"") -> list[bytes]:
        return [row[0] for row in await self._read("cell_node_names", *lane, after, limit)]

    async def sweep(self, lane: p.Key, last: int, versions: Sequence[int], names: Sequence[bytes]) -> bool:
        async def attempt() -> bool:
            async with self._transaction() as connection:
                await connection.fetch(SQL["lock_roots"], *lane)
                found = await connection.fetch(SQL["last_root"], *lane)
                if not found or found[0][0] != last:
                    return False
                await connection.execute(SQL["drop_roots"], *lane, list(versions))
                await connection.execute(SQL["drop_nodes"], *lane, list(names))
                return True

        return await self._retried(attempt)
