"""Receipts: what actions did, and taking it back."""

from __future__ import annotations

from holdfast.client.views.cursors import Page
from holdfast.client.views.receipts import ReceiptInfo
from holdfast.server.call import Answered, RouteCall
from holdfast.server.fields import PageQuery, ReasonBody, Text
from holdfast.server.route import PREFER, Nothing, Route
from holdfast.server.routes.runs import StartedRun
from holdfast.store.protocol import ReceiptState


class ReceiptListing(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which receipts. Large results are named by their hash unless `results` is true."""

    run: Text | None = None
    state: ReceiptState | None = None
    connector: Text | None = None
    results: bool = False


async def list_receipts(call: RouteCall[ReceiptListing, None]) -> Page[ReceiptInfo]:
    query = call.query
    return await call.client.receipts.page(
        tenant=call.tenant,
        run=query.run,
        state=query.state,
        connector=query.connector,
        limit=query.limit,
        after=query.after,
        results=query.results,
    )


async def show(call: RouteCall[Nothing, None]) -> ReceiptInfo:
    return await call.client.receipts.get(call.path["receipt"], tenant=call.tenant)


class Reversal(ReasonBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why, and whether an open run that relies on the act does not keep it from being taken back."""

    anyway: bool = False


async def reverse(call: RouteCall[Nothing, Reversal]) -> Answered:
    body = call.body
    handle = await call.client.receipts.reverse(
        call.path["receipt"], by=call.by, reason=body.reason, anyway=body.anyway, tenant=call.tenant
    )
    view = StartedRun(handle.id, handle.tenant, await call.progress(handle))
    return Answered(view, {"Location": call.address("runs", handle.id), **call.waited})


ROUTES = (
    Route(
        method="GET",
        path="/v1/receipts",
        operation="receipts.see",
        words="List what actions attempted and what came of it, oldest first.",
        handler=list_receipts,
        query=ReceiptListing,
        answer=Page[ReceiptInfo],
    ),
    Route(
        method="GET",
        path="/v1/receipts/{receipt}",
        operation="receipts.see",
        words="Show a receipt.",
        handler=show,
        answer=ReceiptInfo,
    ),
    Route(
        method="POST",
        path="/v1/receipts/{receipt}/reverse",
        operation="receipts.reverse",
        words="Take an act back: start the run that does so. Asked for twice, it is taken back once. An act on which "
        "an open run relies is taken back only with `anyway`.",
        handler=reverse,
        body=Reversal,
        answer=StartedRun,
        status=201,
        headers=(PREFER,),
    ),
)
