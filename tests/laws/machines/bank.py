"""A bank of machines that uses all that machines can do, and a plain account of what must come of its events.

Accounts hear deposits, hand money on to each other, charge fees by a step that reports how far it is, queued or not,
and are reminded after a time. A deposit with a poisoned amount makes the handler raise. Every event is written down in
the state, so what was handled, how often and in which order can be read off it.

A ``Place`` is the process that runs a handler or an effect: it may raise, fail or die.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

from holdfast import RetryPolicy, report, step
from holdfast.journal.payload import Err
from holdfast.programs.machine.handle import Cell
from holdfast.programs.machine.machine import Machine, machine
from holdfast.programs.machine.manifest import MachineLimits
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
    failed: list[str] = field(default_factory=list)


class Place:
    """A process in which nothing goes wrong."""

    def handle(self, what: str, id: str) -> None:
        """A handler has this before it."""

    async def perform(self, effect: str, id: str, account: str) -> None:
        """An effect begins."""


place: contextvars.ContextVar[Place | None] = contextvars.ContextVar("bank_place", default=None)


def _here() -> Place:
    return place.get() or Place()


charged: list[str] = []
"""The fees that were computed, in the real world: a step may run again after a crash, but not after it was recorded."""


fee_seconds = 0.0
"""The longest time that computing a fee takes."""


async def _computed(effect: str, id: str, account: str) -> list[Any]:
    """What it costs, and for whom: a receipt says whose it is."""
    await _here().perform(effect, id, account)
    if fee_seconds:
        await asyncio.sleep(random.Random(id).random() * fee_seconds)
    charged.append(id)
    tried = len(charged)
    for number in range(len(id) + 2):
        report([id, tried, number])
        await asyncio.sleep(0.05 * number)
    return [account, id, len(id)]


TWICE: Final = RetryPolicy(max_attempts=2, initial=0.5)


@step(name="bank.fee", retry=TWICE)
async def fee(id: str, account: str) -> list[Any]:
    return await _computed("fee", id, account)


@step(name="bank.queued_fee", queue="bank", concurrency=8, retry=TWICE)
async def queued_fee(id: str, account: str) -> list[Any]:
    return await _computed("queued_fee", id, account)


@step(name="bank.new_fee", queue="bank", retry=TWICE)
async def new_fee(id: str, account: str) -> list[Any]:
    """Only the second version of the machine asks for it, and no longer for ``queued_fee``."""
    return await _computed("new_fee", id, account)


@machine(key="account", effects=[fee, queued_fee], emits=[Received], name="bank.account", lanes=4)
def account(
    state: Account | None, event: Deposited | Moved | Received | Charged | Reminded | Progress | Settled, cell: Cell
) -> Account | None:
    """One account."""
    return _account(state, event, cell, queued_fee)


def newer(
    state: Account | None, event: Deposited | Moved | Received | Charged | Reminded | Progress | Settled, cell: Cell
) -> Account | None:
    """One account, by the second version of its code."""
    return _account(state, event, cell, new_fee)


def _account(state: Account | None, event: Any, cell: Cell, queued: Any) -> Account | None:
    now = state or Account()
    _here().handle(type(event).__name__, _id_of(now, event))
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
            number = cell.do(queued if int(id[1:]) % 2 else fee, id, cell.key)
            return replace(now, seen=[*now.seen, id], open={**now.open, str(number): id})
        case Reminded(id=id):
            return replace(now, reminders=[*now.reminders, id])
        case Progress(details=[id, *reached], sequence=sequence):
            _require_progress(now, id, reached, str(sequence))
            return replace(now, progress={**now.progress, id: reached})
        case Settled(outcome=outcome, sequence=sequence):
            id = now.open[str(sequence)]
            left = {each: value for each, value in now.open.items() if each != str(sequence)}
            if isinstance(outcome, Err):
                return replace(now, failed=[*now.failed, id], open=left)
            of, whose, cost = outcome.value
            if (of, whose) != (cell.key, id):
                raise ValueError(f"{id} of {cell.key} gets the receipt of {whose} of {of}")
            return replace(now, balance=now.balance - cost, fees={**now.fees, id: cost}, open=left)
    return now


def _id_of(now: Account, event: Any) -> str:
    match event:
        case Progress(details=[id, *_]):
            return str(id)
        case Settled(sequence=sequence):
            return now.open[str(sequence)]
    return str(event.id)


SECOND: Final = Machine(
    newer,
    name=account.name,
    key="account",
    effects=[fee, new_fee],
    emits=[Received],
    version=1,
    lanes=account.lanes,
    limits=MachineLimits(),
    migrate=None,
)
"""The same machine with newer code. It is registered nowhere."""


def _require_progress(now: Account, id: str, reached: list[int], sequence: str) -> None:
    """A report is of a fee that is open, in this very cell, and comes once, behind all that were made before it."""
    if now.open.get(sequence) != id or now.progress.get(id, [0, 0]) >= reached:
        raise ValueError(f"{id} reports {reached}, and open is {now.open}, after {now.progress}")


Event = Deposited | Moved | Charged


def events(seed: int, count: int, poisoned: bool = False, letter: str = "e") -> list[Event]:
    """Random events for a few accounts. Their ids begin with the letter."""
    chance = random.Random(seed)
    names = [f"a{number}" for number in range(chance.randint(1, 6))]
    found: list[Event] = []
    for number in range(count):
        name, id = chance.choice(names), f"{letter}{number}"
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
