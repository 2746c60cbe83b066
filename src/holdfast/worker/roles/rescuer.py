"""The rescuer: it takes back the leases of workers that are dead or whose heartbeat has stopped.

After an outage, and when it has only just begun, it waits: a worker that lives comes back within a moment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from holdfast.runs.clock import Clock
from holdfast.runs.role import Role
from holdfast.store.outage import SETTLING_SECONDS
from holdfast.store.protocol import Store

log = logging.getLogger("holdfast.rescuer")

EAGER_LOOKS: Final = 20
EAGER_SECONDS: Final = 0.25
LOOK_SECONDS: Final = 0.5
"""How soon it looks whether an outage is over."""


class Rescuer(Role):
    """Looks at once when it starts, then every few seconds."""

    name = "rescuer"

    def __init__(
        self,
        store: Store,
        clock: Clock,
        worker: str,
        interval_seconds: float,
        wake: list[Role],
        announce: Callable[[], None],
    ) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._worker = worker
        self._interval = interval_seconds
        self._wake = wake
        self._announce = announce
        self._looks = 0
        self._begun_at: float | None = None

    async def round(self) -> float | None:
        outage, now = self._store.outage, asyncio.get_running_loop().time()
        self._begun_at = now if self._begun_at is None else self._begun_at
        if not outage.settled:
            return min(self._interval, LOOK_SECONDS)
        cautious = now - self._begun_at <= SETTLING_SECONDS
        gone = await self._store.rescue(self._clock.now(), self._worker, cautious=cautious)
        if gone is None:  # this worker was frozen, or cut off without noticing it
            outage.lost()
            return min(self._interval, LOOK_SECONDS)
        for worker in gone:
            log.warning("worker %s is gone; its runs are taken over", worker)
            for role in self._wake:
                role.wake()
            self._announce()
        return min(self._interval, EAGER_SECONDS) if self._is_new() else self._interval

    def _is_new(self) -> bool:
        """A worker that starts often takes the place of one that has just died: for a while it looks more often."""
        self._looks += 1
        return self._looks < EAGER_LOOKS
