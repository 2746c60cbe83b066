"""A shop of machines in two versions of their code, and engines that have one of them: for the tests of manifests."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import msgspec

from holdfast import Holdfast, Ok, action, step
from holdfast.cells.cell import decode_cell
from holdfast.programs.machine.handle import Cell
from holdfast.programs.machine.kind import Machines
from holdfast.programs.machine.machine import LANES, Machine
from holdfast.programs.machine.manifest import MachineLimits
from holdfast.programs.machine.occurrences import Settled
from holdfast.programs.machine.proposals import ManifestsMode
from holdfast.runs.lanes import lane_id
from holdfast.store import protocol as p
from holdfast.worker.presence.heart import LoopPulse
from tests.unit.worker.ground import FREE, OPTIONS, VIRTUAL_LEASE_SECONDS, Ground, Line, line_of

KIND = "governed.order"


@dataclass
class Placed:
    order_id: str
    cents: int


@dataclass
class Cancelled:
    order_id: str


@dataclass
class Order:
    stage: str
    cents: int


@dataclass
class NewOrder:
    stage: str
    cents: int
    currency: str


class Till:
    """What the effects did. A charge waits while its order is closed."""

    def __init__(self) -> None:
        self.charged: list[str] = []
        self._closed: dict[str, asyncio.Event] = {}

    def close(self, order: str) -> None:
        self._closed[order] = asyncio.Event()

    def open(self) -> None:
        for event in self._closed.values():
            event.set()
        self._closed.clear()

    async def enter(self, order: str) -> None:
        if order in self._closed:
            await self._closed[order].wait()


till = Till()


@step(name="governed.charge")
async def charge(order: str, cents: int) -> str:
    till.charged.append(order)
    await till.enter(order)
    return f"paid {order}"


@action(connector="bank", operation="pay", name="governed.machines.pay")
async def pay(order: str) -> str:
    till.charged.append(order)
    return f"paid {order}"


@step(name="governed.notify")
async def notify(order: str) -> None:
    till.charged.append(f"notified {order}")


def first(state: Order | None, event: Placed | Cancelled | Settled, cell: Cell) -> Order | None:
    match state, event:
        case None, Placed(cents=cents):
            cell.do(charge, cell.key, cents)
            return Order("charging", cents)
        case Order("charging"), Settled(outcome=Ok()):
            return replace(state, stage="paid")
        case _, Cancelled():
            cell.complete()
            return state
    return state


def second(state: Order | None, event: Placed | Cancelled | Settled, cell: Cell) -> Order | None:
    """Small orders are not charged, and customers are told."""
    match state, event:
        case None, Placed(cents=cents) if cents < 100:
            return Order("free", cents)
        case None, Placed(cents=cents):
            cell.do(charge, cell.key, cents)
            cell.do(notify, cell.key)
            return Order("charging", cents)
        case Order("charging"), Settled(effect="governed.charge"):
            return replace(state, stage="settled")
        case _, Cancelled():
            cell.complete()
            return state
    return state


def renaming(state: Order | None, event: Placed | Cancelled | Settled, cell: Cell) -> Order | None:
    """It asks for what ``first`` asks for, at the same events, and calls what came of it by another name."""
    found = first(state, event, cell)
    return replace(found, stage="settled") if found is not None and found.stage == "paid" else found


def third(state: NewOrder | None, event: Placed | Cancelled | Settled, cell: Cell) -> NewOrder | None:
    """Its state is another one."""
    match event:
        case Placed(cents=cents):
            return NewOrder("free", cents, "EUR")
    return state


def waiting(state: Order | None, event: Placed | Cancelled | Settled, cell: Cell) -> Order | None:
    """It asks for nothing, and waits for an event of its own."""
    if isinstance(event, Placed):
        cell.send(Cancelled(cell.key), after=timedelta(days=1))
        return Order("waiting", event.cents)
    cell.complete()
    return state


def paying(state: Order | None, event: Placed | Settled, cell: Cell) -> Order | None:
    """It asks for an action."""
    if isinstance(event, Placed):
        cell.do(pay, cell.key)
        return Order("asked", event.cents)
    return Order("old", 0)


def paying_anew(state: Order | None, event: Placed | Settled, cell: Cell) -> Order | None:
    """It asks for the same action, and makes something else of its receipt."""
    if isinstance(event, Placed):
        cell.do(pay, cell.key)
        return Order("asked", event.cents)
    return Order("new", 0)


@step(name="governed.queued_charge", queue="tills")
async def queued_charge(order: str) -> str:
    till.charged.append(order)
    await till.enter(order)
    return f"paid {order}"


def sending(state: Order | None, event: Placed | Settled, cell: Cell) -> Order | None:
    if isinstance(event, Placed):
        cell.do(queued_charge, cell.key)
        return Order("charging", event.cents)
    return Order("paid", 0)


def sending_anew(state: Order | None, event: Placed | Settled, cell: Cell) -> Order | None:
    return sending(state, event, cell)


def upgrade(state: Any, version: int) -> NewOrder:
    if state["cents"] < 0:
        raise ValueError("a debt cannot be migrated")
    return NewOrder(state["stage"], state["cents"], "EUR")


def order(
    function: Callable[..., Any] = first,
    effects: Sequence[Any] = (charge,),
    *,
    version: int = 1,
    migrate: Any = None,
    lanes: int = 2,
) -> Machine[Any]:
    """The order machine, with this code. It is registered nowhere."""
    return Machine(
        function,
        name=KIND,
        key="order_id",
        effects=effects,
        emits=(),
        version=version,
        lanes=lanes or LANES,
        limits=MachineLimits(),
        migrate=migrate,
    )


ONE = order()
TWO = order(second, (charge, notify))
THREE = order(third, (), version=2, migrate=upgrade)


@asynccontextmanager
async def shop(
    ground: Ground,
    machine: Machine[Any] = ONE,
    *,
    manifests: ManifestsMode = "declared",
    worker: bool = True,
    policy: Any = FREE,
    line: type[Line] = Line,
) -> AsyncIterator[Holdfast]:
    """An engine that has this machine and no other."""
    seconds = VIRTUAL_LEASE_SECONDS if ground.is_virtual else OPTIONS.lease_seconds
    app = Holdfast(
        line(ground.store),  # type: ignore[arg-type]  # every operation is forwarded by name
        clock=ground.clock,
        entropy=random.Random(id(machine)),
        pulse=LoopPulse,
        options=msgspec.structs.replace(OPTIONS, lease_seconds=seconds),
        policy=policy,
        worker=worker,
        manifests=manifests,
    )
    app.machine_kind = Machines({machine.name: machine}, mode=manifests)
    await app.open()
    try:
        yield app
    finally:
        if not line_of(app).dead:
            await app.close(0)


async def lanes(app: Holdfast, machine: Machine[Any] = ONE, tenant: str = "default") -> list[p.Run]:
    """The lanes of a machine."""
    return await app.store.get([p.Key(tenant, lane_id(machine.name, number)) for number in range(machine.lanes)])


async def handled(app: Holdfast) -> None:
    """Wait until the lanes have handled all that came, and nothing is in flight."""
    while True:
        rows = await app.store.find_cells(p.CellQuery("default", KIND), 1000)
        open_calls = [row for row in rows if decode_cell(row.record).intents]
        if not open_calls and all(run.consumed == run.arrived for run in await lanes(app)):
            return
        await app.changed(0.1)


async def stage(app: Holdfast, key: str) -> str | None:
    """The stage of an order."""
    state = await app.cell(KIND, key).state()
    return None if state is None else state.stage


async def governed(app: Holdfast, *, by: str = "ada", approver: str = "grace") -> str:
    """Propose what this engine's code declares, shadow and approve it."""
    proposal = (await app.machines.propose(by=by)).id
    await app.machines.shadow(proposal, by=by)
    await app.machines.approve(proposal, by=approver)
    return proposal
