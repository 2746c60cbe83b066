"""The rescuer: it takes back the leases of workers that are dead or whose heartbeat has stopped."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from holdfast.runs.clock import Clock
from holdfast.runs.role import Role
from holdfast.store.protocol import Store

log = logging.getLogger("holdfast.rescuer")

EAGER_LOOKS: Final = 20
EAGER_SECONDS: Final = 0.25


class Rescuer(Role):
    """Looks at once when it starts, then every few seconds."""

    name = "rescuer"

    def __init__(
        self, store: Store, clock: Clock, interval_seconds: float, wake: list[Role], announce: Callable[[], None]
    ) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._interval = interval_seconds
        self._wake = wake
        self._announce = announce
        self._looks = 0

    async def round(self) -> float | None:
        for worker in await self._store.rescue(self._clock.now()):
            log.warning("worker %s is gone; its runs are taken over", worker)
            for role in self._wake:
                role.wake()
            self._announce()
        return min(self._interval, EAGER_SECONDS) if self._is_new() else self._interval

    def _is_new(self) -> bool:
        """A worker that starts often takes the place of one that has just died: for a while it looks more often."""
        self._looks += 1
        return self._looks < EAGER_LOOKS
