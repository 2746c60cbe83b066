"""The audit, checked in the page; and the evidence of a run, with how to check it elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, get_args

from starlette.datastructures import FormData

from holdfast.server.call import RouteCall
from holdfast.server.console.page import ConsoleForm, ConsolePage, Context, ShownInstead
from holdfast.server.routes.audit import AuditKind, AuditListing

SHOWN: Final = 100
SPANS: Final = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(days=7), "all": None}


class AuditPageQuery(AuditListing, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which entries; without a time, those of the last day, and of a run all."""

    span: Literal["hour", "day", "week", "all"] | None = None


async def load(call: RouteCall[AuditPageQuery, None]) -> Context:
    query = call.query
    span = query.span or ("all" if query.run is not None else "day")
    length = SPANS[span]
    since = query.since or (None if length is None else datetime.now(UTC) - length)
    page = await call.client.audit.page(
        tenant=call.tenant,
        run=query.run,
        kind=query.kind,
        since=since,
        until=query.until,
        newest=True,
        limit=SHOWN,
        after=query.after,
    )
    return {
        "entries": page.items,
        "unsealed": sum(1 for entry in page.items if not entry.sealed),
        "next": page.next,
        "is_first": query.after is None,
        "run": query.run,
        "kind": query.kind,
        "kinds": get_args(AuditKind),
        "span": span,
        "spans": SPANS,
        "keys": await call.client.audit.keys(),
    }


async def verify(call: RouteCall[Any, None], typed: FormData) -> ShownInstead:
    trusted = str(typed.get("trusted", "")).strip()
    head = str(typed.get("head", "")).strip()
    verdict = await call.client.audit.verify(
        tenant=call.tenant, trusted=trusted.encode() or None, head=head.encode() or None
    )
    return ShownInstead(template="verdict.html", context={"verdict": verdict, "has_trusted": bool(trusted)})


async def load_evidence(call: RouteCall[Any, None]) -> Context:
    return {"run": await call.run.info(), "check": await call.run.verify()}


AUDIT = ConsolePage(
    path="/audit",
    operation="audit.see",
    words="What was decided and done, by whom; and whether nobody has altered it.",
    load=load,
    template="audit.html",
    data="/v1/audit",
    query=AuditPageQuery,
)

PAGES = (
    AUDIT,
    ConsolePage(
        path="/evidence/{run}",
        operation="evidence.see",
        words="The evidence of a run, and how to check it elsewhere.",
        load=load_evidence,
        template="evidence.html",
        data="/v1/runs/{run}/verification",
    ),
)
FORMS = (
    ConsoleForm(
        path="/audit/verify",
        operation="audit.see",
        words="Check the whole chain, and what it speaks of.",
        act=verify,
        page=AUDIT,
        only_looks=True,
    ),
)
