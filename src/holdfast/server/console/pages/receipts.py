"""Receipts: what actions did. Those whose outcome nobody knows come first."""

from __future__ import annotations

from typing import Any, Final

from starlette.datastructures import FormData

from holdfast.server.call import RouteCall
from holdfast.server.console.page import ConsoleForm, ConsolePage, Context, Done
from holdfast.server.console.typed import reason_of
from holdfast.server.routes.receipts import ReceiptListing

SHOWN: Final = 50
STATES: Final = ("unknown", "pending", "succeeded", "failed")


async def load(call: RouteCall[ReceiptListing, None]) -> Context:
    query, receipts = call.query, call.client.receipts
    given: dict[str, Any] = {"tenant": call.tenant, "run": query.run, "connector": query.connector}
    page = await receipts.page(**given, state=query.state, limit=SHOWN, after=query.after)
    is_whole = query.state is None and query.after is None
    unknown = await receipts.page(**given, state="unknown", limit=SHOWN) if is_whole else None
    first = [] if unknown is None else unknown.items
    return {
        "unknown": first,
        "receipts": [each for each in page.items if not is_whole or each.state != "unknown"],
        "next": page.next,
        "is_first": query.after is None,
        "state": query.state,
        "run": query.run,
        "connector": query.connector,
        "states": STATES,
    }


async def load_receipt(call: RouteCall[Any, None]) -> Context:
    receipt = await call.client.receipts.get(call.path["receipt"], tenant=call.tenant)
    return {"receipt": receipt}


async def reverse(call: RouteCall[Any, None], typed: FormData) -> Done:
    run = await call.client.receipts.reverse(
        call.path["receipt"], by=call.by, reason=reason_of(typed), anyway="anyway" in typed, tenant=call.tenant
    )
    return Done(path=("runs", run.id), words="This run takes the act back. The policy judges it like any other act.")


RECEIPTS = ConsolePage(
    path="/receipts",
    operation="receipts.see",
    words="What actions attempted, and what came of it; unknown outcomes first.",
    load=load,
    template="receipts.html",
    data="/v1/receipts",
    query=ReceiptListing,
)
RECEIPT = ConsolePage(
    path="/receipts/{receipt}",
    operation="receipts.see",
    words="A receipt, and the form to take its act back.",
    load=load_receipt,
    template="receipt.html",
    data="/v1/receipts/{receipt}",
)

PAGES = (RECEIPTS, RECEIPT)
FORMS = (
    ConsoleForm(
        path="/receipts/{receipt}/reverse",
        operation="receipts.reverse",
        words="Take an act back.",
        act=reverse,
        page=RECEIPT,
    ),
)
