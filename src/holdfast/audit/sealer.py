"""The sealer: it chains the audit's new entries, tenant by tenant, and signs them in blocks.

Any number of sealers may work at once: of two that seal the same entries the store takes one, and the other looks
again. An entry that cannot be sealed now, because the key is locked or the store away, waits and is not lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from holdfast.audit import records
from holdfast.audit.chain import make_block
from holdfast.audit.keychain import Keychain, passphrase_of_environment
from holdfast.runs.clock import Clock
from holdfast.runs.role import Role
from holdfast.store.patience import TROUBLE
from holdfast.store.protocol import AuditEntry, Sealing, Store

log = logging.getLogger("holdfast.sealer")

BLOCK_LIMIT: Final = 1000
LOOK_LIMIT: Final = 5000
YIELD_EVERY: Final = 50
"""After so many blocks others on this loop have their turn."""
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
        """Seal what is there now; gives how many entries were found. Makes the first key. Raises KeyLocked.

        It asks the store as often for a thousand tenants as for one.
        """
        if not self._has_key:
            self._has_key = bool(await self._keychain.line())
        found = await self._store.unsealed(LOOK_LIMIT)
        if not found:
            return 0
        sealings = await self._blocks(found)
        # What is refused, because another sealer was faster or the key is not the last one any more, is looked at in
        # the next round.
        sealed = await self._store.seal(sealings)
        done = {
            sequence for each, is_done in zip(sealings, sealed, strict=True) if is_done for sequence in each.sequences
        }
        if any(entry.kind == _END and entry.sequence in done for entry in found):
            for role in self._ended:
                role.wake()
        return len(found)

    async def _blocks(self, found: Sequence[AuditEntry]) -> list[Sealing]:
        """The blocks that seal these entries, each chained to the one before it."""
        signer = await self._keychain.signer()
        tenants: dict[str, list[AuditEntry]] = {}
        for entry in found:
            tenants.setdefault(entry.tenant, []).append(entry)
        heads = {head.tenant: head for head in await self._store.heads(list(tenants))}
        sealings: list[Sealing] = []
        for tenant, entries in tenants.items():
            last = heads.get(tenant)
            for at in range(0, len(entries), BLOCK_LIMIT):
                held = entries[at : at + BLOCK_LIMIT]
                last = make_block(last, held, self._clock.now(), signer)
                sealings.append(Sealing(last, tuple(entry.sequence for entry in held)))
                if len(sealings) % YIELD_EVERY == 0:
                    await asyncio.sleep(0)  # a worker has more to do than to sign
        return sealings

    def _complain(self, trouble: str) -> None:
        if trouble != self._complaint:
            log.warning("the audit cannot be sealed: %s (its entries wait, nothing is lost)", trouble)
        self._complaint = trouble


_END: Final = str(records.Ended.__struct_config__.tag)
