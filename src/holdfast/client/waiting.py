"""Waiting for runs to end. A waiter never owns the run: giving up waiting changes nothing."""

from __future__ import annotations

import asyncio
from typing import Final

from holdfast.journal import events as e
from holdfast.store.protocol import ENDED, Key, Store
from holdfast.worker.role import Role

LOOK_SECONDS: Final = 2.0


class Waiters(Role):
    """Futures of runs that are being waited for, settled by this process's own worker or, on a hint, from the store."""

    name = "waiters"

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self._waiting: dict[Key, set[asyncio.Future[e.Event | None]]] = {}

    def ended(self, key: Key, event: e.Event | None = None) -> None:
        """The run has ended, with this event where it is known here."""
        for future in self._waiting.pop(key, ()):
            if not future.done():
                future.set_result(event)

    async def wait(self, key: Key) -> e.Event | None:
        """Return when the run has ended, with its last event where it ended in this process."""
        future: asyncio.Future[e.Event | None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, set()).add(future)
        try:
            row = await self._store.get([key])
            if row and row[0].standing in ENDED:
                return None
            if len(self._waiting) == 1:
                self.wake()
            return await future
        finally:
            waiting = self._waiting.get(key)
            if waiting is not None:
                waiting.discard(future)
                if not waiting:
                    del self._waiting[key]

    async def round(self) -> float | None:
        if not self._waiting:
            return None
        for run in await self._store.get(list(self._waiting)):
            if run.standing in ENDED:
                self.ended(run.key)
        return LOOK_SECONDS
