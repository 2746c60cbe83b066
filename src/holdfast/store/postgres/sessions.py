"""A store's pool of connections, and its transactions: their errors, and when they are repeated."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from holdfast.errors import HoldfastError, StoreReadOnly, StoreUnavailable
from holdfast.store.outage import Outage
from holdfast.store.postgres.acknowledged import Acknowledged
from holdfast.store.postgres.cluster import Cluster
from holdfast.store.postgres.connection import DEADLOCK, READ_ONLY, SERIALIZATION, failures, shown, translate
from holdfast.store.postgres.doubt import check_warnings, confirm, is_doubtful
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.presence_session import PresenceSession
from holdfast.store.postgres.primary_monitor import PrimaryMonitor
from holdfast.store.postgres.schema import Surroundings, prepare
from holdfast.store.postgres.sql import SQL
from holdfast.store.values import Key

POOL_SIZE: Final = 6
TRIES: Final = 5

T = TypeVar("T")


class Sessions:
    """The sessions of one handle on one schema of one database."""

    def __init__(
        self, url: str, *, pool_size: int = POOL_SIZE, cluster: Cluster | None = None, outage: Outage | None = None
    ) -> None:
        self.url = url
        self.outage = outage or Outage()
        self._cluster = cluster or Cluster(url)
        self._pool_size = pool_size
        self._instance = uuid.uuid4().hex
        self._pool: Pool | None = None
        self._presence: PresenceSession | None = None
        self._monitor: PrimaryMonitor | None = None
        self._acknowledged = Acknowledged(url, self._name)
        self._marks: Mapping[Key, str] = {}  # of runs that were split
        self._around = Surroundings("")

    async def open(self, *, migrate: bool = True) -> None:
        if self._pool is not None:
            return
        self._around = await prepare(self._cluster, wanted=migrate)
        self._pool = Pool(self._cluster, self._pool_size)
        self._presence = PresenceSession(self._cluster, self.outage, self._around.channel, self._instance)
        self._monitor = PrimaryMonitor(self._cluster, self._pool, self._presence, self._drop)

    async def close(self) -> None:
        presence, pool, monitor = self._presence, self._pool, self._monitor
        self._presence = self._pool = self._monitor = None
        if monitor is not None:
            await monitor.stop()
        if presence is not None:
            await presence.close()
        if pool is not None:
            await pool.close()

    def _drop(self) -> None:
        """End every session of this handle at once. Operations under way are tried again on new ones."""
        self._lost()
        self._marks = {}
        if self._pool is not None:
            self._pool.drop()
        if self._presence is not None:
            self._presence.drop()

    def _lost(self) -> None:
        """The server was not reached, or a session with it was lost: another may be the primary by now."""
        self.outage.lost()
        self._cluster.search_again()

    def _name(self) -> str:
        """The name of this process: that of its worker, if it has one."""
        workers = [] if self._presence is None else self._presence.workers
        return workers[0] if workers else f"{socket.gethostname()}-{os.getpid()}"

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        """A confirmed session. Without a transaction each statement is one by itself. Errors are translated."""
        async with self._glance() as session:
            if not session.confirmed:
                await confirm(session, self.url)
                await self._acknowledged.compare(session)
            yield session
            check_warnings(session, self.url)

    @asynccontextmanager
    async def _glance(self) -> AsyncIterator[Any]:
        """A session that may see data that a synchronous standby lacks: for queries on whose results nothing relies."""
        pool = self._pool
        if pool is None:
            raise StoreUnavailable(f"{shown(self.url)} is not open")
        try:
            session = await self._acquired(pool)
            try:
                yield session
                self.outage.reached()
            except BaseException as error:
                self._end(pool, session, error)
                raise
            finally:
                pool.release(session)
        except failures() as error:
            translated = translate(error, self.url)
            if isinstance(translated, StoreReadOnly) and self._cluster.several:
                translated = StoreUnavailable(str(translated))
            raise translated from error

    async def _acquired(self, pool: Pool) -> Any:
        try:
            return await pool.acquire()
        except HoldfastError:
            self._lost()
            raise

    def _end(self, pool: Pool, session: Any, error: BaseException) -> None:
        """End a failed use: drop the session, unless the server reported the error and the session still works."""
        doubtful = session.warned or session.is_closed() or is_doubtful(error)
        if doubtful or getattr(error, "sqlstate", None) == READ_ONLY:
            session.terminate()
        if doubtful:
            pool.doubt()
            if isinstance(error, Exception):  # and no caller that has gone
                self._lost()

    @asynccontextmanager
    async def _transaction(self, begin: str = "BEGIN") -> AsyncIterator[Any]:
        async with self._connection() as session:
            await session.execute(begin)
            try:
                yield session
            except BaseException as error:
                # The driver would cancel the running statement before it rolls back, and nothing may cancel a commit.
                if is_doubtful(error):
                    session.terminate()
                else:
                    await session.execute("ROLLBACK")
                raise
            await session.execute("COMMIT")

    async def _retried(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeat an attempt that was rolled back because of another transaction."""
        for number in range(1, TRIES + 1):
            try:
                return await attempt()
            except StoreUnavailable as error:
                state = getattr(error.__cause__, "sqlstate", None)
                if state not in (DEADLOCK, SERIALIZATION) or number == TRIES:
                    raise
            await asyncio.sleep(random.uniform(0, 0.01 * number))
        raise AssertionError("unreachable")

    async def _read(self, name: str, *values: Any) -> list[Any]:
        async with self._connection() as connection:
            found: list[Any] = await connection.fetch(SQL[name], *values)
            return found

    async def _look(self, name: str, *values: Any) -> list[Any]:
        async with self._glance() as session:
            found: list[Any] = await session.fetch(SQL[name], *values)
            return found
