"""The archivist makes the evidence of governed runs that have ended, once all their entries are sealed.

An act may end after its run. When the entry of such an act is sealed, the run's evidence is due again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Final

from holdfast.audit.collector import Result, file_of, gather_whole
from holdfast.audit.keychain import Keychain, passphrase_of_environment
from holdfast.errors import KeyLocked, StoreUnavailable
from holdfast.runs.clock import Clock
from holdfast.runs.log_records import about
from holdfast.runs.role import Role
from holdfast.store.protocol import File, Key, Run, Store

log = logging.getLogger("holdfast.archivist")

BATCH: Final = 200
EVENTS: Final = 20_000
"""Runs with up to this many events together are read at once, because their journals are all in memory then."""
TOGETHER_BYTES: Final = 4_000_000
"""Bundles of about this size together are one commit: a commit for each would cost more than making them."""
SOON_SECONDS: Final = 0.5
IDLE_SECONDS: Final = 10.0
AGAIN_SECONDS: Final = 60.0
"""How long to wait before trying again a run whose evidence could not be made."""


class Archivist(Role):
    """The sealer wakes it. A run whose evidence cannot be made is logged once, skipped, and tried again later."""

    name = "archivist"

    def __init__(
        self, store: Store, clock: Clock, passphrase: Callable[[], str | None] = passphrase_of_environment
    ) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._keychain = Keychain(store, clock, passphrase)
        self._failed: dict[tuple[Key, int], tuple[str, float]] = {}  # the problem, and when to try again

    async def round(self) -> float | None:
        # Runs that failed are still due. So more are read, and they do not displace the others.
        due = await self._store.evidence_due(BATCH + len(self._failed))
        wanted = [run for run in due if not self._rests(run)]
        counts: Counter[str] = Counter()
        for some in portions(wanted, EVENTS):
            counts += await self._make(some)
        if counts["done"] and len(due) >= BATCH:
            return 0.0
        return SOON_SECONDS if counts["waiting"] else IDLE_SECONDS

    async def _make(self, runs: list[Run]) -> Counter[str]:
        """Make the evidence of these runs and keep it; gives how many are done, and how many wait."""
        counts: Counter[str] = Counter()
        ready: list[tuple[Run, File]] = []
        open_runs = await self._open(runs)
        for run in runs:
            if run not in open_runs:
                self._failed.pop((run.key, run.generation), None)
                counts["done"] += 1
        async for run, gathered in self._gather(open_runs):
            if isinstance(gathered, Exception):
                self._fail(run, gathered)
            elif gathered is None:
                self._failed.pop((run.key, run.generation), None)
                counts["waiting"] += 1
            else:
                ready.append((run, file_of(run, gathered, self._clock.now())))
            if sum(len(file.data) for _, file in ready) >= TOGETHER_BYTES:
                counts += await self._keep(ready)
                ready = []
        return counts + await self._keep(ready)

    async def _gather(self, runs: list[Run]) -> AsyncIterator[Result]:
        """The evidence of these runs. Where reading them together fails, each is read alone: only one may be bad."""
        try:
            async for result in gather_whole(self._store, self._keychain, self._clock, runs):
                yield result
        except (StoreUnavailable, KeyLocked):
            raise  # the store or the key is the problem, and not a run
        except Exception as error:
            if len(runs) == 1:
                yield runs[0], error
                return
            for run in runs:
                async for result in self._gather([run]):
                    yield result

    def _rests(self, run: Run) -> bool:
        """Whether its evidence could not be made, and it is too early for the next try."""
        _, again_at = self._failed.get((run.key, run.generation), ("", 0.0))
        return asyncio.get_running_loop().time() < again_at

    async def _open(self, runs: list[Run]) -> list[Run]:
        """The runs that still need evidence: no other archivist made it, and they have no new generation."""
        rows = {row.key: row for row in await self._store.get([run.key for run in runs])}
        there = [run for run in runs if run.key in rows]
        return [run for run in there if rows[run.key].generation == run.generation and rows[run.key].evidence is None]

    async def _keep(self, ready: list[tuple[Run, File]]) -> Counter[str]:
        """Store these files in one commit; gives how many are done. An outdated one waits to be made again."""
        if not ready:
            return Counter()
        try:
            kept = await self._store.keep_files([file for _, file in ready])
        except StoreUnavailable:
            raise
        except Exception as error:
            if len(ready) > 1:  # only one may be bad: each is stored alone
                return sum([await self._keep([each]) for each in ready], Counter())
            self._fail(ready[0][0], error)
            return Counter()
        for run, _ in ready:
            self._failed.pop((run.key, run.generation), None)
        return Counter("done" if each else "waiting" for each in kept)

    def _fail(self, run: Run, error: Exception) -> None:
        generation = (run.key, run.generation)
        problem, _ = self._failed.get(generation, ("", 0.0))
        if problem != str(error):
            key = run.key
            log.warning("no evidence of run %s of tenant %s: %s", key.run, key.tenant, error, extra=about(key))
        self._failed[generation] = (str(error), asyncio.get_running_loop().time() + AGAIN_SECONDS)


def portions(runs: Sequence[Run], events: int) -> Iterator[list[Run]]:
    """The runs in order, in portions of at most so many events. A longer run is a portion alone."""
    portion: list[Run] = []
    count = 0
    for run in runs:
        if portion and count + run.version > events:
            yield portion
            portion, count = [], 0
        portion.append(run)
        count += run.version
    if portion:
        yield portion
