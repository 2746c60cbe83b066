"""The audit: what was decided, asked, done and steered, sealed in one chain per tenant; and the keys that sign it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.client.accounting import check_receipts
from holdfast.client.sealed_entries import LARGEST_BLOCK, SealedEntries
from holdfast.errors import InvalidRequest
from holdfast.gate import keys
from holdfast.gate.auditing import AuditCheck
from holdfast.gate.claims import Verdict
from holdfast.gate.records import Operated
from holdfast.store import protocol as p
from holdfast.worker.births import DEFAULT_TENANT
from holdfast.worker.gathering import entries_of
from holdfast.worker.recording import note
from holdfast.worker.signing import Keychain

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

_BLOCKS: Final = 200


class AuditKey(msgspec.Struct, frozen=True):
    """A key that signs, or signed, the audit, as everybody may see it."""

    number: int
    id: str
    created_at: int
    public: bytes  # its public half, as PEM
    encrypted: bool  # whether its private half is


class Audit:
    """The audits of one engine's tenants."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app

    def list(
        self,
        *,
        tenant: str = DEFAULT_TENANT,
        run: str | None = None,
        kind: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> AsyncIterator[p.Entry]:
        """A tenant's entries that match, in the order of the chain; those that are not sealed yet come last.

        ``kind`` is decision, approval, receipt, ended or operator. An entry's ``record`` is what it says.
        """
        query = p.AuditQuery(tenant, run, kind, _microseconds(since), _microseconds(until))
        return entries_of(self._app.store, query)

    async def verify(
        self,
        *,
        tenant: str = DEFAULT_TENANT,
        trusted: bytes | None = None,
        advance: Callable[[int], None] = lambda _: None,
    ) -> Verdict:
        """Check every entry, block and signature of a tenant's chain, and its receipts against the entries.

        The first that is broken is named. Workers may go on meanwhile.

        ``trusted`` are public keys as PEM: where one of them vouches for the chain, what is found is proved.
        ``advance`` is told how many entries more have been checked. Raises InvalidRequest where the keys cannot be
        read, and for a tenant that has no audit: a mistyped name must not pass for a chain that is whole.
        """
        given = None if trusted is None else keys.read_pem(trusted)
        check = AuditCheck(tenant, [keys.published(key) for key in await self._app.store.signing_keys()])
        await self._follow(tenant, check, advance)
        if check.problem is None:
            held = await check_receipts(self._app.store, tenant)
            check.receipts(held.receipts, held.problem)
        if check.is_empty:
            raise InvalidRequest(
                f"tenant {tenant!r} has no audit: nothing was ever noted there, or all of it is gone; check the name."
            )
        return check.verdict(given)

    async def _follow(self, tenant: str, check: AuditCheck, advance: Callable[[int], None]) -> None:
        """Take the chain block by block, and then what is behind it."""
        store, sealed = self._app.store, SealedEntries(self._app.store, tenant)
        number = 0
        looked_again = False
        while True:
            page = await store.blocks(tenant, number, _BLOCKS)
            for block in page:
                entries = await sealed.of(block)
                if not check.step(block, entries):
                    return
                advance(len(entries))
                number, looked_again = block.number + 1, False
            if page:
                continue
            tail = await store.entries(p.AuditQuery(tenant), LARGEST_BLOCK, sealed.last)
            if not looked_again and any(entry.position is not None for entry in tail):
                looked_again = True  # they may have been sealed since we looked for blocks
                continue
            for entry in tail:
                check.tail(entry)
            return

    async def keys(self) -> Sequence[AuditKey]:
        """The keys that sign, oldest first; the last one signs now. A worker makes the first."""
        return [_shown(key) for key in await self._app.store.signing_keys()]

    async def public_keys(self) -> bytes:
        """Their public halves in one PEM file, for those who check evidence. Nothing in it is secret."""
        return b"".join(f"key {key.number}: {key.id}\n".encode() + key.public for key in await self.keys())

    async def rotate_key(self, *, by: str, reason: str = "", tenant: str = DEFAULT_TENANT) -> AuditKey:
        """Make a new key that signs from now on, endorsed by the present one; the tenant's audit notes who did it.

        Raises KeyLocked.
        """

        def told(key: p.SigningKey) -> p.Note:
            details = {"action": "rotate", "number": str(key.number), "key": key.id}
            return note(tenant, None, Operated(key.created_at, "key", by, None, reason, details))

        key = await Keychain(self._app.store, self._app.clock).rotate(told)
        self._app.wake_sealer()
        return _shown(key)


def _shown(key: p.SigningKey) -> AuditKey:
    encrypted = key.private is not None and b"ENCRYPTED" in key.private.partition(b"\n")[0]
    return AuditKey(key.number, key.id, key.created_at, keys.to_pem(key.public), encrypted)


def _microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1e6)
