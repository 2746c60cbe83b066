"""The sessions of one handle: each for one use at a time, kept for the next use, made when there are too few."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from holdfast.store.postgres import connection
from holdfast.store.postgres.cluster import Cluster
from holdfast.store.postgres.connection import close
from holdfast.store.postgres.doubt import note_warnings
from holdfast.store.postgres.hosts import Host

IDLE_SECONDS: Final = 300.0
"""A session that was unused for so long is closed."""


class Pool:
    """At most so many sessions with the primary."""

    def __init__(self, cluster: Cluster, most: int) -> None:
        self._cluster = cluster
        self._room = asyncio.Semaphore(most)
        self._free: list[Any] = []
        self._used: set[Any] = set()

    async def acquire(self) -> Any:
        """A session for one use. Raises TimeoutError where all are in use, and as ``Cluster.connect``."""
        if self._room.locked():
            async with asyncio.timeout(connection.COMMAND_SECONDS):
                await self._room.acquire()
        else:
            await self._room.acquire()
        try:
            session = self._kept() or await self._made()
        except BaseException:
            self._room.release()
            raise
        session.since = time.monotonic()
        self._used.add(session)
        return session

    def release(self, session: Any) -> None:
        """End a use. A session that was terminated during the use is forgotten."""
        self._used.discard(session)
        if not session.is_closed():
            session.since = time.monotonic()
            self._free.append(session)
        self._room.release()

    def doubt(self) -> None:
        """Have every session confirmed again before its next use."""
        for session in (*self._free, *self._used):
            session.confirmed = False

    def drop(self) -> None:
        """End all sessions at once, those in use as well."""
        for session in (*self._free, *self._used):
            session.terminate()
        self._free.clear()

    def waiting(self, seconds: float) -> set[Host]:
        """The hosts that have not answered a request for that long."""
        now = time.monotonic()
        return {session.host for session in self._used if now - session.since >= seconds}

    async def retire(self) -> None:
        """End sessions with a replaced primary, even in use, and those that were unused for long."""
        for session in (*self._free, *self._used):
            if self._cluster.is_outdated(session):
                session.terminate()
        now = time.monotonic()
        unneeded = [session for session in self._free if session.is_closed() or now - session.since > IDLE_SECONDS]
        self._free = [session for session in self._free if session not in unneeded]
        await asyncio.gather(*(close(session) for session in unneeded))

    async def close(self) -> None:
        free, self._free = self._free, []
        self.drop()
        await asyncio.gather(*(close(session) for session in free))

    def _kept(self) -> Any:
        while self._free:
            session = self._free.pop()
            if not session.is_closed() and not self._cluster.is_outdated(session):
                return session
            session.terminate()
        return None

    async def _made(self) -> Any:
        session = await self._cluster.connect()
        note_warnings(session)
        return session
