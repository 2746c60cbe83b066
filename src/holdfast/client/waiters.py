"""Waits for runs to end, to rest, or to be parked. A run does not depend on its waiters: one that gives up changes
nothing.

The end of a run that this process's worker holds is known here without reading the store. The rows of all other runs
are read, many at once: when the wait begins, on a hint, and every few seconds, because hints can be lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from holdfast.client.runs.pauses import is_parked
from holdfast.errors import InvalidRequest, RunNotFound
from holdfast.journal import events as e
from holdfast.runs.clock import Clock
from holdfast.runs.payload_room import lent
from holdfast.runs.role import Role
from holdfast.store.protocol import ENDED, Key, Run, Store

LOOK_SECONDS: Final = 2.0


class EndedHere(NamedTuple):
    """A run that ended in this process: the name of its workflow, and its last event."""

    workflow: str
    event: e.Event


End = EndedHere | Run
"""A run's end: one that happened here, or the row of a run that has ended or is parked."""


def is_at_rest(run: Run, now: int) -> bool:
    """Whether nothing moves the run until something new happens: it has ended, is paused, or waits.

    A message that it has not taken in yet, or a time that has come, moves it.
    """
    if run.standing in ENDED:
        return True
    if run.pause is not None:
        return run.owner is None
    is_due = run.wake_at is not None and run.wake_at <= now
    return run.standing == "waiting" and run.arrived <= run.consumed and not is_due


class Waiters(Role):
    """Futures of runs that callers wait for. ``is_here`` says whether this process will report a run's end; ``listen``
    is called when someone waits for a run that others may end."""

    name = "waiters"

    def __init__(
        self, store: Store, clock: Clock, is_here: Callable[[Key], bool], listen: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._is_here = is_here
        self._listen = listen
        self._waiting: dict[Key, set[asyncio.Future[End]]] = {}
        self._impatient: set[asyncio.Future[End]] = set()
        self._restful: set[asyncio.Future[End]] = set()
        self._fresh: set[Key] = set()
        self._hinted = False

    async def stop(self) -> None:
        """Stop reading the store, and end every wait with an error."""
        await super().stop()
        message = "the engine was closed while the run was waited for; the run goes on."
        waiting, self._waiting = self._waiting, {}
        for future in (future for futures in waiting.values() for future in futures):
            if not future.done():
                future.set_exception(InvalidRequest(message))

    def hint(self) -> None:
        """Something may have changed in the store."""
        if self._waiting:
            self._hinted = True
            self.wake()

    def rested(self, key: Key, is_parked: bool) -> None:
        """The run waits for something, or is parked, in this process."""
        if (self._restful or (is_parked and self._impatient)) and key in self._waiting:
            self._fresh.add(key)
            self.wake()

    def ended(self, key: Key, end: End) -> None:
        """The run has ended."""
        for future in self._waiting.pop(key, ()):
            if not future.done():
                future.set_result(end)

    async def wait(self, key: Key, *, until_parked: bool = False, until_rest: bool = False) -> End:
        """Return when the run has ended or, with ``until_parked``, when it is parked. Raises RunNotFound.

        With ``until_rest`` it returns when the run is at rest, having taken in all that came before this call.
        """
        future: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, set()).add(future)
        if until_parked:
            self._impatient.add(future)
        if until_rest:
            self._restful.add(future)
        if until_rest or not self._is_here(key):
            self._fresh.add(key)
            self._listen()
            self.wake()
        elif len(self._waiting) == 1:
            self.wake_within(LOOK_SECONDS)  # so that its row is read every few seconds
        try:
            with lent():
                return await future
        finally:
            self._impatient.discard(future)
            self._restful.discard(future)
            waiting = self._waiting.get(key)
            if waiting is not None:
                waiting.discard(future)
                if not waiting:
                    del self._waiting[key]

    async def round(self) -> float | None:
        """Read the rows of new waits; those of all waits after a hint, and when no new one came for a while."""
        fresh, self._fresh = self._fresh & self._waiting.keys(), set()
        everyone = self._hinted or not fresh
        self._hinted = False
        if not self._waiting:
            return None
        # Whoever comes while the rows are read is not answered by them: what they wait for may have come later.
        waiting = {key: set(self._waiting[key]) for key in (self._waiting if everyone else fresh)}
        rows = {run.key: run for run in await self._store.get(list(waiting))}
        for key, run in rows.items():
            if run.standing in ENDED:
                _give(run, waiting[key])
            if is_parked(run):
                _give(run, waiting[key] & self._impatient)
            if is_at_rest(run, self._clock.now()):
                _give(run, waiting[key] & self._restful)
        for key in fresh - rows.keys():
            self._refuse(key)
        return LOOK_SECONDS

    def _refuse(self, key: Key) -> None:
        for future in self._waiting.pop(key, ()):
            if not future.done():
                future.set_exception(missing(key))


def missing(key: Key) -> RunNotFound:
    """There is no such run."""
    return RunNotFound(f"there is no run {key.run!r} in tenant {key.tenant!r}.")


def _give(run: Run, futures: set[asyncio.Future[End]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(run)
