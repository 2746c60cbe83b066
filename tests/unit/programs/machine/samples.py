"""The machines of a small shop: orders by number, tickets by a nested key, and one statistics machine without keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.programs.machine.declarations import MachineDeclaration
from holdfast.programs.machine.manifest import EffectEntry
from holdfast.programs.machine.schemas import schema


@dataclass
class Placed:
    order_id: str
    cents: int


@dataclass
class Expired:
    order_id: str


@dataclass
class Paid:
    order_id: str
    payment: str


@dataclass
class Order:
    stage: str
    cents: int


class Customer(msgspec.Struct):
    number: int | None


@schema("desk/Asked@2")
class Asked(msgspec.Struct):
    customer: Customer
    words: str


@dataclass
class Moved:
    """An event that concerns two cells."""

    source: str
    target: str


class Totals(msgspec.Struct):
    count: int = 0


@schema("sys/Settled@1")
class Finished(msgspec.Struct):
    """What the engine delivers: never routed."""

    position: int


def order(**changes: Any) -> MachineDeclaration:
    return MachineDeclaration(
        **{
            "name": "order",
            "state": Order,
            "events": (Placed, Expired, Finished),
            "key": "order_id",
            "effects": (EffectEntry(name="charge"),),
            "emits": (Paid,),
            "implementation": "shop.orders:order",
            "hash": "ab" * 32,
            **changes,
        }
    )


def desk(**changes: Any) -> MachineDeclaration:
    return MachineDeclaration(
        **{"name": "desk", "state": Totals, "events": (Asked,), "key": "$value.customer.number", **changes}
    )


def statistics(**changes: Any) -> MachineDeclaration:
    return MachineDeclaration(**{"name": "statistics", "state": Totals, "events": (Placed, Paid), **changes})


def transfers(**changes: Any) -> MachineDeclaration:
    return MachineDeclaration(**{"name": "transfers", "state": Totals, "events": (Moved,), "key": "source", **changes})
