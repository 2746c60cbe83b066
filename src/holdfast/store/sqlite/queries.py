"""The operations that read runs, their journals, inboxes and blobs."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final

from holdfast.store import protocol as p
from holdfast.store import sql_rows
from holdfast.store.counts import are_whole, cut
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.audit import where_equal
from holdfast.store.sqlite.cells import SqliteCells
from holdfast.store.sqlite.sql import SQL

FEW: Final = 2000
"""So many rows are read and sorted for one page."""


class SqliteQueries(SqliteCells):
    """The operations of the SQLite store that read runs."""

    async def get(self, keys: Sequence[p.Key]) -> list[p.Run]:
        return [sql_rows.run(row) for key in keys for row in self._read(SQL["get"], key)]

    async def load(self, keys: Sequence[p.Key], *, whole: bool = False) -> dict[p.Key, p.Loaded]:
        loaded = {}
        for run in await self.get(keys):
            kept = [] if whole else self._read(SQL["checkpoint"], (*run.key, run.generation))
            checkpoint = p.CheckpointRow(*kept[0]) if kept else None
            first = 0 if checkpoint is None else checkpoint.version
            found = self._read(SQL["segments"], (*run.key, run.generation, first, -1))
            segments = [sql_rows.segment(row) for row in found]
            loaded[run.key] = p.Loaded(segments, {}, self._inbox(run.key), checkpoint)
        return loaded

    async def journals(self, keys: Sequence[p.Key]) -> dict[p.Key, list[p.Segment]]:
        journals = {}
        for run in await self.get(keys):
            found = self._read(SQL["segments"], (*run.key, run.generation, 0, -1))
            journals[run.key] = [sql_rows.segment(row) for row in found]
        return journals

    def _inbox(self, key: p.Key) -> list[p.Received]:
        return [
            p.Received(position, p.Message(kind, body, at))
            for position, kind, body, at in self._read(SQL["messages"], key)
        ]

    async def messages(self, keys: Sequence[p.Key]) -> dict[p.Key, list[p.Received]]:
        return {key: self._inbox(key) for key in keys}

    async def segments(self, key: p.Key, generation: int, first: int, limit: int) -> list[p.Segment]:
        return [sql_rows.segment(row) for row in self._read(SQL["segments"], (*key, generation, first, limit))]

    async def blob(self, tenant: str, digest: bytes) -> bytes | None:
        found = self._read(SQL["blob"], (tenant, digest))
        return found[0][0] if found else None

    async def blobs(self, tenant: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        found = ((each, await self.blob(tenant, each)) for each in digests)
        return {digest: data async for digest, data in found if data is not None}

    async def code(self, tenant: str, digests: Sequence[bytes]) -> dict[bytes, p.Code]:
        found = (row for digest in digests for row in self._read(SQL["code"], (tenant, digest)))
        return {row[0]: p.Code(*row) for row in found}

    async def definitions(
        self, tenant: str, limit: int, after: p.DefinitionRow | None = None, *, name: str | None = None
    ) -> list[p.DefinitionRow]:
        place = (None, None) if after is None else after[1:3]
        return [p.DefinitionRow(*row) for row in self._read(SQL["definitions"], (tenant, name, *place, limit))]

    async def item(self, key: p.ItemKey) -> p.ItemRow | None:
        found = self._read(SQL["item"], key)
        return p.ItemRow(*found[0]) if found else None

    async def items(
        self,
        kind: str,
        limit: int,
        *,
        tenant: str | None = None,
        id: str | None = None,
        status: str | None = None,
        after: p.ItemKey | None = None,
    ) -> list[p.ItemRow]:
        where, values = where_equal(kind=kind, tenant=tenant, id=id, status=status)
        if after is not None:
            where += " AND (tenant, id) > (?, ?)"
            values += [after.tenant, after.id]
        columns = "tenant, kind, id, version, body, status, due_at, changed_at"
        sql = f"SELECT {columns} FROM items WHERE {where} ORDER BY tenant, id LIMIT ?"  # noqa: S608  # values are bound
        return [p.ItemRow(*row) for row in self._read(sql, (*values, limit))]

    async def due_items(self, kind: str, now: int, limit: int) -> list[p.ItemRow]:
        return [p.ItemRow(*row) for row in self._read(SQL["due_items"], (kind, now, limit))]

    async def next_due_item(self, kind: str) -> int | None:
        (row,) = self._read(SQL["next_due_item"], (kind,))
        found: int | None = row[0]
        return found

    async def find(self, query: p.Query, limit: int, after: p.Run | p.Cursor | None = None) -> list[p.Run]:
        tenants = [tenant for (tenant,) in self._read(SQL["tenants"])] if query.tenant is None else [query.tenant]
        found = [run for part in rows.parts(query, tenants) for run in self._part(part, limit, after)]
        return heapq.nlargest(limit, found, key=lambda run: run.cursor)

    def _part(self, query: p.Query, limit: int, after: p.Run | p.Cursor | None) -> list[p.Run]:
        are_few = self._ended_are_few(query)
        leading = "" if are_few else self._leading(query)
        where, values = rows.conditions(query, after, leading)
        tables: tuple[str, ...] = ("runs WHERE true",)
        order = "created_at DESC, id DESC"
        if are_few:
            tables = rows.ENDED_RUNS
        elif leading.startswith(rows.ATTRIBUTE):
            tables, order = (rows.OF_ATTRIBUTE,), "made_at DESC, run DESC"
        found = []
        for table in tables:
            clauses = f"{table} AND {where} ORDER BY {order} LIMIT ?"
            sql = f"SELECT runs.* FROM {clauses}"  # noqa: S608  # the clauses are ours, the values are bound
            found += [sql_rows.run(row) for row in self._read(sql, (*values, limit))]
        return found

    def _leading(self, query: p.Query) -> str:
        """The column whose condition the fewest runs fulfil. They are counted, because SQLite does not know it."""
        leaders = rows.leaders(query)
        if len(leaders) < 2:
            return next(iter(leaders), "")
        counts = {}
        for column, (where, values) in leaders.items():
            table = "run_attributes WHERE of_tenant" if column.startswith(rows.ATTRIBUTE) else "runs WHERE tenant"
            some = f"SELECT 1 FROM {table} = ? AND {where} LIMIT {FEW}"  # noqa: S608  # the clauses are ours
            ((counts[column],),) = self._read(f"SELECT count(*) FROM ({some})", (query.tenant, *values))  # noqa: S608
        return min(counts, key=lambda column: counts[column])

    def _ended_are_few(self, query: p.Query) -> bool:
        """Whether reading all runs that ended in a time is better than looking for them among all runs."""
        if query.ended_after is None:
            return False
        span = query.ended_after, query.ended_before or rows.LATEST
        ((count,),) = self._read(SQL["count_ended"], (*span, FEW + 1))
        return bool(count <= FEW)

    async def counts(self, tenant: str | None = None, most: int | None = None) -> list[p.RunCount]:
        if tenant is None:
            return [p.RunCount(*row) for row in self._read(SQL["counts"])]
        if most is not None:
            found = [p.RunCount(tenant, *row) for row in self._read(SQL["counts_up_to"], (tenant, most + 1))]
            if are_whole(found, most):
                return cut(found, most)
        return cut([p.RunCount(tenant, *row) for row in self._read(SQL["counts_of"], (tenant,))], most)

    async def owners(self, limit: int) -> list[str]:
        return [tenant for (tenant,) in self._read(SQL["owners"], (limit,))]

    async def oldest_due(self) -> int | None:
        times = [time for (time,) in self._read(SQL["oldest_due"]) if time is not None]
        return min(times, default=None)

    async def work_of(self, key: p.Key) -> list[tuple[p.Work, str | None]]:
        return [(sql_rows.work(row[:-1]), row[-1]) for row in self._read(SQL["work_of"], key)]

    async def progress_of(self, key: p.Key) -> list[p.StepProgress]:
        return [p.StepProgress(*row) for row in self._read(SQL["progress_of"], key)]

    async def workers(self) -> list[p.WorkerRow]:
        return [rows.worker(row) for row in self._read(SQL["workers"])]
