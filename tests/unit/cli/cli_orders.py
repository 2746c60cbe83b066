"""An app with a machine, for the commands about manifests."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast import step
from holdfast.programs.machine.handle import Cell
from holdfast.programs.machine.machine import machine
from holdfast.programs.machine.occurrences import Settled
from holdfast.programs.machine.schemas import schema


@schema("cli/Ordered@1")
@dataclass
class Ordered:
    number: str
    cents: int


@schema("cli/Order@1")
@dataclass
class Order:
    stage: str
    cents: int


@step(name="cli.bill")
async def bill(number: str) -> str:
    return f"bill of {number}"


@machine(key="number", effects=[bill], name="cli.order", lanes=1)
def order(state: Order | None, event: Ordered | Settled, cell: Cell) -> Order | None:
    if isinstance(event, Ordered):
        cell.do(bill, cell.key)
        return Order("billing", event.cents)
    return Order("billed", 0 if state is None else state.cents)
