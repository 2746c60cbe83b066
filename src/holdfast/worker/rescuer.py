"""The rescuer: it takes back the leases of workers that are dead or have not been heard of."""

from __future__ import annotations

import logging

from holdfast.store.protocol import Store
from holdfast.worker.clock import Clock
from holdfast.worker.role import Role

log = logging.getLogger("holdfast.rescuer")


class Rescuer(Role):
    """Looks at once when it starts, then every few seconds."""

    name = "rescuer"

    def __init__(self, store: Store, clock: Clock, interval_seconds: float, wake: list[Role]) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._interval = interval_seconds
        self._wake = wake

    async def round(self) -> float | None:
        for worker in await self._store.rescue(self._clock.now()):
            log.warning("worker %s is gone; its runs are taken over", worker)
            for role in self._wake:
                role.wake()
        return self._interval
