"""The sealer: it chains the audit's new entries, tenant by tenant, and signs them in blocks.

Any number of sealers may work at once: of two that seal the same entries the store takes one, and the other looks
again. An entry that cannot be sealed now, because the key is locked or the store away, waits and is not lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from holdfast.gate import records
from holdfast.gate.chain import make_block
from holdfast.store.protocol import Entry, Store
from holdfast.worker.clock import Clock
from holdfast.worker.patience import TROUBLE
from holdfast.worker.role import Role
from holdfast.worker.signing import Keychain, passphrase_of_environment

log = logging.getLogger("holdfast.sealer")

BLOCK_LIMIT: Final = 1000
LOOK_LIMIT: Final = 5000
SPACING_SECONDS: Final = 0.25
"""Entries gather for so long: a block per entry would cost a commit for each."""
IDLE_SECONDS: Final = 3.0


class Sealer(Role):
    """Seals within a second of a wake, and looks by itself every few seconds for what other processes wrote.

    ``ended`` are woken when the end of a run was sealed.
    """

    name = "sealer"

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ended: Sequence[Role] = (),
        passphrase: Callable[[], str | None] = passphrase_of_environment,
    ) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._ended = ended
        self._keychain = Keychain(store, clock, passphrase)
        self._has_key = False
        self._rests_until = 0.0
        self._complaint = ""

    async def round(self) -> float | None:
        time = asyncio.get_running_loop().time
        if (left := self._rests_until - time()) > 0:
            return left
        try:
            found = await self.seal()
        except TROUBLE as error:
            self._complain(str(error))
            raise
        if self._complaint:
            log.warning("the audit is sealed again")
            self._complaint = ""
        if found == LOOK_LIMIT:
            return 0.0
        self._rests_until = time() + SPACING_SECONDS
        return SPACING_SECONDS if found else IDLE_SECONDS

    async def seal(self) -> int:
        """Seal what is there now; gives how many entries were found. Makes the first key. Raises KeyLocked."""
        if not self._has_key:
            self._has_key = bool(await self._keychain.line())
        found = await self._store.unsealed(LOOK_LIMIT)
        tenants: dict[str, list[Entry]] = {}
        for entry in found:
            tenants.setdefault(entry.tenant, []).append(entry)
        for entries in tenants.values():
            for at in range(0, len(entries), BLOCK_LIMIT):
                if not await self._seal(entries[at : at + BLOCK_LIMIT]):
                    break  # another sealer is at this tenant: what it leaves is looked at in the next round
        return len(found)

    async def _seal(self, entries: list[Entry]) -> bool:
        signer = await self._keychain.signer()
        last = await self._store.blocks(entries[0].tenant, -1, 1)
        block = make_block(last[0] if last else None, entries, self._clock.now(), signer)
        if not await self._store.seal(block, [entry.sequence for entry in entries]):
            return False
        if any(entry.kind == _END for entry in entries):
            for role in self._ended:
                role.wake()
        return True

    def _complain(self, trouble: str) -> None:
        if trouble != self._complaint:
            log.warning("the audit cannot be sealed: %s (its entries wait, nothing is lost)", trouble)
        self._complaint = trouble


_END: Final = str(records.Ended.__struct_config__.tag)
