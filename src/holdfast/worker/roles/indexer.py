"""The indexer: it makes the roots of lanes, beside their turns, and forgets the nodes that no kept root needs.

A lane is due after so many events of its journal, or some time after its last root. Every worker has an indexer and
there is no leader: a lane that is leased is left to the worker that leases it, unless that one does nothing.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Final

from holdfast.errors import HoldfastError, StoreCorrupt
from holdfast.lanes.counts import lanes_of
from holdfast.lanes.roots import KEPT_ROOTS, collect_garbage, make_root
from holdfast.runs.clock import Clock
from holdfast.runs.log_records import about
from holdfast.runs.role import Role
from holdfast.store import protocol as p
from holdfast.store.patience import TROUBLE

log = logging.getLogger("holdfast.indexer")

EVENTS: Final = 5000
"""After so many events of its journal a lane gets a root."""
SECONDS: Final = 60.0
"""So long after its last one a lane whose journal has grown gets another."""
LOOK_SECONDS: Final = 10.0
SWEPT_AT: Final = 4 * KEPT_ROOTS
"""A lane with so many roots is swept: seldom, since all nodes of the kept ones are read for it."""
LEFT_ALONE: Final = 4
"""After so many times its due time, a lane that another worker leases is taken care of here."""


class Indexer(Role):
    """``worker`` is the id of its worker, ``sealer`` seals the audit's notes of roots."""

    name = "indexer"

    def __init__(
        self,
        store: p.Store,
        clock: Clock,
        worker: str,
        sealer: Role,
        *,
        events: int = EVENTS,
        seconds: float = SECONDS,
    ) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._worker = worker
        self._sealer = sealer
        self._events = events
        self._micros = round(seconds * 1e6)
        self._last: dict[p.Key, tuple[int, int]] = {}  # version and time of each lane's last root
        self._broken: dict[p.Key, str] = {}

    async def round(self) -> float | None:
        async for run in self._lanes():
            if await self._is_due(run):
                await self._index(run)
        return LOOK_SECONDS

    async def _lanes(self) -> AsyncIterator[p.Run]:
        async for keys in lanes_of(self._store):
            for run in await self._store.get(keys):
                yield run

    async def _is_due(self, run: p.Run) -> bool:
        if run.key not in self._last:
            roots = await self._store.roots(run.key, 1)
            self._last[run.key] = (roots[0].version, roots[0].at) if roots else (0, run.created_at)
        version, at = self._last[run.key]
        if run.version <= version:
            return False
        age = self._clock.now() - at
        if run.owner not in (None, self._worker):
            return age >= LEFT_ALONE * self._micros
        return run.version - version >= self._events or age >= self._micros

    async def _index(self, run: p.Run) -> None:
        lane = run.key
        try:
            made = await make_root(self._store, self._clock, lane)
        except HoldfastError as error:
            if isinstance(error, TROUBLE) and not isinstance(error, StoreCorrupt):
                raise
            self._tell(lane, error)
            return
        self._broken.pop(lane, None)
        if made is None:  # somebody else has just made one
            del self._last[lane]
            return
        self._last[lane] = max(made.version, run.version), self._clock.now()
        self._sealer.wake()
        if len(await self._store.roots(lane, SWEPT_AT)) == SWEPT_AT:
            await collect_garbage(self._store, lane)

    def _tell(self, lane: p.Key, error: HoldfastError) -> None:
        self._last[lane] = (self._last[lane][0], self._clock.now())
        if self._broken.get(lane) != str(error):
            self._broken[lane] = str(error)
            log.error("no root of %s, tenant %s, can be made: %s", lane.run, lane.tenant, error, extra=about(lane))
