"""A shop whose orders can get into every trouble that people look at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from holdfast import Holdfast, RetryPolicy, action, step, workflow
from holdfast.client.machines.sender import SentEvent
from holdfast.client.views.cells import CellInfo
from holdfast.gate.policy.policy import parse
from holdfast.journal.payload import Ok
from holdfast.programs.machine.handle import Cell
from holdfast.programs.machine.machine import machine
from holdfast.programs.machine.occurrences import Settled
from holdfast.programs.machine.schemas import schema


@schema("seen/Placed@1")
@dataclass
class Placed:
    order_id: str
    cents: int
    by: str = "fee"


@schema("seen/Poisoned@1")
@dataclass
class Poisoned:
    """Makes the handler raise, as long as the code is not mended."""

    order_id: str


@schema("seen/Expired@1")
@dataclass
class Expired:
    order_id: str


@schema("seen/Closed@1")
@dataclass
class Closed:
    order_id: str


@schema("seen/Paid@1")
@dataclass
class Paid:
    """Nobody hears it."""

    order_id: str


@schema("seen/Order@1")
@dataclass
class Order:
    stage: str
    cents: int
    seen: int = 1


class Mended:
    """Whether the code can handle what poisons it."""

    yes = False


@step(name="seen.fee")
async def fee(cents: int) -> int:
    return cents // 10


@step(name="seen.slow", retry=RetryPolicy(max_attempts=1000, initial=0.01, maximum=0.02))
async def slow(cents: int) -> int:
    raise TimeoutError("no answer from the bank")


@step(name="seen.broken", retry=RetryPolicy(max_attempts=1))
async def broken(cents: int) -> int:
    raise TimeoutError("no answer from the bank")


@action(connector="bank", operation="charge", name="seen.charge")
async def charge(cents: int) -> str:
    return f"paid {cents}"


@workflow(name="seen.delivering")
async def delivering(cents: int) -> str:
    await asyncio.sleep(1e6)
    return "delivered"


EFFECTS = {"fee": fee, "slow": slow, "broken": broken, "charge": charge, "run": delivering}


@machine(key="order_id", effects=list(EFFECTS.values()), emits=[Paid], name="seen.order", lanes=2)
def order(state: Order | None, event: Placed | Poisoned | Expired | Closed | Settled, cell: Cell) -> Order | None:
    """An order: it is charged, expires, is closed, or cannot be handled."""
    match state, event:
        case _, Poisoned() if not Mended.yes:
            raise ValueError("poisoned")
        case _, Poisoned():
            return replace(state or Order("mended", 0), stage="mended")
        case None, Placed(cents=cents, by="timer"):
            cell.send(Poisoned(cell.key), after=timedelta(milliseconds=1))
            return Order("waiting", cents)
        case None, Placed(cents=cents, by="later"):
            cell.send(Expired(cell.key), after=timedelta(days=2))
            return Order("waiting", cents)
        case None, Placed(cents=cents, by=by):
            cell.annotate({"by": by})
            cell.do(EFFECTS[by], cents)
            return Order("charging", cents)
        case Order(), Settled(outcome=Ok()):
            cell.emit(Paid(cell.key))
            return replace(state, stage="paid", seen=state.seen + 1)
        case Order(), Closed():
            cell.complete()
            return replace(state, stage="closed")
        case Order(), Expired():
            return None
    return state


ASK = parse(
    'version: 1\nrules: [{name: ask, when: "true", effect: needs_approval, tier: med}]',
    "ask",
    clock=lambda: 0,
)


async def handled(app: Holdfast, sent: SentEvent, key: str, tenant: str | None = None) -> Order | None:
    """The state of an order once it has seen an event."""
    return await app.cell(order, key, tenant=tenant).state(after=sent.places[0])


async def until(app: Holdfast, key: str, wanted: Callable[[CellInfo[Order]], bool]) -> CellInfo[Order]:
    """The order as soon as that holds of it."""
    async with asyncio.timeout(60):
        while True:
            if await app.cell(order, key).record() is not None:
                found = await app.cell(order, key).show()
                if wanted(found):
                    return found
            await app.changed(0.05)


async def parked(app: Holdfast, key: str = "o1") -> None:
    """An order that is parked, with one more event held for it."""
    await app.emit(Placed(key, 500))
    await until(app, key, lambda cell: cell.state is not None and cell.state.stage == "paid")
    await handled(app, await app.emit(Poisoned(key)), key)
    await handled(app, await app.emit(Closed(key)), key)
