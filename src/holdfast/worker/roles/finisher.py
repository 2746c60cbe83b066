"""The finisher: it does what is due about items, such as what a process that died has left undone.

What is to be done is known by the kind of the item. Every worker has a finisher, and there is no leader: whatever two
of them do at once, the item's version lets one of them succeed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.errors import HoldfastError, StoreCorrupt
from holdfast.runs.clock import Clock
from holdfast.runs.duty import Duty
from holdfast.runs.role import Role
from holdfast.store import protocol as p
from holdfast.store.patience import TROUBLE

log = logging.getLogger("holdfast.finisher")

BATCH: Final = 100
LOOK_SECONDS: Final = 30.0
"""So often it looks for what has become due without its knowledge."""
SPACING_SECONDS: Final = 1.0
"""Hints come with every commit of other processes. More often than this they cause no look."""
ASIDE_SECONDS: Final = 60.0
"""After this time an item that could not be finished is tried again."""


class Finisher(Role):
    """Looks when the next item is due, and now and then."""

    name = "finisher"

    def __init__(self, store: p.Store, clock: Clock, duties: Mapping[str, Duty]) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._duties = duties
        self._aside: dict[p.ItemKey, tuple[int, float]] = {}  # version, and when it is tried again
        self._rests_until = 0.0

    async def round(self) -> float | None:
        time = asyncio.get_running_loop().time()
        if (rest := self._rests_until - time) > 0:
            return rest
        self._rests_until = time + SPACING_SECONDS
        waits = [await self._do(kind, duty) for kind, duty in self._duties.items()]
        return min(waits, default=LOOK_SECONDS)

    async def _do(self, kind: str, duty: Duty) -> float:
        """Do what is due of one kind; gives the seconds until there may be more."""
        due: list[p.ItemRow] = []
        following = await self._store.next_due_item(kind)
        if following is not None and following <= self._clock.now():
            due = await self._store.due_items(kind, self._clock.now(), BATCH + len(self._aside))
        tenants: dict[str, list[p.ItemRow]] = {}
        for row in due:
            if not self._is_aside(row):
                tenants.setdefault(row.tenant, []).append(row)
        for rows in tenants.values():
            await self._finish(rows, duty)
        if tenants:
            return SPACING_SECONDS  # there may be more, or the next is due soon
        if following is None or due:  # what is aside stays due
            return LOOK_SECONDS
        return min(LOOK_SECONDS, max(0.001, (following - self._clock.now()) / 1e6))

    async def _finish(self, rows: Sequence[p.ItemRow], duty: Duty) -> None:
        try:
            await duty(rows)
        except HoldfastError as error:
            if isinstance(error, TROUBLE) and not isinstance(error, StoreCorrupt):
                raise
            if len(rows) > 1:  # the others must not wait for it
                for row in rows:
                    await self._finish([row], duty)
                return
            (row,) = rows
            log.warning("%s %s of tenant %s cannot be finished: %s", row.kind, row.id, row.tenant, error)
            self._aside[row.key] = row.version, asyncio.get_running_loop().time() + ASIDE_SECONDS

    def _is_aside(self, row: p.ItemRow) -> bool:
        version, until = self._aside.get(row.key, (0, 0.0))
        if version == row.version and asyncio.get_running_loop().time() < until:
            return True
        self._aside.pop(row.key, None)
        return False
