"""Reads a tenant's sealed entries block by block. It reads pages ahead, so many small blocks cost few reads."""

from __future__ import annotations

from collections import deque
from typing import Final

from holdfast.audit.chain import covered
from holdfast.store import protocol as p

PAGE: Final = 2000
LARGEST_BLOCK: Final = 100_000
"""Blocks are far smaller. The limit is for a damaged block that claims more."""


class SealedEntries:
    """Gives the entries of one block after the other. ``last`` is the last entry that was given."""

    def __init__(self, store: p.Store, tenant: str) -> None:
        self.last: p.AuditEntry | None = None
        self._store = store
        self._query = p.AuditQuery(tenant)
        self._ahead: deque[p.AuditEntry] = deque()

    async def of(self, block: p.Block) -> list[p.AuditEntry]:
        """The entries up to the block's end that were not given yet. The block was read before, so they are stored.

        It looks for one entry more than the block holds. Otherwise a second entry at the block's last position would
        go unnoticed between this block and the next.
        """
        limit = min(max(0, block.count), LARGEST_BLOCK) + 1
        while len(self._ahead) < limit and await self._read():
            pass
        entries: list[p.AuditEntry] = []
        while self._ahead and len(entries) < limit and (self._ahead[0].position or 0) < covered(block).stop:
            entries.append(self._ahead.popleft())
        if entries:
            self.last = entries[-1]
        return entries

    async def _read(self) -> bool:
        """Read one more page; False where no full page is left."""
        page = await self._store.entries(self._query, PAGE, self._ahead[-1] if self._ahead else self.last)
        sealed = [entry for entry in page if entry.position is not None]
        is_full = len(sealed) == PAGE
        if is_full and sealed[0].position != sealed[-1].position:
            # The next page begins after the last position of this one, so entries at one position stay together.
            sealed = [entry for entry in sealed if entry.position != sealed[-1].position]
        self._ahead.extend(sealed)
        return is_full
