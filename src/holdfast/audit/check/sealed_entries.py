"""The sealed entries of a tenant, block by block: read ahead in pages, so that many small blocks cost few reads."""

from __future__ import annotations

from collections import deque
from typing import Final

from holdfast.audit.chain import covered
from holdfast.store import protocol as p

PAGE: Final = 2000
LARGEST_BLOCK: Final = 100_000
"""No block is as large; a damaged one may say that it is."""


class SealedEntries:
    """Gives the entries of one block after the other. ``last`` is the last one that was given."""

    def __init__(self, store: p.Store, tenant: str) -> None:
        self.last: p.AuditEntry | None = None
        self._store = store
        self._query = p.AuditQuery(tenant)
        self._ahead: deque[p.AuditEntry] = deque()

    async def of(self, block: p.Block) -> list[p.AuditEntry]:
        """The entries up to the block's end that were not given yet. The block has been read before: they are there.

        One more than it holds is looked for: a second entry at its last position must not pass between it and the next.
        """
        most = min(max(0, block.count), LARGEST_BLOCK) + 1
        while len(self._ahead) < most and await self._read():
            pass
        found: list[p.AuditEntry] = []
        while self._ahead and len(found) < most and (self._ahead[0].position or 0) < covered(block).stop:
            found.append(self._ahead.popleft())
        if found:
            self.last = found[-1]
        return found

    async def _read(self) -> bool:
        """Read a page more; False where there is no more now."""
        page = await self._store.entries(self._query, PAGE, self._ahead[-1] if self._ahead else self.last)
        sealed = [entry for entry in page if entry.position is not None]
        is_full = len(sealed) == PAGE
        if is_full and sealed[0].position != sealed[-1].position:
            # A page goes on behind a position: two entries at the same one must not be parted.
            sealed = [entry for entry in sealed if entry.position != sealed[-1].position]
        self._ahead.extend(sealed)
        return is_full
