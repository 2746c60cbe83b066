"""The SQLite store.

Statements run on the event loop's own thread, because they only touch memory: in WAL mode nothing is written to disk
before COMMIT. COMMIT waits for the disk and runs in a separate thread, so the loop is not blocked. Statements would be
far slower there: each would have to get the interpreter's lock back from a busy loop. The usual turns of a busy engine
are two statements for a whole batch, and its usual deliveries three, so they run there, too: see ``usual_turns`` and
``usual_deliveries``.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.errors import StoreLost, StoreUnavailable, UnsupportedStore
from holdfast.store import protocol as p
from holdfast.store import sql_rows
from holdfast.store.outage import Outage
from holdfast.store.sqlite import admission as admitting
from holdfast.store.sqlite import handovers, presence
from holdfast.store.sqlite.cell_roots import NewNodes
from holdfast.store.sqlite.changes import apply
from holdfast.store.sqlite.connection import is_busy, prepare, translate, translated, uninterrupted
from holdfast.store.sqlite.identity import FileIdentity
from holdfast.store.sqlite.operations import prune, set_pause
from holdfast.store.sqlite.queries import SqliteQueries
from holdfast.store.sqlite.sql import SQL
from holdfast.store.sqlite.usual_deliveries import DeliverySorter, UsualDeliveries
from holdfast.store.sqlite.usual_turns import Unusual, UsualTurns, usual_turns, went_on

LOCK_PATIENCE_SECONDS: Final = 10.0
WATCH_SECONDS: Final = 0.1


class SqliteStore(SqliteQueries):
    """Runs in one file."""

    def __init__(self, path: str, outage: Outage | None = None) -> None:
        if not path or path == ":memory:":
            raise UnsupportedStore("sqlite:///FILE needs a file; for a store in memory use memory://")
        self.path = path
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._committer: ThreadPoolExecutor | None = None
        self._identity = FileIdentity(path)
        self._turn = asyncio.Lock()
        self._deliveries = DeliverySorter()
        self._watchers: dict[Callable[[], None], asyncio.Task[None]] = {}
        self.outage = outage or Outage()

    def twin(self) -> SqliteStore:
        return SqliteStore(self.path, self.outage)

    async def open(self, *, migrate: bool = True) -> None:
        if self._writer is not None:
            return
        if not migrate and _size(self.path) is None:
            raise UnsupportedStore(
                f"there is no database at {self.path}: check the path, or start a worker on it first."
            )
        opening = asyncio.get_running_loop().run_in_executor(None, partial(prepare, self.path, wanted=migrate))
        try:
            # Closing a connection that a thread still uses would crash the process: a cancelled caller waits for it.
            writer, reader = await uninterrupted(opening)
            self._writer, self._reader = writer, reader
        except asyncio.CancelledError:
            if opening.exception() is None:
                for connection in opening.result():
                    connection.close()
            raise
        self._identity = FileIdentity(self.path)
        self._committer = ThreadPoolExecutor(1, thread_name_prefix="holdfast-commit")
        self._turn = asyncio.Lock()
        self._deliveries = DeliverySorter()

    async def close(self) -> None:
        for task in self._watchers.values():
            task.cancel()
        self._watchers.clear()
        async with self._turn:
            if self._committer is not None:
                self._committer.shutdown(wait=True)
            for connection in (self._writer, self._reader):
                if connection is not None:
                    connection.close()
            self._writer = self._reader = self._committer = None

    # -- transactions --------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _transaction(
        self, finish: Callable[[sqlite3.Connection], None] = lambda _: None
    ) -> AsyncIterator[sqlite3.Connection]:
        """One write transaction. Nothing is awaited between BEGIN and COMMIT but COMMIT itself, and ``finish`` before
        it in the same thread."""
        async with self._turn:
            connection = self._writer
            if connection is None or self._committer is None:
                raise StoreUnavailable(f"{self.path} is not open")
            if self._identity.lost:
                self._identity.check()  # it may have been put back
            await self._begin(connection)
            try:
                yield connection
            except BaseException as error:
                if connection.in_transaction:  # SQLite may have rolled back by itself, for example on a full disk
                    connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    raise translate(error, self.path) from error
                raise
            # A cancelled caller waits for COMMIT: the next BEGIN must not use the connection at the same time.
            commit = asyncio.get_running_loop().run_in_executor(self._committer, self._commit, connection, finish)
            self._identity.look()  # during the wait for the disk: it costs a system call or two
            await uninterrupted(commit)
            if self._identity.lost:
                raise self._identity.error()

    async def _begin(self, connection: sqlite3.Connection) -> None:
        patience = time.monotonic() + LOCK_PATIENCE_SECONDS
        pause = 0.001
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                if not is_busy(error) or time.monotonic() > patience:
                    raise translate(error, self.path) from error
            else:
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.02)

    def _commit(self, connection: sqlite3.Connection, finish: Callable[[sqlite3.Connection], None]) -> None:
        try:
            finish(connection)
            connection.execute("COMMIT")
        except BaseException as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise translate(error, self.path) from error
            raise

    def _read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        if self._reader is None:
            raise StoreUnavailable(f"{self.path} is not open")
        if self._identity.lost:
            self._identity.check()
        with translated(self.path):
            return self._reader.execute(sql, values).fetchall()

    async def commit(self, batch: Sequence[p.Change]) -> list[p.Answer]:
        turns, deliveries = usual_turns(batch), self._deliveries.usual(batch)
        if turns or deliveries:
            with suppress(Unusual):
                return await self._make(batch, turns, deliveries)
        return await self._make(batch, {}, {})

    async def _make(
        self, batch: Sequence[p.Change], turns: Mapping[int, p.Advance], deliveries: Mapping[int, p.Deliver]
    ) -> list[p.Answer]:
        """Commit a batch of which these are usual. Raises Unusual where one of those is not, after all."""
        advancing = UsualTurns(turns.values()) if turns else None
        delivering = UsualDeliveries(deliveries.values()) if deliveries else None
        nodes = NewNodes()

        def finish(connection: sqlite3.Connection) -> None:
            for each in (advancing, delivering, nodes):
                if each is not None:
                    each.write(connection)

        answers: dict[int, p.Answer] = {at: went_on(turn) for at, turn in turns.items()}
        try:
            async with self._transaction(finish) as connection:
                cursor = connection.cursor()
                for at, change in enumerate(batch):
                    if at not in answers and at not in deliveries:
                        answers[at] = apply(cursor, change)
                        nodes.add(change, answers[at])
        except Unusual:
            if delivering is not None:
                self._deliveries.remember(delivering.strangers)
            raise
        if delivering is not None:
            answers.update(zip(deliveries, delivering.answers, strict=True))
        return [answers[at] for at in range(len(batch))]

    # -- leases --------------------------------------------------------------------------------------------------

    async def register(self, worker: p.WorkerRow, ttl_seconds: float) -> None:
        encode = msgspec.json.encode
        # The lock comes first: a registered worker whose lock is not held would look dead.
        presence.announce(self.path, worker.id)
        async with self._transaction() as connection:
            connection.execute(
                SQL["register"],
                (
                    worker.id,
                    worker.host,
                    worker.pid,
                    encode(worker.workflows).decode(),
                    encode(worker.queues).decode(),
                    worker.started_at,
                    _expiry(ttl_seconds),
                    encode(worker.kinds).decode(),
                    encode(worker.unavailable).decode(),
                ),
            )

    async def beat(self, worker: str, ttl_seconds: float) -> bool:
        async with self._transaction() as connection:
            return connection.execute(SQL["beat"], (_expiry(ttl_seconds), worker)).rowcount == 1

    async def report_clock(self, worker: str, ahead: int) -> None:
        async with self._transaction() as connection:
            connection.execute(SQL["report_clock"], (ahead, worker))

    async def now(self) -> int:
        return _now()

    async def due_now(self, kind: str, limit: int) -> p.DueNow:
        now = _now()
        return p.DueNow(now, await self.due_items(kind, now, limit))

    async def unregister(self, worker: str, now: int) -> None:
        async with self._transaction() as connection:
            _take_back(connection, worker, now, died=False)
        presence.withdraw(self.path, worker)

    async def rescue(self, now: int, by: str | None = None, *, cautious: bool = False) -> list[str] | None:
        alive_after = _now()
        registered = await self.workers()
        expired = {worker.id for worker in registered if worker.expires_at < alive_after}
        if by in expired:
            return None
        presence.sweep(self.path, {worker.id for worker in registered})
        gone = [
            worker.id
            for worker in registered
            if (worker.id in expired and not cautious) or presence.is_dead(self.path, worker.id)
        ]
        strays = [owner for (owner,) in self._read(SQL["strays"])]
        if gone or strays:
            async with self._transaction() as connection:
                strays = [owner for (owner,) in connection.execute(SQL["strays"])]
                for worker_id in [*gone, *strays]:
                    _take_back(connection, worker_id, now, died=True)
            for worker_id in gone:
                presence.withdraw(self.path, worker_id)
        if self._read(SQL["forsaken"], (alive_after,)):
            async with self._transaction() as connection:
                for key in connection.execute(SQL["forsaken"], (alive_after,)).fetchall():
                    connection.execute(SQL["forget_declined"], key)
        return gone

    async def claim(
        self,
        worker: str,
        serves: p.Serves,
        limit: int,
        now: int,
        limits: p.Limits | None = None,
        has_declined: bool = False,
    ) -> p.ClaimedRuns:
        names, kinds = (msgspec.json.encode(each).decode() for each in (serves.functions, serves.kinds))
        async with self._transaction() as connection:
            connection.execute(SQL["wake"], (now,))
            limits = admitting.limits_in(connection, limits)
            if limits is None:
                values = (worker, names, limit, now, kinds)
                claimed = connection.execute(handovers.CLAIM[has_declined], values).fetchall()
                next_start_at = None
            else:
                going = handovers.CLAIM_GOING[has_declined]
                claimed, next_start_at = admitting.claim(connection, going, worker, serves, limit, now, limits)
            (next_wake_at,) = connection.execute(SQL["next_wake"]).fetchone()
        moments = [at for at in (next_wake_at, next_start_at) if at is not None]
        return p.ClaimedRuns([sql_rows.run(row) for row in claimed], min(moments, default=None), limits is not None)

    async def decline(self, worker: str, key: p.Key, epoch: int, reason: str, now: int) -> bool:
        async with self._transaction() as connection:
            declined = p.Declined(worker, now, reason)
            return handovers.decline(connection, self.path, key, epoch, declined, _now())

    async def declined(self, key: p.Key) -> list[p.Declined]:
        return [p.Declined(*row) for row in self._read(SQL["declined"], key)]

    async def claim_work(
        self, worker: str, wanted: Mapping[str, int], now: int, steps: Sequence[str] | None = None
    ) -> p.ClaimedWork:
        names = None if steps is None else msgspec.json.encode(list(steps)).decode()
        async with self._transaction() as connection:
            work = [
                sql_rows.work(row)
                for queue, limit in wanted.items()
                for row in connection.execute(SQL["claim_work"], (worker, queue, now, limit, names)).fetchall()
            ]
            queues = msgspec.json.encode(list(wanted)).decode()
            (next_available_at,) = connection.execute(SQL["next_work"], (queues, names)).fetchone()
        return p.ClaimedWork(work, next_available_at)

    async def leased(self, worker: str) -> p.Leased:
        runs = [sql_rows.run(row) for row in self._read(SQL["leased_runs"], (worker,))]
        return p.Leased(runs, [sql_rows.work(row) for row in self._read(SQL["leased_work"], (worker,))])

    async def arrivals(self, worker: str) -> list[p.Run]:
        return [sql_rows.run(row) for row in self._read(SQL["arrivals"], (worker,))]

    async def workload(self, tenant: str | None = None) -> p.Workload:
        ((ready, oldest),) = self._read(SQL["ready_runs"], (tenant,))
        ((timer,),) = self._read(SQL["earliest_timer"], (tenant,))
        queues = tuple(p.QueueLoad(*row) for row in self._read(SQL["queues"], (tenant,)))
        leases = dict(self._read(SQL["leases"], (tenant,)))
        return p.Workload(ready, oldest, timer, leases, queues, _size(self.path))

    async def facts(self) -> p.Facts:
        ((inbox, work, blobs),) = self._read(SQL["count_rest"])
        ((schema,),) = self._read("PRAGMA user_version")
        runs = dict(self._read(SQL["count_runs"]))
        return p.Facts("sqlite", sqlite3.sqlite_version, schema, runs, inbox, work, blobs, _size(self.path))

    # -- operating -----------------------------------------------------------------------------------------------

    async def pause(self, key: p.Key, reason: str, now: int) -> bool:
        async with self._transaction() as connection:
            return set_pause(connection.cursor(), p.Pause(key, reason, now))

    async def unpause(self, key: p.Key, now: int) -> bool:
        async with self._transaction() as connection:
            return set_pause(connection.cursor(), p.Unpause(key, now))

    async def prune(self, ended_before: int, limit: int) -> int:
        async with self._transaction() as connection:
            return prune(connection, ended_before, limit)

    async def untold(self, ended_before: int, limit: int) -> list[p.Run]:
        return [sql_rows.run(row) for row in self._read(SQL["untold"], (ended_before, limit))]

    async def forget_deliveries(self, before: int, limit: int) -> int:
        async with self._transaction() as connection:
            return connection.execute(SQL["forget_deliveries"], (before, limit)).rowcount

    async def identity(self) -> str:
        if self._writer is None:
            raise StoreUnavailable(f"{self.path} is not open")
        return self._identity.name()

    def watch(self, hint: Callable[[], None]) -> Callable[[], None]:
        task = asyncio.get_running_loop().create_task(self._look(hint), name="holdfast-watch")
        self._watchers[hint] = task

        def stop() -> None:
            task.cancel()
            self._watchers.pop(hint, None)

        return stop

    async def _look(self, hint: Callable[[], None]) -> None:
        """SQLite notifies nobody, so poll: a number in the file changes whenever another connection commits."""
        last: int | None = None
        while True:
            async with self._turn:
                if self._writer is None:
                    return
                with suppress(StoreLost):  # the next read or write raises it
                    self._identity.check()
                (version,) = self._writer.execute("PRAGMA data_version").fetchone()
            if last is not None and version != last:
                hint()
            last = version
            await asyncio.sleep(WATCH_SECONDS)


def _take_back(connection: sqlite3.Connection, worker: str, now: int, *, died: bool) -> None:
    connection.execute(SQL["take_back_runs"], (worker, now, died))
    connection.execute(SQL["take_back_work"], (worker,))
    connection.execute(SQL["forget_worker"], (worker,))
    connection.execute(SQL["forget_declined_by"], (worker,))


def _now() -> int:
    """The clock of this host, which all processes on the file share."""
    return time.time_ns() // 1000


def _expiry(ttl_seconds: float) -> int:
    return _now() + round(ttl_seconds * 1e6)


def _size(path: str) -> int | None:
    """The file's size; None where it does not exist."""
    file = Path(path)
    return file.stat().st_size if file.exists() else None
