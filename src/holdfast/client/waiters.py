"""Waiting for runs to end, or to be parked. A waiter never owns the run: giving up waiting changes nothing.

A run that this process's worker holds is settled by its end here, without a look at the store. For all others the
store is asked, for many at once: when the waiting begins, on a hint, and every few seconds, because hints can be lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from holdfast.client.pauses import is_parked
from holdfast.errors import InvalidRequest, RunNotFound
from holdfast.journal import events as e
from holdfast.runs.role import Role
from holdfast.store.protocol import ENDED, Key, Run, Store

LOOK_SECONDS: Final = 2.0


class EndedHere(NamedTuple):
    """A run that ended in this process: what it was a run of, and its last event."""

    workflow: str
    event: e.Event


End = EndedHere | Run
"""How a run's end was learnt: it happened here, or its row says so. Or the row of a run that is parked."""


class Waiters(Role):
    """Futures of runs that are being waited for. ``is_here`` says whether a run's end will be told by this process."""

    name = "waiters"

    def __init__(self, store: Store, is_here: Callable[[Key], bool]) -> None:
        super().__init__()
        self._store = store
        self._is_here = is_here
        self._waiting: dict[Key, set[asyncio.Future[End]]] = {}
        self._impatient: set[asyncio.Future[End]] = set()
        self._fresh: set[Key] = set()
        self._hinted = False

    async def stop(self) -> None:
        """Stop looking, and tell whoever waits."""
        await super().stop()
        told = "the engine was closed while the run was waited for; the run goes on."
        waiting, self._waiting = self._waiting, {}
        for future in (future for futures in waiting.values() for future in futures):
            if not future.done():
                future.set_exception(InvalidRequest(told))

    def hint(self) -> None:
        """Something may have changed in the store."""
        if self._waiting:
            self._hinted = True
            self.wake()

    def ended(self, key: Key, end: End) -> None:
        """The run has ended."""
        for future in self._waiting.pop(key, ()):
            if not future.done():
                future.set_result(end)

    async def wait(self, key: Key, *, until_parked: bool = False) -> End:
        """Return when the run has ended or, with ``until_parked``, when it is parked. Raises RunNotFound."""
        future: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, set()).add(future)
        if until_parked:
            self._impatient.add(future)
        if not self._is_here(key):
            self._fresh.add(key)
            self.wake()
        elif len(self._waiting) == 1:
            self.wake()  # to look at it now and then
        try:
            return await future
        finally:
            self._impatient.discard(future)
            waiting = self._waiting.get(key)
            if waiting is not None:
                waiting.discard(future)
                if not waiting:
                    del self._waiting[key]

    async def round(self) -> float | None:
        """Look at those that are new, or at all of them: after a hint, and when nothing else has come for a while."""
        fresh, self._fresh = self._fresh & self._waiting.keys(), set()
        everyone = self._hinted or not fresh
        self._hinted = False
        if not self._waiting:
            return None
        found = {run.key: run for run in await self._store.get(list(self._waiting if everyone else fresh))}
        for key, run in found.items():
            if run.standing in ENDED:
                self.ended(key, run)
            elif is_parked(run):
                self._parked(key, run)
        for key in fresh - found.keys():
            self._refuse(key)
        return LOOK_SECONDS

    def _parked(self, key: Key, run: Run) -> None:
        for future in self._waiting.get(key, set()) & self._impatient:
            if not future.done():
                future.set_result(run)

    def _refuse(self, key: Key) -> None:
        for future in self._waiting.pop(key, ()):
            if not future.done():
                future.set_exception(RunNotFound(f"there is no run {key.run!r} in tenant {key.tenant!r}."))
