"""The audit: a sealed chain per tenant of decisions, answers, acts and what operators did; and its signing keys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from holdfast.audit import heads, keys
from holdfast.audit.check.chain import EVIDENCE, PEOPLE, RECEIPTS, RUNS, TASKS, AuditCheck
from holdfast.audit.check.claims import Verdict
from holdfast.audit.check.receipts import check_receipts
from holdfast.audit.check.runs import check_evidence, check_runs
from holdfast.audit.check.sealed_entries import SealedEntries
from holdfast.audit.check.tasks import check_tasks
from holdfast.audit.check.trust import ReaderKeys
from holdfast.audit.check.user_items import check_user_items
from holdfast.audit.collector import entries_of
from holdfast.audit.keychain import Keychain
from holdfast.audit.notes import note
from holdfast.audit.records import Operated
from holdfast.audit.retirement import retired_by
from holdfast.client.pages import PAGE, check_limit
from holdfast.client.people.permission import operation
from holdfast.client.views.audit import AuditInfo, AuditKey, audit_info
from holdfast.client.views.cursors import Page, read_cursor, write_cursor
from holdfast.client.views.times import microseconds, moment
from holdfast.errors import InvalidRequest, NotPermitted, TenantNotFound
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast
    from holdfast.client.governance.export import ExportedAction

AUDIT: Final = "audit"

_BLOCKS: Final = 200


class Audit:
    """The audits of one engine's tenants."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app

    @operation("audit.see")
    async def list(
        self,
        *,
        tenant: str | None = None,
        run: str | None = None,
        kind: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> AsyncIterator[AuditInfo]:
        """A tenant's entries that match, in the order of the chain; those that are not sealed yet come last.

        ``kind`` is decision, approval, receipt, ended or operator. ``after`` is the ``next`` of a page.
        """
        tenant = self._app.tenant_of(tenant)
        query = p.AuditQuery(tenant, run, kind, _time(since), _time(until))
        count = 0
        async for entry in entries_of(self._app.store, query, _place(tenant, after)):
            if limit is not None and count >= limit:
                return
            count += 1
            yield audit_info(entry)

    @operation("audit.see")
    async def page(
        self,
        *,
        tenant: str | None = None,
        run: str | None = None,
        kind: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        newest: bool = False,
        limit: int = PAGE,
        after: str | None = None,
    ) -> Page[AuditInfo]:
        """One page of the entries that match, in the order of the chain, with a cursor for the rest; with ``newest``
        from its end on, newest first."""
        tenant = self._app.tenant_of(tenant)
        query = p.AuditQuery(tenant, run, kind, _time(since), _time(until))
        read = self._app.store.last_entries if newest else self._app.store.entries
        entries = await read(query, check_limit(limit), _place(tenant, after))
        next = write_cursor(AUDIT, p.Cursor(entries[-1].sequence, tenant, "")) if len(entries) == limit else None
        return Page([audit_info(entry) for entry in entries], next)

    @operation("audit.see")
    async def export(self, *, tenant: str | None = None) -> AsyncIterator[ExportedAction]:
        """The whole story of a tenant's templates in one order: what people did, and what the engine did for them.

        It is read from the audit and from the journals, or where these were deleted from the audit alone. It shows the
        moment at which it is read: an instance that waits for its place has not begun.
        """
        from holdfast.client.governance.export import exported

        async for action in exported(self._app, self._app.tenant_of(tenant)):
            yield action

    @operation("audit.see")
    async def verify(
        self,
        *,
        tenant: str | None = None,
        trusted: bytes | None = None,
        head: bytes | None = None,
        advance: Callable[[int], None] = lambda _: None,
    ) -> Verdict:
        """Check every entry, block and signature of a tenant's chain; then receipts, tasks, runs, evidence and people.

        It names the first of each that is broken. Workers may run at the same time.

        ``trusted`` are public keys as PEM: where one of them vouches for the chain, the claims are proved. ``head`` is
        what the method of that name gave earlier, and was kept elsewhere: it shows whether the chain was cut off or
        rewritten since. ``advance`` is called with the number of entries that were checked since its last call. Raises
        InvalidRequest where the keys or the head cannot be read, and for a tenant that has no audit: a mistyped name
        must not pass for a good chain.
        """
        tenant = self._app.tenant_of(tenant)
        given = None if trusted is None else ReaderKeys.of(keys.read_pem(trusted), keys.read_retired(trusted))
        kept = () if head is None else _heads_of(tenant, head)
        line = await self._line()
        while True:
            ends = {key.number: await self._app.store.chain_ends(key.number) for key in line if key.retirement}
            check = AuditCheck(tenant, line, ends, kept)
            await self._follow(tenant, check, advance)
            check.end()
            if check.problem is None or (present := await self._line()) == line:
                break
            line = present  # the key was rotated during the check, so the old line lacks the new key
        if check.problem is None:
            await self._check_rows(tenant, check)
        if check.is_empty:
            raise InvalidRequest(
                f"tenant {tenant!r} has no audit: nothing was ever noted there, or all of it is gone; check the name."
            )
        return check.verdict(given)

    async def _line(self) -> Sequence[keys.PublicKey]:
        return [keys.published(key) for key in await self._app.whole_store.signing_keys()]

    async def _check_rows(self, tenant: str, check: AuditCheck) -> None:
        """Check the rows that the engine acts on against the audit and the journals."""
        store = self._app.store
        for about, result in (
            (RECEIPTS, await check_receipts(store, tenant)),
            (TASKS, await check_tasks(store, tenant)),
            (RUNS, await check_runs(store, tenant)),
            (EVIDENCE, await check_evidence(store, tenant)),
            (PEOPLE, await check_user_items(store, tenant)),
        ):
            check.add(about, result.count, result.problem)

    async def _follow(self, tenant: str, check: AuditCheck, advance: Callable[[int], None]) -> None:
        """Check the chain block by block, and then the entries behind it."""
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
            waiting, claiming = 0, None
            async for entry in entries_of(store, p.AuditQuery(tenant), sealed.last):
                waiting += entry.position is None
                claiming = claiming or (entry if entry.position is not None else None)
            if claiming is not None and not looked_again:
                looked_again = True  # it may have been sealed since the blocks were read
                continue
            check.tail(waiting, claiming)
            return

    @operation("audit.see")
    async def head(self, *, tenant: str | None = None, every_tenant: bool = False) -> bytes:
        """The head of a tenant's chain to be kept elsewhere, as a line of JSON; with ``every_tenant`` those of all.

        Raises InvalidRequest where nothing is sealed so far.
        """
        blocks = await self._app.store.heads(None if every_tenant else [self._app.tenant_of(tenant)])
        if not blocks:
            whose = "there" if every_tenant else f"in the audit of tenant {self._app.tenant_of(tenant)!r}"
            raise InvalidRequest(f"nothing is sealed {whose} so far: a worker seals what is noted within a second.")
        return heads.write(blocks)

    @operation("keys.see")
    async def keys(self) -> Sequence[AuditKey]:
        """The keys that sign, oldest first; the last one signs now. A worker makes the first."""
        stored = await self._app.whole_store.signing_keys()
        line = [keys.published(key) for key in stored]
        return [_view(key, retired_by(line, key.id) is not None) for key in stored]

    @operation("keys.see")
    async def public_keys(self) -> bytes:
        """The public halves of the keys in one PEM file, for those who check evidence. Nothing in it is secret.

        A line before each says its number and id, and whether it is retired.
        """
        line = await self._line()
        return keys.key_file([(key, retired_by(line, key.id) is not None) for key in line])

    @operation("keys.rotate")
    async def rotate_key(self, *, by: str | None = None, reason: str = "", tenant: str | None = None) -> AuditKey:
        """Make a new key that signs from now on, endorsed by the present one; the tenant's audit records who did it.

        The present one is retired: what it signs from now on is not trusted. The keys sign for all tenants, so a user
        of level 6 may do this where theirs is the only tenant that has users; else the operator must. Raises KeyLocked.
        """
        tenant, who = self._app.tenant_of(tenant), self._app.person_of(by)
        if who is None:
            raise InvalidRequest("say who makes the key: by='their name'")
        await self._check_alone(tenant)

        def note_of(key: p.SigningKey) -> p.Note:
            details = {"action": "rotate", "number": str(key.number), "key": key.id}
            return note(tenant, None, Operated(key.created_at, "key", who, None, reason, details))

        key = await Keychain(self._app.whole_store, self._app.clock).rotate(note_of)
        self._app.wake_sealer()
        return _view(key, is_retired=False)

    async def _check_alone(self, tenant: str) -> None:
        """Raises NotPermitted where a bound caller's tenant is not the only one that the keys sign for."""
        caller = self._app.caller
        if caller is None:
            return
        if tenant != caller.tenant:
            raise TenantNotFound(f"there is no tenant {tenant!r} for you: leave the tenant out.")
        others = [each for each in await self._app.whole_store.heads() if each.tenant != caller.tenant]
        if others:
            raise NotPermitted(
                "the keys sign for other tenants, too: the operator of the installation rotates them.",
                operation="keys.rotate",
            )


def _heads_of(tenant: str, data: bytes) -> Sequence[p.Block]:
    blocks = [block for block in heads.read(data) if block.tenant == tenant]
    if not blocks:
        raise InvalidRequest(f"there is no head of tenant {tenant!r} in it.")
    return blocks


def _view(key: p.SigningKey, is_retired: bool) -> AuditKey:
    encrypted = key.private is not None and b"ENCRYPTED" in key.private.partition(b"\n")[0]
    return AuditKey(key.number, key.id, moment(key.created_at), keys.to_pem(key.public), encrypted, is_retired)


def _place(tenant: str, after: str | None) -> p.AuditEntry | None:
    """The entry that a cursor names; a store looks at nothing but its sequence."""
    place = read_cursor(AUDIT, after)
    return None if place is None else p.AuditEntry(place.at, tenant, None, "", 0, b"")


def _time(time: datetime | None) -> int | None:
    return None if time is None else microseconds(time.astimezone())
