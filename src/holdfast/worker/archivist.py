"""The archivist: it makes the evidence of governed runs that have ended, once all their entries are sealed.

An act may end after its run. Sealing what is told of it makes the run's evidence due again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from holdfast.errors import KeyLocked, StoreUnavailable
from holdfast.store.protocol import Key, Run, Store
from holdfast.worker.clock import Clock
from holdfast.worker.gathering import gather, keep
from holdfast.worker.role import Role
from holdfast.worker.signing import Keychain, passphrase_of_environment

log = logging.getLogger("holdfast.archivist")

BATCH: Final = 20
SOON_SECONDS: Final = 0.5
IDLE_SECONDS: Final = 10.0
AGAIN_SECONDS: Final = 60.0
"""After so long a run whose evidence could not be made is tried again."""


class Archivist(Role):
    """Is woken by the sealer. A run whose evidence cannot be made is told once, passed over, and tried again later."""

    name = "archivist"

    def __init__(
        self, store: Store, clock: Clock, passphrase: Callable[[], str | None] = passphrase_of_environment
    ) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._keychain = Keychain(store, clock, passphrase)
        self._failed: dict[tuple[Key, int], tuple[str, float]] = {}  # what went wrong, and when to try again

    async def round(self) -> float | None:
        # Runs that cannot be done must not stand in the way of the others.
        due = await self._store.evidence_due(BATCH + len(self._failed))
        made = waiting = 0
        for run in due:
            if await self._archive(run):
                made += 1
            elif (run.key, run.generation) not in self._failed:
                waiting += 1
        if made and len(due) >= BATCH:
            return 0.0
        return SOON_SECONDS if waiting else IDLE_SECONDS

    async def _archive(self, run: Run) -> bool:
        """Make and keep one run's evidence; False where that cannot be done yet."""
        mark = (run.key, run.generation)
        now = asyncio.get_running_loop().time()
        trouble, again_at = self._failed.get(mark, ("", now))
        if now < again_at:
            return False
        present = await self._store.get([run.key])
        if not present or present[0].generation != run.generation or present[0].evidence is not None:
            return True  # another archivist was faster, or the run goes on
        try:
            gathered = await gather(self._store, self._keychain, self._clock, run)
            kept = gathered is not None and await keep(self._store, self._clock, run, gathered)
        except (StoreUnavailable, KeyLocked):
            raise  # this is no trouble of the run's own
        except Exception as error:
            if trouble != str(error):
                log.warning("no evidence of run %s of tenant %s: %s", run.key.run, run.key.tenant, error)
            self._failed[mark] = (str(error), now + AGAIN_SECONDS)
            return False
        self._failed.pop(mark, None)
        return kept
