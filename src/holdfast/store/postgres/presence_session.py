"""The one long-lived session of a store handle: it holds the locks that show workers present, and hears of changes.

It is made when it is first needed, and again by itself whenever it is lost. The locks come before anything else then:
while nobody holds a worker's lock, others may take it for dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from holdfast.errors import HoldfastError
from holdfast.store.postgres.connection import close, failures, translate
from holdfast.store.postgres.primary import Primary
from holdfast.store.postgres.sql import SQL

SHORTEST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 1.0
ANSWER_SECONDS: Final = 5.0
"""Nothing that is asked here waits for anyone: a server that takes longer is not there."""


class PresenceSession:
    """Attends workers and listens, for as long as it is not closed."""

    def __init__(self, primary: Primary, channel: str, instance: str) -> None:
        self._primary = primary
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

    async def attend(self, worker: str) -> None:
        """Hold the worker's lock, on a new session if the last was lost. Raises StoreUnavailable."""
        self._workers.add(worker)
        await self._stand()
        self._keep()

    async def leave(self, worker: str) -> None:
        """Let go of the worker's lock. It does not matter whether the server hears of it: the worker is forgotten."""
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
        """End the session at once; it is made again, where it is needed."""
        if self._connection is not None:
            self._connection.terminate()

    def retire(self) -> None:
        """End the session where it leads to a primary of the past."""
        if self._connection is not None and self._primary.is_outdated(self._connection):
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
        """See to it that the session is there with all it should have. Gives whether it began to listen just now."""
        async with self._turn:
            self.retire()
            if self._connection is None or self._connection.is_closed():
                await self._begin()
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    return await self._take_up()
            except BaseException as error:
                self._connection.terminate()
                if isinstance(error, failures()):
                    raise translate(error, self._primary.url) from error
                raise

    async def _begin(self) -> None:
        self._attended.clear()
        self._listening = False
        self._connection = await self._primary.connect()
        self._connection.add_termination_listener(self._lost)

    async def _take_up(self) -> bool:
        for worker in sorted(self._workers - self._attended):
            await self._connection.fetchval(SQL["attend"], worker)
            self._attended.add(worker)
        if self._hints and not self._listening:
            await self._connection.add_listener(self._channel, self._heard)
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
                # The operations of the store tell their callers; here there is nobody to tell.
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
                continue
            pause = SHORTEST_PAUSE_SECONDS
            if began:
                self._hint_all()
            await self._wanted.wait()

    def _lost(self, _connection: object) -> None:
        self._wanted.set()

    def _heard(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        if payload != self._instance:
            self._hint_all()

    def _hint_all(self) -> None:
        for hint in tuple(self._hints):
            hint()
