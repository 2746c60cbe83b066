"""A bank of machines that uses all that machines can do, and a plain account of what must come of its events.

Accounts hear deposits, hand money on to each other, charge fees by a step that reports how far it is, queued or not,
and are reminded after a time. A deposit with a poisoned amount makes the handler raise. Every event is written down in
the state, so what was handled, how often and in which order can be read off it.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from holdfast import report, step
from holdfast.journal.payload import Ok
from holdfast.programs.machine.handle import Cell
from holdfast.programs.machine.machine import machine
from holdfast.programs.machine.occurrences import Progress, Settled

POISON: Final = 13


@dataclass
class Deposited:
    account: str
    id: str
    amount: int


@dataclass
class Moved:
    """Money leaves the account for another one, which hears ``Received``."""

    account: str
    id: str
    to: str
    amount: int


@dataclass
class Received:
    account: str
    id: str
    amount: int


@dataclass
class Charged:
    """A fee is to be charged: a step computes it."""

    account: str
    id: str


@dataclass
class Reminded:
    account: str
    id: str


@dataclass
class Account:
    balance: int = 0
    seen: list[str] = field(default_factory=list)
    fees: dict[str, int] = field(default_factory=dict)
    open: dict[str, str] = field(default_factory=dict)
    reminders: list[str] = field(default_factory=list)
    progress: dict[str, list[int]] = field(default_factory=dict)


charged: list[str] = []
"""The fees that were computed, in the real world: a step may run again after a crash, but not after it was recorded."""


fee_seconds = 0.0
"""The longest time that computing a fee takes."""


async def _computed(id: str) -> int:
    if fee_seconds:
        await asyncio.sleep(random.Random(id).random() * fee_seconds)
    charged.append(id)
    tried = len(charged)
    for number in range(len(id) + 2):
        report([id, tried, number])
        await asyncio.sleep(0.05 * number)
    return len(id)


@step(name="bank.fee")
async def fee(id: str) -> int:
    return await _computed(id)


@step(name="bank.queued_fee", queue="bank", concurrency=8)
async def queued_fee(id: str) -> int:
    return await _computed(id)


@machine(key="account", effects=[fee, queued_fee], emits=[Received], name="bank.account", lanes=4)
def account(
    state: Account | None, event: Deposited | Moved | Received | Charged | Reminded | Progress | Settled, cell: Cell
) -> Account | None:
    """One account."""
    now = state or Account()
    match event:
        case Deposited(id=id, amount=amount):
            if amount == POISON:
                raise ValueError("poisoned")
            return replace(now, balance=now.balance + amount, seen=[*now.seen, id])
        case Moved(id=id, to=to, amount=amount):
            cell.emit(Received(to, id, amount))
            return replace(now, balance=now.balance - amount, seen=[*now.seen, id])
        case Received(id=id, amount=amount):
            cell.send(Reminded(cell.key, id), after=timedelta(seconds=3))
            return replace(now, balance=now.balance + amount, seen=[*now.seen, f"{id}+"])
        case Charged(id=id):
            number = cell.do(queued_fee if int(id[1:]) % 2 else fee, id)
            return replace(now, seen=[*now.seen, id], open={**now.open, str(number): id})
        case Reminded(id=id):
            return replace(now, reminders=[*now.reminders, id])
        case Progress(details=[id, *place], sequence=sequence):
            _require_progress(now, id, place, str(sequence))
            return replace(now, progress={**now.progress, id: place})
        case Settled(outcome=Ok(value), sequence=sequence):
            id = now.open[str(sequence)]
            left = {each: value for each, value in now.open.items() if each != str(sequence)}
            return replace(now, balance=now.balance - value, fees={**now.fees, id: value}, open=left)
    return now


def _require_progress(now: Account, id: str, place: list[int], sequence: str) -> None:
    """A report is of a fee that is open, in this very cell, and comes once, behind all that were made before it."""
    if now.open.get(sequence) != id or now.progress.get(id, [0, 0]) >= place:
        raise ValueError(f"{id} reports {place}, and open is {now.open}, after {now.progress}")


Event = Deposited | Moved | Charged


def events(seed: int, count: int, poisoned: bool = False) -> list[Event]:
    """Random events for a few accounts."""
    chance = random.Random(seed)
    names = [f"a{number}" for number in range(chance.randint(1, 6))]
    found: list[Event] = []
    for number in range(count):
        name, id = chance.choice(names), f"e{number}"
        match chance.randrange(3):
            case 0:
                amount = POISON if poisoned and chance.random() < 0.3 else chance.randrange(20, 90)
                found.append(Deposited(name, id, amount))
            case 1:
                found.append(Moved(name, id, chance.choice(names), chance.randrange(1, 20)))
            case _:
                found.append(Charged(name, id))
    return found


def expected(given: list[Event]) -> dict[str, Account]:
    """What must come of these events, but for the order of what comes from elsewhere."""
    accounts: dict[str, Account] = {}

    def of(name: str) -> Account:
        return accounts.setdefault(name, Account())

    for event in given:
        own = of(event.account)
        own.seen.append(event.id)
        match event:
            case Deposited(amount=amount):
                own.balance += amount
            case Moved(id=id, to=to, amount=amount):
                own.balance -= amount
                of(to).balance += amount
                of(to).reminders.append(id)
                of(to).seen.append(f"{id}+")
            case Charged(id=id):
                own.balance -= len(id)
                own.fees[id] = len(id)
    return accounts
