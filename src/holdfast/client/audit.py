"""The audit: what was decided, asked, done and steered, sealed in one chain per tenant; and the keys that sign it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.audit import heads, keys
from holdfast.audit.check.chain import EVIDENCE, RECEIPTS, RUNS, TASKS, AuditCheck
from holdfast.audit.check.claims import Verdict
from holdfast.audit.check.receipts import check_receipts
from holdfast.audit.check.runs import check_evidence, check_runs
from holdfast.audit.check.sealed_entries import LARGEST_BLOCK, SealedEntries
from holdfast.audit.check.tasks import check_tasks
from holdfast.audit.check.trust import Given
from holdfast.audit.collector import entries_of
from holdfast.audit.keychain import Keychain
from holdfast.audit.notes import note
from holdfast.audit.records import Operated
from holdfast.audit.retirement import retired_by
from holdfast.client.views.cursors import Page, read_cursor, write_cursor
from holdfast.errors import InvalidRequest
from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.store import protocol as p

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
    retired: bool = False  # whether a later key says how far it counts


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
    ) -> AsyncIterator[p.AuditEntry]:
        """A tenant's entries that match, in the order of the chain; those that are not sealed yet come last.

        ``kind`` is decision, approval, receipt, ended or operator. An entry's ``record`` is what it says.
        """
        query = p.AuditQuery(tenant, run, kind, _microseconds(since), _microseconds(until))
        return entries_of(self._app.store, query)

    async def page(
        self,
        *,
        tenant: str = DEFAULT_TENANT,
        run: str | None = None,
        kind: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Page[p.AuditEntry]:
        """So many entries that match, in the order of the chain, and a cursor for the rest."""
        query = p.AuditQuery(tenant, run, kind, _microseconds(since), _microseconds(until))
        place = read_cursor("audit", after)
        last = None if place is None else p.AuditEntry(place.at, tenant, None, "", 0, b"")
        found = await self._app.store.entries(query, limit, last)
        more = found and len(found) == limit
        return Page(found, write_cursor("audit", p.Cursor(found[-1].sequence, tenant, "")) if more else None)

    async def verify(
        self,
        *,
        tenant: str = DEFAULT_TENANT,
        trusted: bytes | None = None,
        head: bytes | None = None,
        advance: Callable[[int], None] = lambda _: None,
    ) -> Verdict:
        """Check every entry, block and signature of a tenant's chain; then its receipts, tasks, runs and evidence.

        The first that is broken is named. Workers may go on meanwhile.

        ``trusted`` are public keys as PEM: where one of them vouches for the chain, what is found is proved.
        ``head`` is what the method of that name gave earlier and was kept elsewhere: that the chain was cut off or
        rewritten since is found by it. ``advance`` is told how many entries more have been checked. Raises
        InvalidRequest where the keys or the head cannot be read, and for a tenant that has no audit: a mistyped name
        must not pass for a chain that is whole.
        """
        given = None if trusted is None else Given.of(keys.read_pem(trusted), keys.read_retired(trusted))
        kept = () if head is None else _heads_of(tenant, head)
        line = await self._line()
        while True:
            ends = {key.number: await self._app.store.chain_ends(key.number) for key in line if key.retirement}
            check = AuditCheck(tenant, line, ends, kept)
            await self._follow(tenant, check, advance)
            check.end()
            if check.problem is None or (present := await self._line()) == line:
                break
            line = present  # it was rotated meanwhile: what the new key signed was strange to the old line
        if check.problem is None:
            await self._hold(tenant, check)
        if check.is_empty:
            raise InvalidRequest(
                f"tenant {tenant!r} has no audit: nothing was ever noted there, or all of it is gone; check the name."
            )
        return check.verdict(given)

    async def _line(self) -> Sequence[keys.PublicKey]:
        return [keys.published(key) for key in await self._app.store.signing_keys()]

    async def _hold(self, tenant: str, check: AuditCheck) -> None:
        """Hold what is done by, rows of the store, against the audit and the journals."""
        store = self._app.store
        for about, held in (
            (RECEIPTS, await check_receipts(store, tenant)),
            (TASKS, await check_tasks(store, tenant)),
            (RUNS, await check_runs(store, tenant)),
            (EVIDENCE, await check_evidence(store, tenant)),
        ):
            check.held(about, held.count, held.problem)

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

    async def head(self, *, tenant: str | None = DEFAULT_TENANT) -> bytes:
        """The head of a tenant's chain, or with None those of all tenants, to be kept elsewhere: a line of JSON each.

        Raises InvalidRequest where nothing is sealed so far.
        """
        found = await self._app.store.heads(None if tenant is None else [tenant])
        if not found:
            whose = "there" if tenant is None else f"in the audit of tenant {tenant!r}"
            raise InvalidRequest(f"nothing is sealed {whose} so far: a worker seals what is noted within a second.")
        return heads.write(found)

    async def keys(self) -> Sequence[AuditKey]:
        """The keys that sign, oldest first; the last one signs now. A worker makes the first."""
        found = await self._app.store.signing_keys()
        line = [keys.published(key) for key in found]
        return [_shown(key, retired_by(line, key.id) is not None) for key in found]

    async def public_keys(self) -> bytes:
        """Their public halves in one PEM file, for those who check evidence. Nothing in it is secret.

        A line before each says its number and id, and whether it is retired.
        """
        line = await self._line()
        return keys.key_file([(key, retired_by(line, key.id) is not None) for key in line])

    async def rotate_key(self, *, by: str, reason: str = "", tenant: str = DEFAULT_TENANT) -> AuditKey:
        """Make a new key that signs from now on, endorsed by the present one; the tenant's audit notes who did it.

        The present one is retired: what it signs from now on is not trusted.

        Raises KeyLocked.
        """

        def told(key: p.SigningKey) -> p.Note:
            details = {"action": "rotate", "number": str(key.number), "key": key.id}
            return note(tenant, None, Operated(key.created_at, "key", by, None, reason, details))

        key = await Keychain(self._app.store, self._app.clock).rotate(told)
        self._app.wake_sealer()
        return _shown(key, is_retired=False)


def _heads_of(tenant: str, data: bytes) -> Sequence[p.Block]:
    found = [block for block in heads.read(data) if block.tenant == tenant]
    if not found:
        raise InvalidRequest(f"there is no head of tenant {tenant!r} in it.")
    return found


def _shown(key: p.SigningKey, is_retired: bool) -> AuditKey:
    encrypted = key.private is not None and b"ENCRYPTED" in key.private.partition(b"\n")[0]
    return AuditKey(key.number, key.id, key.created_at, keys.to_pem(key.public), encrypted, is_retired)


def _microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1e6)
