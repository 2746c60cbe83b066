"""The one long-lived session of a store handle: it holds the locks of living workers, and listens for changes.

It is made when it is first needed, and made again whenever it is lost. The locks are taken before anything else: while
nobody holds a worker's lock, others may consider the worker dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from holdfast.errors import HoldfastError
from holdfast.store.outage import Outage
from holdfast.store.postgres.cluster import Cluster
from holdfast.store.postgres.connection import close, failures, translate
from holdfast.store.postgres.sql import SQL

SHORTEST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 1.0
ANSWER_SECONDS: Final = 5.0
"""No statement here waits for another process: a server that takes longer is considered lost."""


class PresenceSession:
    """Holds the locks of workers and listens, until it is closed."""

    def __init__(self, cluster: Cluster, outage: Outage, channel: str, instance: str) -> None:
        self._cluster = cluster
        self._outage = outage
        self._channel = channel
        self._instance = instance
        self._workers: set[str] = set()
        self._attended: set[str] = set()
        self._hints: list[Callable[[], None]] = []
        self._connection: Any = None
        self._listening = False
        self._turn = asyncio.Lock()
        self._wanted = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    @property
    def workers(self) -> list[str]:
        """The workers whose locks are held, or wanted."""
        return sorted(self._workers)

    async def attend(self, worker: str) -> None:
        """Hold the worker's lock, on a new session if the last was lost. Raises StoreUnavailable."""
        self._workers.add(worker)
        await self._stand()
        self._keep()

    async def leave(self, worker: str) -> None:
        """Release the worker's lock. It does not matter whether that reaches the server: the worker is forgotten."""
        self._workers.discard(worker)
        async with self._turn:
            if worker in self._attended:
                self._attended.discard(worker)
                try:
                    await self._connection.fetchval(SQL["leave"], worker, timeout=ANSWER_SECONDS)
                except failures():
                    self._connection.terminate()

    def watch(self, hint: Callable[[], None]) -> Callable[[], None]:
        """Call ``hint`` when another handle announces a change, and after announcements may have been lost."""
        self._hints.append(hint)
        self._wanted.set()
        self._keep()

        def stop() -> None:
            if hint in self._hints:
                self._hints.remove(hint)

        return stop

    def drop(self) -> None:
        """End the session at once; it is made again if needed."""
        if self._connection is not None:
            self._connection.terminate()

    def retire(self) -> None:
        """End the session if its primary was replaced."""
        if self._connection is not None and self._cluster.is_outdated(self._connection):
            self.drop()

    async def close(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
            self._keeper = None
        self._hints.clear()
        async with self._turn:
            if self._connection is not None:
                await close(self._connection)
                self._connection = None

    # -- the session ---------------------------------------------------------------------------------------------

    async def _stand(self) -> bool:
        """Ensure that the session exists with its locks and its listener. Gives whether it began to listen just now."""
        async with self._turn:
            self.retire()
            if self._connection is None or self._connection.is_closed():
                await self._begin()
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    began = await self._take_up()
            except BaseException as error:
                self._connection.terminate()
                if isinstance(error, failures()):
                    raise translate(error, self._cluster.url) from error
                raise
            self._outage.reached()
            return began

    async def _begin(self) -> None:
        self._attended.clear()
        self._listening = False
        try:
            self._connection = await self._cluster.connect()
        except HoldfastError:
            self._outage.lost()
            raise
        self._connection.add_termination_listener(self._lost)

    async def _take_up(self) -> bool:
        for worker in sorted(self._workers - self._attended):
            await self._connection.fetchval(SQL["attend"], worker)
            self._attended.add(worker)
        if self._hints and not self._listening:
            await self._connection.add_listener(self._channel, self._notified)
            self._listening = True
            return True
        return False

    def _keep(self) -> None:
        if self._keeper is None:
            self._keeper = asyncio.get_running_loop().create_task(self._keep_standing(), name="holdfast-presence")

    async def _keep_standing(self) -> None:
        pause = SHORTEST_PAUSE_SECONDS
        while True:
            self._wanted.clear()
            try:
                began = await self._stand()
            except HoldfastError:
                # The operations of the store raise to their callers; here there is no caller.
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
                continue
            pause = SHORTEST_PAUSE_SECONDS
            if began:
                self._hint_all()
            await self._wanted.wait()

    def _lost(self, _connection: object) -> None:
        self._outage.lost()
        self._cluster.search_again()
        self._wanted.set()

    def _notified(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        if payload != self._instance:
            self._hint_all()

    def _hint_all(self) -> None:
        for hint in tuple(self._hints):
            hint()
