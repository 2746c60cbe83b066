"""A small office: invoices are paid, orders shipped, subscriptions renewed. ``make serve`` shows it in a browser.

``holdfast serve examples/console/office.py`` serves it; ``serve.py`` beside it first makes some runs to look at.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import msgspec

from holdfast import (
    Cell,
    DidNotHappen,
    Happened,
    Holdfast,
    OutcomeUnknown,
    Receipt,
    TerminalError,
    action,
    machine,
    receive,
    step,
    workflow,
)

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "claims"))

import claims_app  # noqa: E402, F401  # the steps of the definition in claims.yaml


class Invoice(msgspec.Struct):
    """What a supplier wants to be paid."""

    number: str
    supplier: str
    amount: float


@step
async def match_order(invoice: Invoice) -> str:
    """Find the order that an invoice belongs to."""
    await asyncio.sleep(0.02)
    return f"PO-{sum(map(ord, invoice.number)) % 9000 + 1000}"


@step(retries=3)
async def check_supplier(supplier: str) -> dict[str, str]:
    """Look the supplier up in the register."""
    await asyncio.sleep(0.02)
    return {"supplier": supplier, "bank account": "DE89 3704 0044 0532 0130 00", "standing": "good"}


@action(connector="bank", operation="payment.recall", target="{receipt.target}")
async def recall_payment(receipt: Receipt) -> str:
    """Take a payment back."""
    return f"recalled {receipt.result}"


LIMITS = {"Werft Nord": 50_000, "Falk Maschinenbau": 10_000}
"""What the bank lets the office pay each supplier."""


async def find_limit(supplier: str, limit: int) -> Happened | DidNotHappen:
    """What the bank has now: the console shows it beside what is proposed."""
    present = LIMITS.get(supplier, 0)
    return Happened(present) if present == limit else DidNotHappen({"supplier": supplier, "limit": present})


@action(connector="bank", operation="limit.set", target="{supplier}", probe=find_limit, risk="high")
async def set_limit(supplier: str, limit: int) -> int:
    """Let the office pay a supplier more."""
    LIMITS[supplier] = limit
    return limit


@workflow
async def raise_limit(supplier: str, limit: int) -> int:
    """Ask the bank for a higher limit."""
    return await set_limit(supplier, limit)


@action(connector="bank", operation="payment.make", target="{supplier}", reverse=recall_payment)
async def make_payment(supplier: str, amount: float, invoice: str) -> str:
    """Pay a supplier."""
    await asyncio.sleep(0.02)
    return f"payment of {amount:.2f} EUR to {supplier} for {invoice}"


@action(connector="ledger", operation="entry.post", target="{account}")
async def post_entry(account: str, amount: float) -> str:
    """Post to the ledger. It answers badly: nobody knows whether entries on the account 4711 were posted."""
    if account == "4711":
        raise OutcomeUnknown("the ledger closed the connection before it answered")
    return f"entry of {amount:.2f} on {account}"


@workflow
async def pay_invoice(invoice: Invoice, account: str = "1200") -> str:
    """Match the invoice, check the supplier, pay, and post it."""
    order = await match_order(invoice)
    await check_supplier(invoice.supplier)
    payment = await make_payment(invoice.supplier, invoice.amount, invoice.number)
    await post_entry(account, invoice.amount)
    return f"{order}: {payment}"


@step
async def reserve(item: str) -> str:
    """Take an item off the shelf."""
    return f"shelf 7, {item}"


@step(retries=2)
async def print_label(item: str) -> str:
    """Print the label of a parcel. The printer knows no kites."""
    if "kite" in item:
        raise TerminalError("the printer has no label for kites")
    return f"label-{len(item)}"


@workflow
async def ship_parcel(item: str) -> str:
    """Print a label."""
    return await print_label(item)


@workflow
async def order(item: str, days: int = 2) -> str:
    """Reserve, wait until it is packed, ship."""
    await reserve(item)
    async with asyncio.timeout(days * 86400):
        packed = await receive("packed", str)
    return f"{await ship_parcel(item)}, packed by {packed}"


@step
async def check_credit(customer: str) -> int:
    """How much the customer may owe."""
    return 50 * len(customer)


@step
async def send_offer(customer: str) -> str:
    """Write to the customer."""
    return f"offer to {customer}"


@workflow
async def renew(customer: str) -> str:
    """Renew a subscription. Since this morning the credit is checked first: runs of yesterday do not fit."""
    await check_credit(customer)
    offer = await send_offer(customer)
    accepted = await receive("accepted", bool)
    return f"{offer}: {'accepted' if accepted else 'declined'}"


class Seen(msgspec.Struct):
    """A parcel was scanned somewhere."""

    parcel: str
    place: str


class Delivered(msgspec.Struct):
    """A parcel has arrived. Nobody in this office hears it."""

    parcel: str


class Parcel(msgspec.Struct):
    """What is known of a parcel."""

    places: list[str]


@machine(key="parcel", emits=[Delivered], lanes=4)
def parcel(state: Parcel | None, event: Seen, cell: Cell) -> Parcel | None:
    """Where parcels are, by what scanners tell."""
    if event.place == "":
        raise ValueError("a scanner told no place")
    if event.place == "the door":
        cell.emit(Delivered(cell.key))
    return Parcel([*(state.places if state else ()), event.place])


def engine(url: str) -> Holdfast:
    """The office's engine, with its policy and the definition of claims."""
    app = Holdfast(url, policy=HERE / "policy.yaml")
    app.definitions.add(HERE.parent / "claims" / "claims.yaml")
    return app


app = engine(os.environ.get("HOLDFAST_STORE", "sqlite:///office.db"))
