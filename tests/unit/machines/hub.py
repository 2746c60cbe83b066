"""Machines that use what the shop does not: workflows and governed actions as effects, ends, versions, no key."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from holdfast import Cell, Err, Ok, Settled, action, machine, workflow
from holdfast.programs.machine.manifest import MachineLimits
from holdfast.programs.machine.schemas import schema


@workflow(name="hub.inspect")
async def inspect(name: str) -> str:
    await asyncio.sleep(3600)
    return f"{name} inspected"


@workflow(name="hub.breaks")
async def breaks(name: str) -> str:
    raise ValueError(name)


@action(name="hub.pay", connector="bank", operation="payment.make", target="{name}")
async def pay(name: str, cents: int) -> str:
    paid.append(name)
    return f"paid {name}"


paid: list[str] = []


@dataclass
@schema("hub/Log@1")
class Log:
    lines: list[str] = field(default_factory=list)


@dataclass
@schema("hub/Heard@1")
class Heard:
    number: int


@dataclass
@schema("hub/Place@1")
class Place:
    name: str


@dataclass
@schema("hub/Sent@1")
class Sent:
    place: Place
    what: str
    count: int = 0


@machine(key="place.name", effects=[inspect, breaks, pay], emits=[Heard], name="hub.cell", lanes=2)
def hub(state: Log | None, event: Sent | Settled, cell: Cell) -> Log | None:
    """Does what it is told."""
    lines = list(state.lines) if state else []
    match event:
        case Sent(what="inspect"):
            cell.do(inspect, cell.key)
        case Sent(what="breaks"):
            cell.do(breaks, cell.key)
        case Sent(what="pay", count=count):
            cell.do(pay, cell.key, count)
        case Sent(what="complete"):
            cell.complete()
        case Sent(what="fail"):
            cell.fail("told so")
        case Sent(what="emit", count=count):
            for number in range(count):
                cell.emit(Heard(number))
        case Sent(what="ask", count=count):
            for _ in range(count):
                cell.do(pay, cell.key, 1)
        case Sent(what="grow", count=count):
            return Log(["x" * count])
        case Sent(what="know"):
            return Log([cell.key, cell.machine, cell.machine_hash, cell.manifest, cell.mode, cell.now.isoformat()])
        case Settled(outcome=Ok(value)):
            return Log([*lines, str(value)])
        case Settled(outcome=Err(failure)):
            return Log([*lines, str(failure)])
    return Log([*lines, event.what])


@machine(name="hub.total")
def total(state: Log | None, event: Heard, cell: Cell) -> Log | None:
    """Without a key: one cell hears all."""
    return Log([*(state.lines if state else []), str(event.number)])


@dataclass
@schema("hub/Noted@1")
class Noted:
    name: str


@dataclass
@schema("hub/Old@1")
class Old:
    seen: int = 0


@dataclass
@schema("hub/New@1")
class New:
    count: int
    note: str


def first(state: Old | None, event: Noted, cell: Cell) -> Old | None:
    return Old((state.seen if state else 0) + 1)


def second(state: New | None, event: Noted, cell: Cell) -> New | None:
    now = state or New(0, "new")
    return New(now.count + 1, now.note)


def upgrade(data: Any, version: int) -> New:
    assert version == 1
    return New(data["seen"], "brought up")


TIGHT = MachineLimits(effects=2, events=3, output_bytes=1000)


@machine(key="place.name", effects=[pay], emits=[Heard], name="hub.tight", limits=TIGHT)
def tight(state: Log | None, event: Sent, cell: Cell) -> Log | None:
    """With smaller limits than others."""
    return hub.function(state, event, cell)
