"""A store's pool of connections, and its transactions: what they raise, and when they are simply done again."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from holdfast.errors import StoreUnavailable
from holdfast.store.postgres.connection import (
    COMMAND_SECONDS,
    DEADLOCK,
    SERIALIZATION,
    Surroundings,
    close,
    failures,
    make_pool,
    prepare,
    shown,
    translate,
)
from holdfast.store.postgres.sql import SQL
from holdfast.store.postgres.vigil import Vigil

POOL_SIZE: Final = 6
TRIES: Final = 5
TROUBLE_SECONDS: Final = 3.0
"""So long after this handle itself lost the server, nobody is taken for dead for having lost it too."""

T = TypeVar("T")


class Sessions:
    """The sessions of one handle on one schema of one database."""

    def __init__(self, url: str, *, pool_size: int = POOL_SIZE) -> None:
        self.url = url
        self._pool_size = pool_size
        self._instance = uuid.uuid4().hex
        self._pool: Any = None
        self._vigil: Vigil | None = None
        self._around = Surroundings("", {})
        self._trouble_at = float("-inf")

    async def open(self, *, migrate: bool = True) -> None:
        if self._pool is not None:
            return
        around = await prepare(self.url, wanted=migrate)
        self._pool = await make_pool(self.url, around.settings, most=self._pool_size)
        self._around = around
        self._vigil = Vigil(self.url, around.settings, around.channel, self._instance)

    async def close(self) -> None:
        vigil, pool = self._vigil, self._pool
        self._vigil = self._pool = None
        if vigil is not None:
            await vigil.close()
        if pool is not None:
            await close(pool)

    @property
    def _settled(self) -> bool:
        """Whether this handle has not lost the server lately."""
        return time.monotonic() - self._trouble_at > TROUBLE_SECONDS

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        """A connection of the pool; outside a transaction each statement is one. Errors come out translated."""
        if self._pool is None:
            raise StoreUnavailable(f"{shown(self.url)} is not open")
        try:
            async with self._pool.acquire(timeout=COMMAND_SECONDS) as connection:
                yield connection
        except failures() as error:
            translated = translate(error, self.url)
            if isinstance(translated, StoreUnavailable):
                self._trouble_at = time.monotonic()
            raise translated from error

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Any]:
        async with self._connection() as connection, connection.transaction():
            yield connection

    async def _retried(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """What was rolled back because of another transaction is simply done again."""
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
