"""The audit: its entries, its check, its head to keep elsewhere, and the keys that sign it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from holdfast.audit.check.claims import Claim
from holdfast.client.views.audit import AuditInfo, AuditKey
from holdfast.client.views.cursors import Page
from holdfast.server.call import FileAnswer, RouteCall
from holdfast.server.fields import PageQuery, ReasonBody, Text, Time
from holdfast.server.route import Nothing, Route

AuditKind = Literal["decision", "approval", "receipt", "ended", "operator"]


class AuditListing(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which entries, in the order of the chain; with `newest` from its end on."""

    newest: bool = False
    run: Text | None = None
    kind: AuditKind | None = None
    since: Time | None = None
    until: Time | None = None


class VerifyBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What you trust: public keys as PEM, and a head of the chain that you kept."""

    trusted: str | None = None
    head: str | None = None


class AuditVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What was checked, and what came of it. `good` is whether nothing is broken."""

    good: bool
    trusted: bool
    claims: tuple[Claim, ...]


class KeyDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A key that signs, or signed. Nothing in it is secret."""

    number: int
    id: str
    created_at: datetime
    public: str  # as PEM
    encrypted: bool
    retired: bool


async def list_entries(call: RouteCall[AuditListing, None]) -> Page[AuditInfo]:
    query = call.query
    return await call.client.audit.page(
        tenant=call.tenant,
        run=query.run,
        kind=query.kind,
        since=query.since,
        until=query.until,
        newest=query.newest,
        limit=query.limit,
        after=query.after,
    )


async def verify(call: RouteCall[Nothing, VerifyBody]) -> AuditVerdict:
    trusted, head = call.body.trusted, call.body.head
    found = await call.client.audit.verify(
        tenant=call.tenant,
        trusted=None if trusted is None else trusted.encode(),
        head=None if head is None else head.encode(),
    )
    return AuditVerdict(good=found.good, trusted=found.trusted, claims=found.claims)


async def head(call: RouteCall[Nothing, None]) -> FileAnswer:
    return FileAnswer(await call.client.audit.head(tenant=call.tenant), "application/json", "audit-head.json")


async def keys(call: RouteCall[Nothing, None]) -> list[KeyDetails]:
    return [_details(key) for key in await call.client.audit.keys()]


async def public_keys(call: RouteCall[Nothing, None]) -> FileAnswer:
    return FileAnswer(await call.client.audit.public_keys(), "application/x-pem-file", "holdfast-keys.pem")


async def rotate_key(call: RouteCall[Nothing, ReasonBody]) -> KeyDetails:
    return _details(await call.client.audit.rotate_key(by=call.by, reason=call.body.reason, tenant=call.tenant))


def _details(key: AuditKey) -> KeyDetails:
    return KeyDetails(
        number=key.number,
        id=key.id,
        created_at=key.created_at,
        public=key.public.decode(),
        encrypted=key.encrypted,
        retired=key.retired,
    )


ROUTES = (
    Route(
        method="GET",
        path="/v1/audit",
        operation="audit.see",
        words="List the tenant's entries in the order of the chain; those that are not sealed yet come last.",
        handler=list_entries,
        query=AuditListing,
        answer=Page[AuditInfo],
    ),
    Route(
        method="POST",
        path="/v1/audit/verify",
        operation="audit.see",
        words="Check every entry, block and signature of the tenant's chain; then its receipts, tasks, runs, evidence.",
        handler=verify,
        body=VerifyBody,
        answer=AuditVerdict,
        only_looks=True,
    ),
    Route(
        method="GET",
        path="/v1/audit/head",
        operation="audit.see",
        words="The head of the tenant's chain, to be kept elsewhere.",
        handler=head,
        media=("application/json",),
    ),
    Route(
        method="GET",
        path="/v1/keys",
        operation="keys.see",
        words="The keys that sign the audit, oldest first; the last one signs now.",
        handler=keys,
        answer=list[KeyDetails],
    ),
    Route(
        method="GET",
        path="/v1/keys/public",
        operation="keys.see",
        words="The public halves of the keys in one PEM file, for those who check evidence.",
        handler=public_keys,
        media=("application/x-pem-file",),
    ),
    Route(
        method="POST",
        path="/v1/keys/rotate",
        operation="keys.rotate",
        words="Make a new key that signs from now on, and retire the present one.",
        handler=rotate_key,
        body=ReasonBody,
        answer=KeyDetails,
        status=201,
    ),
)
