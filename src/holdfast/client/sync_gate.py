"""Tasks, receipts and the audit for code without an event loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from holdfast.audit.check.claims import Verdict
from holdfast.client.audit import Audit, AuditKey
from holdfast.client.loop_thread import LoopThread
from holdfast.client.receipts import Receipts
from holdfast.client.tasks import Tasks
from holdfast.gate.receipts import Receipt
from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.store import protocol as p


class SyncTasks:
    """Tasks: each method is that of ``Tasks``, waited for."""

    def __init__(self, loop: LoopThread, tasks: Tasks) -> None:
        self._loop = loop
        self._tasks = tasks

    def list(
        self,
        *,
        tenant: str | None = None,
        status: p.TaskStatus | None = "requested",
        run: str | None = None,
        kind: p.TaskKind | None = None,
        owner: str | None = None,
        limit: int | None = None,
    ) -> Iterator[p.TaskRow]:
        return self._loop.each(
            self._tasks.list(tenant=tenant, status=status, run=run, kind=kind, owner=owner, limit=limit)
        )

    def get(self, id: str, *, tenant: str = DEFAULT_TENANT) -> p.TaskRow:
        return self._loop.call(self._tasks.get(id, tenant=tenant))

    def approve(self, id: str, *, by: str, reason: str = "", tenant: str = DEFAULT_TENANT) -> p.TaskRow:
        return self._loop.call(self._tasks.approve(id, by=by, reason=reason, tenant=tenant))

    def reject(self, id: str, *, by: str, reason: str = "", tenant: str = DEFAULT_TENANT) -> p.TaskRow:
        return self._loop.call(self._tasks.reject(id, by=by, reason=reason, tenant=tenant))

    def complete(
        self,
        id: str,
        answer: Any,
        *,
        by: str,
        groups: Sequence[str] = (),
        reason: str = "",
        tenant: str = DEFAULT_TENANT,
    ) -> p.TaskRow:
        return self._loop.call(self._tasks.complete(id, answer, by=by, groups=groups, reason=reason, tenant=tenant))

    def claim(
        self, id: str, *, by: str, groups: Sequence[str] = (), reason: str = "", tenant: str = DEFAULT_TENANT
    ) -> p.TaskRow:
        return self._loop.call(self._tasks.claim(id, by=by, groups=groups, reason=reason, tenant=tenant))

    def release(self, id: str, *, by: str, reason: str = "", tenant: str = DEFAULT_TENANT) -> p.TaskRow:
        return self._loop.call(self._tasks.release(id, by=by, reason=reason, tenant=tenant))

    def assign(
        self,
        id: str,
        *,
        by: str,
        to: str,
        to_groups: Sequence[str] = (),
        reason: str = "",
        tenant: str = DEFAULT_TENANT,
    ) -> p.TaskRow:
        return self._loop.call(self._tasks.assign(id, by=by, to=to, to_groups=to_groups, reason=reason, tenant=tenant))

    def delegate(
        self,
        id: str,
        *,
        by: str,
        to: str,
        groups: Sequence[str] = (),
        to_groups: Sequence[str] = (),
        reason: str = "",
        tenant: str = DEFAULT_TENANT,
    ) -> p.TaskRow:
        return self._loop.call(
            self._tasks.delegate(id, by=by, to=to, groups=groups, to_groups=to_groups, reason=reason, tenant=tenant)
        )

    def happened(
        self, id: str, *, by: str, result: Any = None, reason: str = "", tenant: str = DEFAULT_TENANT
    ) -> p.TaskRow:
        return self._loop.call(self._tasks.happened(id, by=by, result=result, reason=reason, tenant=tenant))

    def did_not_happen(self, id: str, *, by: str, reason: str = "", tenant: str = DEFAULT_TENANT) -> p.TaskRow:
        return self._loop.call(self._tasks.did_not_happen(id, by=by, reason=reason, tenant=tenant))

    def give_up(self, id: str, *, by: str, reason: str = "", tenant: str = DEFAULT_TENANT) -> p.TaskRow:
        return self._loop.call(self._tasks.give_up(id, by=by, reason=reason, tenant=tenant))


class SyncReceipts:
    """Receipts: each method is that of ``Receipts``, waited for."""

    def __init__(self, loop: LoopThread, receipts: Receipts) -> None:
        self._loop = loop
        self._receipts = receipts

    def list(
        self,
        *,
        tenant: str | None = None,
        run: str | None = None,
        state: p.ReceiptState | None = None,
        connector: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Receipt]:
        return self._loop.each(
            self._receipts.list(tenant=tenant, run=run, state=state, connector=connector, limit=limit)
        )

    def get(self, id: str, *, tenant: str = DEFAULT_TENANT) -> Receipt:
        return self._loop.call(self._receipts.get(id, tenant=tenant))

    def reverse(self, id: str, *, by: str, reason: str = "", tenant: str = DEFAULT_TENANT) -> str:
        """Take an act back; gives the id of the run that does it."""
        return self._loop.call(self._receipts.reverse(id, by=by, reason=reason, tenant=tenant)).id


class SyncAudit:
    """The audit: each method is that of ``Audit``, waited for."""

    def __init__(self, loop: LoopThread, audit: Audit) -> None:
        self._loop = loop
        self._audit = audit

    def list(
        self,
        *,
        tenant: str = DEFAULT_TENANT,
        run: str | None = None,
        kind: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[p.AuditEntry]:
        return self._loop.each(self._audit.list(tenant=tenant, run=run, kind=kind, since=since, until=until))

    def verify(
        self, *, tenant: str = DEFAULT_TENANT, trusted: bytes | None = None, head: bytes | None = None
    ) -> Verdict:
        return self._loop.call(self._audit.verify(tenant=tenant, trusted=trusted, head=head))

    def head(self, *, tenant: str | None = DEFAULT_TENANT) -> bytes:
        return self._loop.call(self._audit.head(tenant=tenant))

    def keys(self) -> Sequence[AuditKey]:
        return self._loop.call(self._audit.keys())

    def public_keys(self) -> bytes:
        return self._loop.call(self._audit.public_keys())

    def rotate_key(self, *, by: str, reason: str = "", tenant: str = DEFAULT_TENANT) -> AuditKey:
        return self._loop.call(self._audit.rotate_key(by=by, reason=reason, tenant=tenant))
