"""The pruner: it deletes runs some time after they ended, and forgets ids of messages some time after they came."""

from __future__ import annotations

import logging
from typing import Final

from holdfast.programs.definition.interpreter.routine import Toolbox
from holdfast.runs.clock import Clock
from holdfast.runs.role import Role
from holdfast.store.protocol import Store
from holdfast.templates.storyteller import delete_ended

log = logging.getLogger("holdfast.pruner")

BATCH: Final = 200
INTERVAL_SECONDS: Final = 600.0

REMEMBERED_SECONDS: Final = 30 * 86400.0
"""So long a repeated message is known by its id, where its run goes on."""


class Pruner(Role):
    """Deletes in small batches, so that nobody waits for it. What waits for evidence is logged when that changes."""

    name = "pruner"

    def __init__(self, store: Store, clock: Clock, tools: Toolbox, retention_seconds: float | None) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._tools = tools
        self._retention = retention_seconds
        self._waiting = 0

    async def round(self) -> float | None:
        now = self._clock.now()
        forgotten = await self._store.forget_deliveries(now - round(REMEMBERED_SECONDS * 1e6), BATCH)
        if self._retention is not None and await self._prune(now, self._retention) == BATCH:
            return 0.1
        return 0.1 if forgotten == BATCH else INTERVAL_SECONDS

    async def _prune(self, now: int, retention: float) -> int:
        before = now - round(retention * 1e6)
        pruned = await delete_ended(self._store, self._tools, before, BATCH, now)
        if pruned:
            log.info("deleted %d runs that ended more than %g days ago", pruned, retention / 86400)
        if pruned < BATCH:
            await self._tell_waiting(before, retention)
        return pruned

    async def _tell_waiting(self, before: int, retention: float) -> None:
        waiting = await self._store.evidence_overdue(before)
        if waiting == self._waiting:
            return
        self._waiting = waiting
        if waiting:
            log.warning(
                "%d governed runs that ended more than %g days ago are kept, because they have no evidence: see that a "
                "worker makes it, and that its key is not locked",
                waiting,
                retention / 86400,
            )
        else:
            log.info("no run waits for its evidence past its time any more")
