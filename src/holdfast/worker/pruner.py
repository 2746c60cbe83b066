"""The pruner: it deletes runs some time after they ended."""

from __future__ import annotations

import logging
from typing import Final

from holdfast.runs.clock import Clock
from holdfast.runs.role import Role
from holdfast.store.protocol import Store

log = logging.getLogger("holdfast.pruner")

BATCH: Final = 200
INTERVAL_SECONDS: Final = 600.0


class Pruner(Role):
    """Deletes in small batches, so that nobody waits for it. What waits for its evidence is told when that changes."""

    name = "pruner"

    def __init__(self, store: Store, clock: Clock, retention_seconds: float) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._retention = retention_seconds
        self._waiting = 0

    async def round(self) -> float | None:
        before = self._clock.now() - round(self._retention * 1e6)
        pruned = await self._store.prune(before, BATCH)
        if pruned:
            log.info("deleted %d runs that ended more than %g days ago", pruned, self._retention / 86400)
        if pruned == BATCH:
            return 0.1
        await self._tell_waiting(before)
        return INTERVAL_SECONDS

    async def _tell_waiting(self, before: int) -> None:
        waiting = await self._store.evidence_overdue(before)
        if waiting == self._waiting:
            return
        self._waiting = waiting
        if waiting:
            log.warning(
                "%d governed runs that ended more than %g days ago are kept, because they have no evidence: see that a "
                "worker makes it, and that its key is not locked",
                waiting,
                self._retention / 86400,
            )
        else:
            log.info("no run waits for its evidence past its time any more")
