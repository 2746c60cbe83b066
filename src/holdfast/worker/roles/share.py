"""A scheduler's share of very many schedules: those that the hash of their key gives to it, among the living workers.

It only saves work: a schedule is nobody's own. Where a scheduler finds nothing to do in its share, because another
worker has no scheduler, or is too slow, or lacks what those schedules start, it takes whatever is due.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

from holdfast.store import protocol as p

LOOK_SECONDS: Final = 5.0
"""So long it is believed who is there."""
MOST: Final = 8
"""So many workers share the work; further ones have no share, and take whatever is due."""


class Share:
    """The share of one worker."""

    def __init__(self, store: p.Store, worker: str) -> None:
        self._store = store
        self._worker = worker
        self._workers: list[str] = []
        self._known_until = 0.0
        self._takes_all = False

    @property
    def schedulers(self) -> int:
        """Among how many the work is shared."""
        return max(1, len(self._workers))

    async def of(self, rows: Sequence[p.ItemRow], time: float) -> Sequence[p.ItemRow]:
        """The rows that this worker begins with."""
        if time >= self._known_until:
            self._workers = sorted(worker.id for worker in await self._store.workers())[:MOST]
            self._known_until = time + LOOK_SECONDS
        if self._takes_all or self._worker not in self._workers:
            return rows
        place = self._workers.index(self._worker)
        return [row for row in rows if _number(row.key) % len(self._workers) == place] or rows

    def made(self, moves: int) -> None:
        """So many moves were made in this round. Without any, the next round does not keep to the share."""
        self._takes_all = not moves


def _number(key: p.ItemKey) -> int:
    return zlib.crc32(f"{key.tenant} {key.id}".encode())
