"""The sealer chains the audit's new entries, tenant by tenant, and signs them in blocks.

Any number of sealers may work at once. Where two seal the same entries, the store takes the blocks of one, and the
other reads again. While the key is locked or the store is down, entries wait unsealed; none is lost.
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
"""After so many blocks other tasks on this loop may run."""
SPACING_SECONDS: Final = 0.25
"""How long entries gather before they are sealed: a block for each entry would cost a commit for each."""
IDLE_SECONDS: Final = 3.0


class Sealer(Role):
    """Seals within a second of a wake, and looks every few seconds for entries that other processes wrote.

    It wakes the roles in ``ended`` when it has sealed the end of a run, and those in ``sealed`` whenever it has sealed.
    """

    name = "sealer"

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ended: Sequence[Role] = (),
        sealed: Sequence[Role] = (),
        passphrase: Callable[[], str | None] = passphrase_of_environment,
    ) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._ended = ended
        self._sealed = sealed
        self._keychain = Keychain(store, clock, passphrase)
        self._has_key = False
        self._rests_until = 0.0
        self._complaint = ""

    async def round(self) -> float | None:
        time = asyncio.get_running_loop().time
        if (rest := self._rests_until - time()) > 0:
            return rest
        try:
            count = await self.seal()
        except TROUBLE as error:
            self._complain(str(error))
            raise
        if self._complaint:
            log.warning("the audit is sealed again")
            self._complaint = ""
        if count == LOOK_LIMIT:
            return 0.0
        self._rests_until = time() + SPACING_SECONDS
        return SPACING_SECONDS if count else IDLE_SECONDS

    async def seal(self) -> int:
        """Seal the entries that wait now; gives how many were found. Makes the first key. Raises KeyLocked.

        A thousand tenants take as many calls to the store as one.
        """
        if not self._has_key:
            self._has_key = bool(await self._keychain.line())
        entries = await self._store.unsealed(LOOK_LIMIT)
        if not entries:
            return 0
        sealings = await self._blocks(entries)
        # The store refuses a block where another sealer was faster, or where a newer key signs by now. Its entries
        # are still unsealed then, and the next round reads them again.
        sealed = await self._store.seal(sealings)
        done = {
            sequence for each, is_done in zip(sealings, sealed, strict=True) if is_done for sequence in each.sequences
        }
        if any(entry.kind == _END and entry.sequence in done for entry in entries):
            for role in self._ended:
                role.wake()
        for role in self._sealed if done else ():
            role.wake()
        return len(entries)

    async def _blocks(self, entries: Sequence[AuditEntry]) -> list[Sealing]:
        """The blocks that seal these entries, each chained to the one before it."""
        signer = await self._keychain.signer()
        tenants: dict[str, list[AuditEntry]] = {}
        for entry in entries:
            tenants.setdefault(entry.tenant, []).append(entry)
        heads = {head.tenant: head for head in await self._store.heads(list(tenants))}
        sealings: list[Sealing] = []
        for tenant, own in tenants.items():
            last = heads.get(tenant)
            for at in range(0, len(own), BLOCK_LIMIT):
                content = own[at : at + BLOCK_LIMIT]
                last = make_block(last, content, self._clock.now(), signer)
                sealings.append(Sealing(last, tuple(entry.sequence for entry in content)))
                if len(sealings) % YIELD_EVERY == 0:
                    await asyncio.sleep(0)  # let the worker's other tasks run
        return sealings

    def _complain(self, problem: str) -> None:
        if problem != self._complaint:
            log.warning("the audit cannot be sealed: %s (its entries wait, nothing is lost)", problem)
        self._complaint = problem


_END: Final = str(records.Ended.__struct_config__.tag)
