"""The monitor: it ensures that nothing hangs on a server that is gone, frozen, or no longer the primary.

A frozen server, or one that the network has lost, closes no connection: a caller would wait until it wakes. So when an
answer is a second late, the monitor asks the server for a new connection. A living server gives it, even if its
statements take long. Otherwise all sessions with the server are dropped, and the primary is searched for elsewhere.
Where a newer primary answers under the same name, the sessions with the old one are dropped.

A primary that keeps running does not notice that a standby was promoted, and would accept writes that are lost with it.
So the other hosts of the URL are checked from time to time, too.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from holdfast.errors import HoldfastError
from holdfast.store.postgres.cluster import Cluster
from holdfast.store.postgres.connection import close, failures, shown
from holdfast.store.postgres.doubt import absent
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.presence_session import PresenceSession
from holdfast.store.postgres.sql import SQL

log = logging.getLogger("holdfast.store")

LOOK_SECONDS: Final = 0.5
LATE_SECONDS: Final = 1.0
ELSEWHERE_SECONDS: Final = 2.0
STANDBY_SECONDS: Final = 2.0
"""After so long without an answer from a living server, it is asked whether it waits for a standby."""

REMIND_SECONDS: Final = 60.0


class PrimaryMonitor:
    """Looks twice a second, until it is stopped."""

    def __init__(self, cluster: Cluster, pool: Pool, presence: PresenceSession, drop: Callable[[], None]) -> None:
        self._cluster = cluster
        self._pool = pool
        self._presence = presence
        self._drop = drop
        self._asked_at = self._told_at = float("-inf")
        looks = [(LOOK_SECONDS, self._look)] + [(ELSEWHERE_SECONDS, self._look_elsewhere)] * cluster.several
        self._tasks = [asyncio.create_task(self._repeat(*look), name="holdfast-monitor") for look in looks]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    async def _repeat(self, seconds: float, look: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await look()
            except Exception:
                log.exception("the monitor failed; it continues")

    async def _look(self) -> None:
        for host in self._pool.waiting(LATE_SECONDS):
            if not await self._cluster.answers(host):
                log.warning("%s does not answer; all connections to it are dropped", shown(self._cluster.url))
                self._drop()
                return
        self._presence.retire()
        await self._pool.retire()
        if self._pool.waiting(STANDBY_SECONDS):
            with suppress(HoldfastError, *failures()):
                await self._look_at_standbys()

    async def _look_at_standbys(self) -> None:
        """Say why nothing is acknowledged, long before the first statement is given up."""
        now = time.monotonic()
        if now - self._asked_at < STANDBY_SECONDS or now - self._told_at < REMIND_SECONDS:
            return
        self._asked_at = now
        session = await self._cluster.connect()
        try:
            names = await session.fetchval(SQL["waits_for_standby"], timeout=STANDBY_SECONDS)
        finally:
            await close(session)
        if names:
            self._told_at = now
            log.warning("%s", absent(self._cluster.url, names))

    async def _look_elsewhere(self) -> None:
        """Once for all handles of the process: they share the result."""
        if time.monotonic() - self._cluster.looked_at >= ELSEWHERE_SECONDS:
            self._cluster.looked_at = time.monotonic()
            await self._cluster.look_elsewhere()
