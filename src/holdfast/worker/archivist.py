"""The archivist: it makes the evidence of governed runs that have ended, once all their entries are sealed.

An act may end after its run. Sealing what is told of it makes the run's evidence due again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

from holdfast.errors import KeyLocked, StoreUnavailable
from holdfast.store.protocol import File, Key, Run, Store
from holdfast.worker.clock import Clock
from holdfast.worker.gathering import file_of, gather
from holdfast.worker.role import Role
from holdfast.worker.signing import Keychain, passphrase_of_environment

log = logging.getLogger("holdfast.archivist")

BATCH: Final = 20
TOGETHER_BYTES: Final = 4_000_000
"""Bundles are kept together up to about so much: a commit for each would cost more than making them."""
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
        counts: Counter[str] = Counter()
        ready: list[tuple[Run, File]] = []
        for run in due:
            if self._rests(run):
                continue
            if await self._is_over(run):
                self._failed.pop((run.key, run.generation), None)
                counts["done"] += 1
            elif (file := await self._made(run)) is not None:
                ready.append((run, file))
            elif (run.key, run.generation) not in self._failed:
                counts["waiting"] += 1
            if sum(len(file.data) for _, file in ready) >= TOGETHER_BYTES:
                counts += await self._keep(ready)
                ready = []
        counts += await self._keep(ready)
        if counts["done"] and len(due) >= BATCH:
            return 0.0
        return SOON_SECONDS if counts["waiting"] else IDLE_SECONDS

    def _rests(self, run: Run) -> bool:
        """Whether its evidence could not be made, and it is too early to try again."""
        _, again_at = self._failed.get((run.key, run.generation), ("", 0.0))
        return asyncio.get_running_loop().time() < again_at

    async def _is_over(self, run: Run) -> bool:
        """Whether another archivist was faster, or the run goes on."""
        present = await self._store.get([run.key])
        return not present or present[0].generation != run.generation or present[0].evidence is not None

    async def _made(self, run: Run) -> File | None:
        """One run's evidence; None where it cannot be made yet."""
        try:
            gathered = await gather(self._store, self._keychain, self._clock, run)
        except (StoreUnavailable, KeyLocked):
            raise  # this is no trouble of the run's own
        except Exception as error:
            self._fail(run, error)
            return None
        if gathered is None:
            self._failed.pop((run.key, run.generation), None)
            return None
        return file_of(run, gathered, self._clock.now())

    async def _keep(self, ready: list[tuple[Run, File]]) -> Counter[str]:
        """Keep what was made, in one commit; gives how many are done. One that was overtaken waits to be made again."""
        if not ready:
            return Counter()
        try:
            kept = await self._store.keep_artefacts([file for _, file in ready])
        except StoreUnavailable:
            raise
        except Exception as error:
            if len(ready) > 1:  # one of them is the trouble: the others are kept without it
                return sum([await self._keep([each]) for each in ready], Counter())
            self._fail(ready[0][0], error)
            return Counter()
        for run, _ in ready:
            self._failed.pop((run.key, run.generation), None)
        return Counter("done" if each else "waiting" for each in kept)

    def _fail(self, run: Run, error: Exception) -> None:
        mark = (run.key, run.generation)
        trouble, _ = self._failed.get(mark, ("", 0.0))
        if trouble != str(error):
            log.warning("no evidence of run %s of tenant %s: %s", run.key.run, run.key.tenant, error)
        self._failed[mark] = (str(error), asyncio.get_running_loop().time() + AGAIN_SECONDS)
