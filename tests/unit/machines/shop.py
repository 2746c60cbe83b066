"""A shop of machines for tests: orders that are paid, shipped and deleted; effects that do what a test wants."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from holdfast import Cell, Err, Ok, Rejected, Settled, machine, step
from holdfast.programs.machine.schemas import schema

DAYS: Final = timedelta(days=2)

calls: list[str] = []
"""What the effects were asked for, in the real world."""

gates: dict[str, asyncio.Event] = {}
"""An effect with one of these keys ends only when a test lets it."""


@dataclass
@schema("shop/Placed@2")
class Placed:
    order_id: str
    cents: int


@dataclass
@schema("shop/Noted@1")
class Noted:
    """Something that is written into the state, and nothing else."""

    order_id: str
    text: str


@dataclass
@schema("shop/Dropped@1")
class Dropped:
    order_id: str


@dataclass
@schema("shop/Expired@1")
class Expired:
    order_id: str


@dataclass
@schema("shop/Paid@1")
class Paid:
    order_id: str
    payment: str


@dataclass
@schema("shop/Packed@1")
class Packed:
    order_id: str


@dataclass
@schema("shop/Unheard@1")
class Unheard:
    order_id: str


@dataclass
@schema("shop/Order@1")
class Order:
    stage: str = "new"
    notes: list[str] = field(default_factory=list)


@dataclass
@schema("shop/Parcel@1")
class Parcel:
    payment: str


@step(name="shop.charge")
async def charge(order_id: str, cents: int) -> str:
    calls.append(order_id)
    if order_id in gates:
        await gates[order_id].wait()
    if cents < 0:
        raise ValueError("no such amount")
    return f"payment of {order_id}"


@step(name="shop.slow", timeout=5.0)
async def slow(order_id: str) -> str:
    await asyncio.sleep(60)
    return order_id


@step(name="shop.stock")
async def stock(order_id: str, count: int) -> int:
    return count


@step(name="shop.spell")
async def spell(words: dict[str, int], times: int) -> int:
    return times


@machine(key="order_id", effects=[charge, slow, stock, spell], emits=[Paid, Unheard], name="shop.order", lanes=4)
def order(
    state: Order | None, event: Placed | Noted | Dropped | Expired | Packed | Settled, cell: Cell
) -> Order | None:
    """An order, from its placing until it is dropped."""
    now = state or Order()
    match event:
        case Placed(cents=cents):
            cell.do(charge, cell.key, cents)
            cell.send(Expired(cell.key), after=DAYS)
            return replace(now, stage="charging")
        case Noted(text="twice"):
            cell.do(stock, cell.key, 1)
            cell.do(stock, count=2, order_id=cell.key)
            return now
        case Noted(text="spelt"):
            cell.do(spell, {"a": 1, "b": 2}, 1)
            cell.do(spell, {"b": 2, "a": 1}, times=1)
            cell.do(spell, times=1, words={"a": 1, "b": 2})
            return now
        case Noted(text="misspelt"):
            cell.do(spell, "no map", 1)
            return now
        case Noted(text="slow"):
            cell.do(slow, cell.key)
            return now
        case Noted(text="nobody"):
            cell.emit(Unheard(cell.key))
            return now
        case Noted(text=text) if text.startswith("stage:"):
            return replace(now, stage=text.removeprefix("stage:"))
        case Noted(text=text):
            return replace(now, notes=[*now.notes, text])
        case Dropped():
            return None
        case Expired():
            return replace(now, notes=[*now.notes, "expired"])
        case Packed():
            return replace(now, stage="packed")
        case Settled(effect="shop.charge", outcome=Ok(payment)):
            cell.emit(Paid(cell.key, payment))
            return replace(now, stage="paid")
        case Settled(outcome=Err(failure)):
            return replace(now, stage="refused", notes=[*now.notes, f"{event.effect} {event.status} {failure}"])
        case Settled(outcome=Ok(value)):
            return replace(now, notes=[*now.notes, f"{event.sequence}: {value} for {event.key}"])


@machine(key="order_id", emits=[Packed], name="shop.parcel", lanes=4)
def parcel(state: Parcel | None, event: Paid, cell: Cell) -> Parcel | None:
    """What is sent to whoever has paid."""
    cell.emit(Packed(event.order_id))
    return Parcel(event.payment)


@step(name="shop.odd")
async def odd(key: str) -> int:
    return "not a number"  # type: ignore[return-value]  # on purpose


@dataclass
@schema("shop/Asked@1")
class Asked:
    order_id: str


@dataclass
@schema("shop/Answer@1")
class Answer:
    text: str


@machine(key="order_id", effects=[odd], name="shop.strict", lanes=1)
def strict(state: Answer | None, event: Asked | Settled, cell: Cell) -> Answer | None:
    """It does not accept rejections."""
    if isinstance(event, Asked):
        cell.do(odd, cell.key)
        return Answer("asked")
    return Answer(f"settled {event.status}")


@machine(key="order_id", effects=[odd], name="shop.lenient", lanes=1)
def lenient(state: Answer | None, event: Asked | Settled | Rejected, cell: Cell) -> Answer | None:
    """It does."""
    if isinstance(event, Asked):
        cell.do(odd, cell.key)
        return Answer("asked")
    return Answer(f"rejected: {event.effect}" if isinstance(event, Rejected) else f"settled {event.status}")
