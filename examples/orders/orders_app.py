"""Orders and parcels: two machines that know each other only by the events that they emit.

    order    Placed → charge → Paid ─┐            ┌→ Shipped or SoldOut → order: done, or a refund
    parcel                           └→ pack ─────┘

A payment goes through the gate, so policy may deny it. An order that is not shipped by its deadline is refunded, and so
is one that is sold out: the refund is the compensation of the charge.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from holdfast import Cell, Err, Holdfast, Ok, Settled, action, machine, step

HERE = Path(__file__).parent
PATIENCE = timedelta(seconds=float(os.environ.get("ORDERS_PATIENCE_SECONDS", 2 * 86400)))
"""How long a customer waits."""


@dataclass
class Placed:
    order_id: str
    cents: int
    item: str


@dataclass
class Expired:
    order_id: str


@dataclass
class Paid:
    order_id: str
    payment: str
    item: str


@dataclass
class Shipped:
    order_id: str
    parcel: str


@dataclass
class SoldOut:
    order_id: str


@dataclass
class Order:
    stage: str
    cents: int
    item: str
    payment: str = ""
    why: str = ""


@dataclass
class Parcel:
    item: str
    payment: str


@action(name="orders.charge", connector="bank", operation="payment.make", target="{order_id}")
async def charge(order_id: str, cents: int) -> str:
    """Take the money. The default idempotency key names this very call."""
    if cents == 0:
        raise ValueError("the card was declined")
    return f"payment-{order_id}"


@action(name="orders.refund", connector="bank", operation="payment.refund", target="{payment}", risk="low")
async def refund(payment: str, cents: int) -> None:
    """Give it back."""


@step(name="orders.pack", retries=3)
async def pack(order_id: str, item: str) -> str | None:
    """A parcel's number; None where the item is sold out."""
    return None if item == "a rare thing" else f"parcel-{order_id}"


@machine(key="order_id", effects=[charge, refund], emits=[Paid], name="orders.order")
def order(state: Order | None, event: Placed | Shipped | SoldOut | Expired | Settled, cell: Cell) -> Order | None:
    """One order, from its placing until it is shipped, refused or refunded."""
    match state, event:
        case None, Placed(cents=cents, item=item):
            cell.do(charge, cell.key, cents)
            cell.send(Expired(cell.key), after=PATIENCE)
            return Order("charging", cents, item)
        case Order("charging"), Settled(outcome=Ok(payment)):
            cell.emit(Paid(cell.key, payment, state.item))
            return replace(state, stage="paid", payment=payment)
        case Order("charging"), Settled(outcome=Err(failure)):
            cell.complete()
            return replace(state, stage="refused", why=str(failure))
        case Order("paid"), Shipped():
            cell.complete()
            return replace(state, stage="shipped")
        case Order("paid"), SoldOut() | Expired():
            cell.do(refund, state.payment, state.cents)
            return replace(state, stage="refunding", why="sold out" if isinstance(event, SoldOut) else "too late")
        case Order("refunding"), Settled(outcome=Ok()):
            cell.complete()
            return replace(state, stage="refunded")
        case Order("refunding"), Settled(outcome=Err(failure)):
            cell.fail(f"the refund failed: {failure}")
            return state
    return state


@machine(key="order_id", effects=[pack], emits=[Shipped, SoldOut], name="orders.parcel")
def parcel(state: Parcel | None, event: Paid | Settled, cell: Cell) -> Parcel | None:
    """The parcel of a paid order. It knows nothing of prices and deadlines."""
    match state, event:
        case None, Paid(item=item, payment=payment):
            if item != "a slow thing":  # which nobody ever packs
                cell.do(pack, cell.key, item)
            return Parcel(item, payment)
        case Parcel(), Settled(outcome=Ok(str(number))):
            cell.emit(Shipped(cell.key, number))
            cell.complete()
        case Parcel(), Settled():
            cell.emit(SoldOut(cell.key))
            cell.complete()
    return state


def engine(url: str) -> Holdfast:
    """An engine under the policy beside this file."""
    return Holdfast(url, policy=HERE / "policy.yaml")


app = engine(os.environ.get("HOLDFAST_STORE", "sqlite:///orders.db"))
