"""The PostgreSQL store.

A commit of plain changes of one kind is one statement and one round trip; see ``changes``. A worker is dead when its
time by the server's clock is over, or earlier, when the server drops its lock with its session; see
``presence_session``. A connection pooler between store and server must pool by session: locks, LISTEN and prepared
statements belong to a session. ``cluster`` finds the primary server; ``doubt`` decides what may be acknowledged while a
standby is away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.errors import StoreUnavailable
from holdfast.store import protocol as p
from holdfast.store import sql_rows
from holdfast.store.concerns import concerns_others
from holdfast.store.counts import are_whole, cut
from holdfast.store.postgres import handovers, rows
from holdfast.store.postgres.admission import claim_within, limits_in
from holdfast.store.postgres.cells import PostgresCells
from holdfast.store.postgres.changes import apply, one_statement
from holdfast.store.postgres.connection import shown
from holdfast.store.postgres.deliveries import heirs_of
from holdfast.store.postgres.layers import Touched, rows_of
from holdfast.store.postgres.lineage import Lineage
from holdfast.store.postgres.run_list import run_list
from holdfast.store.postgres.sql import SQL
from holdfast.store.postgres.writer import Writer, columns


class PostgresStore(PostgresCells):
    """Runs in one schema of one database."""

    def twin(self) -> PostgresStore:
        return PostgresStore(self.url, pool_size=1, cluster=self._cluster, outage=self.outage)

    # -- committing ----------------------------------------------------------------------------------------------

    def _hint(self) -> tuple[str, str]:
        return self._around.channel, self._instance

    async def commit(self, batch: Sequence[p.Change]) -> list[p.Answer]:
        if not batch:
            return []
        hinting = any(concerns_others(change) for change in batch)
        write = self._commit_plain if one_statement(batch) else self._commit_mixed
        answers, lineage = await self._retried(lambda: write(batch, hinting))
        self._acknowledged.note(batch, answers, lineage)
        return answers

    async def _commit_plain(self, batch: Sequence[p.Change], hinting: bool) -> tuple[list[p.Answer], Lineage | None]:
        async with self._connection() as connection:
            writer = Writer(connection, *self._hint(), self._marks)
            writer.hinting = hinting
            answers, lineage = await apply(writer, batch), connection.lineage
        self._marks = writer.marks
        return answers, lineage

    async def _commit_mixed(self, batch: Sequence[p.Change], hinting: bool) -> tuple[list[p.Answer], Lineage | None]:
        async with self._transaction() as connection:
            writer = Writer(connection, *self._hint(), self._marks)
            touched = {row for change in batch for row in rows_of(change)}
            touched.update(("runs", *key) for key in heirs_of(batch, self._marks))
            await _lock(writer, touched)
            answers = await apply(writer, batch)
            if hinting:
                await writer.hint()
            lineage = connection.lineage
        self._marks = writer.marks
        return answers, lineage

    # -- leases --------------------------------------------------------------------------------------------------

    async def register(self, worker: p.WorkerRow, ttl_seconds: float) -> None:
        # The lock comes first: a row without a lock looks like a dead worker.
        await self._attend(worker.id)
        await self._read(
            "register",
            worker.id,
            worker.host,
            worker.pid,
            list(worker.workflows),
            list(worker.queues),
            worker.started_at,
            round(ttl_seconds * 1e6),
            list(worker.kinds),
            msgspec.json.encode(worker.unavailable).decode(),
        )

    async def beat(self, worker: str, ttl_seconds: float) -> bool:
        is_registered = bool(await self._read("beat", worker, round(ttl_seconds * 1e6)))
        if is_registered:
            await self._attend(worker)
        elif self._presence is not None:
            await self._presence.leave(worker)
        return is_registered

    async def report_clock(self, worker: str, ahead: int) -> None:
        await self._read("report_clock", worker, ahead)

    async def _attend(self, worker: str) -> None:
        if self._presence is None:
            raise StoreUnavailable(f"{shown(self.url)} is not open")
        await self._presence.attend(worker)

    async def unregister(self, worker: str, now: int) -> None:
        async def attempt() -> None:
            async with self._transaction() as connection:
                await self._take_back(connection, [worker], now, died=False)

        await self._retried(attempt)
        if self._presence is not None:
            await self._presence.leave(worker)

    async def rescue(self, now: int, by: str | None = None, *, cautious: bool = False) -> list[str] | None:
        async def attempt() -> list[str] | None:
            async with self._transaction() as connection:
                if by is not None and await connection.fetchval(SQL["has_expired"], by):
                    return None
                found = await connection.fetch(SQL["gone"], by)
                gone = [id for id, expired in found if not (cautious and expired)]
                if cautious and len(gone) > 1:  # a network that was cut may have taken the locks of all
                    gone = []
                strays = [row[0] for row in await connection.fetch(SQL["strays"])]
                if gone or strays:
                    await self._take_back(connection, [*gone, *strays], now, died=True)
                await connection.execute(SQL["forget_forsaken"])
                return gone

        return await self._retried(attempt)

    async def _take_back(self, connection: Any, workers: Sequence[str], now: int, *, died: bool) -> None:
        # The row is deleted first and stays locked: a beat waits for it and then sees that it is gone.
        await connection.execute(SQL["forget_worker"], workers)
        await connection.execute(SQL["take_back_runs"], workers, now, int(died))
        await connection.execute(SQL["take_back_work"], workers)
        await connection.execute(SQL["notify"], *self._hint())

    async def claim(
        self,
        worker: str,
        serves: p.Serves,
        limit: int,
        now: int,
        limits: p.Limits | None = None,
        has_declined: bool = False,
    ) -> p.ClaimedRuns:
        async with self._connection() as connection:
            if await limits_in(connection, limits) is None:
                await connection.execute(SQL["wake"], now)
                values = (worker, serves.functions, limit, now, serves.kinds)
                found = await connection.fetch(handovers.CLAIM[has_declined], *values)
                claimed = [sql_rows.run(row) for row in found if row["tenant"] is not None]
                return p.ClaimedRuns(claimed, found[0]["next_wake_at"])
        async with self._transaction() as connection:
            begun = handovers.CLAIM_BEGUN[has_declined]
            return await claim_within(connection, begun, worker, serves, limit, now, limits)

    async def decline(self, worker: str, key: p.Key, epoch: int, reason: str, now: int) -> bool:
        async def attempt() -> bool:
            async with self._transaction() as connection:
                handed = await handovers.decline(connection, key, epoch, p.Declined(worker, now, reason))
                await connection.execute(SQL["notify"], *self._hint())
                return handed

        return await self._retried(attempt)

    async def declined(self, key: p.Key) -> list[p.Declined]:
        return [p.Declined(*row) for row in await self._read("declined", *key)]

    async def claim_work(
        self, worker: str, wanted: Mapping[str, int], now: int, steps: Sequence[str] | None = None
    ) -> p.ClaimedWork:
        names = None if steps is None else list(steps)
        found = await self._read("claim_work", worker, list(wanted), list(wanted.values()), now, names)
        work = [sql_rows.work(row[:-1]) for row in found if row["tenant"] is not None]
        return p.ClaimedWork(work, found[0]["next_available_at"])

    async def leased(self, worker: str) -> p.Leased:
        runs = [sql_rows.run(row) for row in await self._read("leased_runs", worker)]
        return p.Leased(runs, [sql_rows.work(row) for row in await self._read("leased_work", worker)])

    async def arrivals(self, worker: str) -> list[p.Run]:
        return [sql_rows.run(row) for row in await self._read("arrivals", worker)]

    # -- reading -------------------------------------------------------------------------------------------------

    async def get(self, keys: Sequence[p.Key]) -> list[p.Run]:
        return [sql_rows.run(row) for row in await self._read("get", *columns(keys, 2))]

    async def load(self, keys: Sequence[p.Key], *, whole: bool = False) -> dict[p.Key, p.Loaded]:
        asked = columns(dict.fromkeys(keys), 2)
        loaded: dict[p.Key, p.Loaded] = {}
        async with self._transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as connection:
            kept = [] if whole else await connection.fetch(SQL["checkpoints"], *asked)
            for tenant, run, *checkpoint in kept:
                loaded[p.Key(tenant, run)] = p.Loaded([], {}, [], p.CheckpointRow(*checkpoint))
            rest = columns([key for key in dict.fromkeys(keys) if key not in loaded], 2)
            journals = await connection.fetch(SQL["journals"], *rest)
            if kept:
                versions = [(tenant, run, version) for tenant, run, version, *_ in kept]
                journals += await connection.fetch(SQL["tails"], *columns(versions, 3))
            for tenant, run, *segment in journals:
                loaded.setdefault(p.Key(tenant, run), p.Loaded([], {}, [])).segments.append(sql_rows.segment(segment))
            inboxes = await connection.fetch(SQL["messages"], *asked)
        for tenant, run, *message in inboxes:
            loaded[p.Key(tenant, run)].messages.append(rows.received(message))
        return loaded

    async def journals(self, keys: Sequence[p.Key]) -> dict[p.Key, list[p.Segment]]:
        found: dict[p.Key, list[p.Segment]] = {}
        for tenant, run, *segment in await self._read("journals", *columns(dict.fromkeys(keys), 2)):
            found.setdefault(p.Key(tenant, run), []).append(sql_rows.segment(segment))
        return found

    async def messages(self, keys: Sequence[p.Key]) -> dict[p.Key, list[p.Received]]:
        found: dict[p.Key, list[p.Received]] = {key: [] for key in keys}
        for tenant, run, *message in await self._read("messages", *columns(found, 2)):
            found[p.Key(tenant, run)].append(rows.received(message))
        return found

    async def segments(self, key: p.Key, generation: int, first: int, limit: int) -> list[p.Segment]:
        most = None if limit < 0 else limit
        return [sql_rows.segment(row) for row in await self._read("segments", *key, generation, first, most)]

    async def blob(self, tenant: str, digest: bytes) -> bytes | None:
        found = await self._read("blob", tenant, digest)
        return found[0][0] if found else None

    async def blobs(self, tenant: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        return {row["digest"]: row["data"] for row in await self._read("blobs", tenant, list(digests))}

    async def code(self, tenant: str, digests: Sequence[bytes]) -> dict[bytes, p.Code]:
        return {row["digest"]: p.Code(*row) for row in await self._read("code", tenant, list(digests))}

    async def definitions(
        self, tenant: str, limit: int, after: p.DefinitionRow | None = None, *, name: str | None = None
    ) -> list[p.DefinitionRow]:
        place = (None, None) if after is None else after[1:3]
        return [p.DefinitionRow(*row) for row in await self._read("definitions", tenant, name, *place, limit)]

    async def item(self, key: p.ItemKey) -> p.ItemRow | None:
        found = await self._read("item", *key)
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
        clauses = rows.item_clauses(kind, tenant, id, status, after)
        select = "SELECT tenant, kind, id, version, body, status, due_at, changed_at FROM items"
        return [p.ItemRow(*row) for row in await self._page(select, clauses, "tenant, id", limit)]

    async def due_items(self, kind: str, now: int, limit: int) -> list[p.ItemRow]:
        return [p.ItemRow(*row) for row in await self._look("due_items", kind, now, limit)]

    async def due_now(self, kind: str, limit: int) -> p.DueNow:
        found = await self._look("due_now", kind, limit)
        return p.DueNow(found[0][0], [p.ItemRow(*row[1:]) for row in found if row[1] is not None])

    async def now(self) -> int:
        ((now,),) = await self._look("now")
        found: int = now
        return found

    async def next_due_item(self, kind: str) -> int | None:
        (row,) = await self._look("next_due_item", kind)
        found: int | None = row[0]
        return found

    async def find(self, query: p.Query, limit: int, after: p.Run | p.Cursor | None = None) -> list[p.Run]:
        statement, values = run_list(query, limit, after)
        async with self._glance() as session:
            return [sql_rows.run(row) for row in await session.fetch(statement, *values)]

    async def counts(self, tenant: str | None = None, most: int | None = None) -> list[p.RunCount]:
        if tenant is None:
            return _summed(await self._look("counts"))
        if most is not None:
            found = _summed(await self._look("counts_up_to", tenant, most + 1))
            if are_whole(found, most):
                return cut(found, most)
        return cut(_summed(await self._look("counts_of", tenant)), most)

    async def owners(self, limit: int) -> list[str]:
        return [tenant for (tenant,) in await self._look("owners", limit)]

    async def oldest_due(self) -> int | None:
        return min((time for (time,) in await self._look("oldest_due") if time is not None), default=None)

    async def work_of(self, key: p.Key) -> list[tuple[p.Work, str | None]]:
        return [(sql_rows.work(row[:-1]), row[-1]) for row in await self._look("work_of", *key)]

    async def progress_of(self, key: p.Key) -> list[p.StepProgress]:
        return [p.StepProgress(*row) for row in await self._look("progress_of", *key)]

    async def workers(self) -> list[p.WorkerRow]:
        return [rows.worker(row) for row in await self._look("workers")]

    async def workload(self, tenant: str | None = None) -> p.Workload:
        ((ready, oldest),) = await self._look("ready_runs", tenant)
        ((timer,),) = await self._look("earliest_timer", tenant)
        queues = tuple(p.QueueLoad(*row) for row in await self._look("queues", tenant))
        leases = dict(await self._look("leases", tenant))
        ((size,),) = await self._look("size")
        return p.Workload(ready, oldest, timer, leases, queues, size)

    async def facts(self) -> p.Facts:
        ((inbox, work, blobs, schema, version, size),) = await self._look("count_rest")
        runs = dict(await self._look("count_runs"))
        return p.Facts("postgres", version, schema, runs, inbox, work, blobs, size)

    # -- operating -----------------------------------------------------------------------------------------------

    async def pause(self, key: p.Key, reason: str, now: int) -> bool:
        return bool(await self._read("pause", *key, reason, now))

    async def unpause(self, key: p.Key, now: int) -> bool:
        return bool(await self._read("unpause", *key, now, *self._hint()))

    async def prune(self, ended_before: int, limit: int) -> int:
        async def attempt() -> int:
            pruned = 0
            async with self._transaction() as connection:
                # The children of those that are deleted follow.
                while rows := await connection.fetch(SQL["prunable"], ended_before, limit - pruned):
                    keys = columns(rows, 2)
                    used = await connection.fetch(SQL["prune_blob_uses"], *keys)
                    blobs = columns({tuple(row) for row in used}, 2)
                    await connection.fetch(SQL["lock_blobs"], *blobs)
                    await connection.execute(SQL["prune_blobs"], *blobs)
                    await connection.execute(SQL["prune_holders"], *keys)
                    await connection.execute(SQL["prune_run"], *keys)
                    pruned += len(rows)
            return pruned

        return await self._retried(attempt)

    async def untold(self, ended_before: int, limit: int) -> list[p.Run]:
        return [sql_rows.run(row) for row in await self._read("untold", ended_before, limit)]

    async def forget_deliveries(self, before: int, limit: int) -> int:
        return len(await self._read("forget_deliveries", before, limit))

    async def identity(self) -> str:
        async with self._glance() as session:
            found = await session.fetchrow(SQL["identity"])
            cluster = "" if session.lineage is None else session.lineage.system
        return f"postgres {cluster} {found['database']} {found['schema']}"

    def watch(self, hint: Callable[[], None]) -> Callable[[], None]:
        if self._presence is None:
            raise StoreUnavailable(f"{shown(self.url)} is not open")
        return self._presence.watch(hint)


async def _lock(writer: Writer, touched: set[Touched]) -> None:
    """Lock the rows of a batch before anything else, in an order that all batches share. A single row needs no lock."""
    runs, receipts, tasks = (
        sorted({(tenant, id) for kind, tenant, id in touched if kind in tables})
        for tables in (("runs", "counts"), ("receipts",), ("tasks",))  # a run's lock also protects its count
    )
    if items := [f"{tenant} {id}" for kind, tenant, id in touched if kind == "items"]:
        await writer.fetch("lock_items", items)
    if len(receipts) + len(tasks) > 1:
        await writer.fetch("lock_governed", *columns(runs, 2), *columns(receipts, 2), *columns(tasks, 2))
    elif len(runs) > 1:
        await writer.fetch_columns("lock_runs", runs, width=2)


def _summed(counted: Sequence[Any]) -> list[p.RunCount]:
    """The numbers by tenant and status, of rows that add and take away."""
    found: Counter[tuple[str, p.Status]] = Counter()
    for tenant, status, count in counted:
        found[tenant, status] += count
    return [p.RunCount(*place, found[place]) for place in sorted(found) if found[place]]
