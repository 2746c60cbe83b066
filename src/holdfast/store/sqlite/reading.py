"""Reading runs, their journals, inboxes and blobs."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.store import protocol as p
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.governance import SqliteGovernance
from holdfast.store.sqlite.sql import SQL


class SqliteReading(SqliteGovernance):
    """What is asked about runs."""

    async def get(self, keys: Sequence[p.Key]) -> list[p.Run]:
        return [rows.run(row) for key in keys for row in self._read(SQL["get"], key)]

    async def load(self, keys: Sequence[p.Key], *, whole: bool = False) -> dict[p.Key, p.Loaded]:
        loaded = {}
        for run in await self.get(keys):
            kept = [] if whole else self._read(SQL["checkpoint"], (*run.key, run.generation))
            checkpoint = p.CheckpointRow(*kept[0]) if kept else None
            first = 0 if checkpoint is None else checkpoint.version
            found = self._read(SQL["segments"], (*run.key, run.generation, first, -1))
            segments = [rows.segment(row) for row in found]
            blobs = await self._named_blobs(run.key, segments) if checkpoint is None else {}
            loaded[run.key] = p.Loaded(segments, blobs, self._inbox(run.key), checkpoint)
        return loaded

    async def _named_blobs(self, key: p.Key, segments: Sequence[p.Segment]) -> dict[bytes, bytes]:
        digests = (digest for (digest,) in self._read(SQL["digests_of"], key))
        return await self.blobs(key.tenant, p.named_in(segments, digests))

    async def journals(self, keys: Sequence[p.Key]) -> dict[p.Key, list[p.Segment]]:
        journals = {}
        for run in await self.get(keys):
            found = self._read(SQL["segments"], (*run.key, run.generation, 0, -1))
            journals[run.key] = [rows.segment(row) for row in found]
        return journals

    def _inbox(self, key: p.Key) -> list[p.Received]:
        return [
            p.Received(position, p.Message(kind, body, at))
            for position, kind, body, at in self._read(SQL["messages"], key)
        ]

    async def messages(self, keys: Sequence[p.Key]) -> dict[p.Key, list[p.Received]]:
        return {key: self._inbox(key) for key in keys}

    async def segments(self, key: p.Key, generation: int, first: int, limit: int) -> list[p.Segment]:
        return [rows.segment(row) for row in self._read(SQL["segments"], (*key, generation, first, limit))]

    async def blob(self, tenant: str, digest: bytes) -> bytes | None:
        found = self._read(SQL["blob"], (tenant, digest))
        return found[0][0] if found else None

    async def blobs(self, tenant: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        found = ((each, await self.blob(tenant, each)) for each in digests)
        return {digest: data async for digest, data in found if data is not None}

    async def code(self, tenant: str, digests: Sequence[bytes]) -> dict[bytes, p.Code]:
        found = (row for digest in digests for row in self._read(SQL["code"], (tenant, digest)))
        return {row[0]: p.Code(*row) for row in found}

    async def find(self, query: p.Query, limit: int, after: p.Run | p.Cursor | None = None) -> list[p.Run]:
        where, values = rows.conditions(query, after)
        order = "ORDER BY created_at DESC, tenant DESC, id DESC LIMIT ?"
        sql = f"SELECT * FROM runs WHERE {where} {order}"  # noqa: S608  # the clauses are ours, the values are bound
        return [rows.run(row) for row in self._read(sql, (*values, limit))]

    async def counts(self, tenant: str | None = None) -> list[p.RunCount]:
        return [p.RunCount(*row) for row in self._read(SQL["counts"], (tenant,))]

    async def work_of(self, key: p.Key) -> list[tuple[p.Work, str | None]]:
        return [(rows.work(row[:-1]), row[-1]) for row in self._read(SQL["work_of"], key)]

    async def progress_of(self, key: p.Key) -> list[p.Progress]:
        return [p.Progress(*row) for row in self._read(SQL["progress_of"], key)]

    async def workers(self) -> list[p.WorkerRow]:
        return [rows.worker(row) for row in self._read(SQL["workers"])]
