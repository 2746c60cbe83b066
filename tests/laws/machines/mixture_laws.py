"""What must come of a mixed history, by a plain account of it:

1. Each event that was taken in is handled once, held for its parked cell, or dropped by a person: never lost, never
   twice.
2. A cell handles its own events in the order of their commits, and those of another cell in the order in which that
   one emitted them.
3. A receipt and a report reach the cell that asked, and no report comes behind its receipt: the handlers of the bank
   raise where one does, and no cell is parked but by the weather.
4. No effect begins before the turn that asks for it is durable.
5. The rows are what the journals give, replayed with the handlers.
6. What newer code no longer declares is not begun after that code was put in force.
7. What was handled is in no inbox any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import cbor2

from holdfast.programs.machine.lanes.envelopes import Envelope
from holdfast.programs.machine.lanes.held_events import read_held
from tests.laws.machines.bank import Account, Charged, Deposited, Event, Moved, account

if TYPE_CHECKING:
    from tests.laws.machines.mixture import MixedLife


class MixtureViolation(Exception):
    """A law does not hold."""


async def check_history(life: MixedLife) -> None:
    """Raises MixtureViolation."""
    for tenant, given in life.given.items():
        found: dict[str, Account] = {}
        for key, record in await life.cells(tenant):
            if record.state is not None:
                found[key] = account.state.decode(record.state)
        drops = {name: count for (of, name), count in life.drops.items() if of == tenant}
        _Accounts(tenant, given, found, drops).check()
        if await life.store.dead_letters(tenant, 10):
            raise MixtureViolation(f"{tenant} has dead letters")
    if left := (await life.store.facts()).inbox:
        raise MixtureViolation(f"{left} messages are left behind in inboxes of lanes that have taken all")
    await _verify(life)
    for tenant, effect, id, at in life.begun:
        if effect == "queued_fee" and tenant in life.applied and at > life.applied[tenant]:
            raise MixtureViolation(f"{effect} {id} of {tenant} began after newer code was in force")


async def check_held(life: MixedLife) -> None:
    """Law 1, where cells are parked and everything else is at rest. Raises MixtureViolation."""
    for tenant, given in life.given.items():
        for name, record in await life.cells(tenant):
            seen = [] if record.state is None else account.state.decode(record.state).seen
            envelopes = [each for each in map(read_held, record.held) if isinstance(each, Envelope)]
            held = [cbor2.loads(each.value)["id"] for each in envelopes if not each.schema.endswith("Received@1")]
            sent = [event.id for event in given if event.account == name]
            if list(filter({*seen, *held}.__contains__, sent)) != [id for id in [*seen, *held] if not id.endswith("+")]:
                raise MixtureViolation(f"{name} of {tenant} handled {seen}, is held {held} and was sent {sent}")
            if len(set(sent) - {*seen, *held}) > life.drops[tenant, name]:
                raise MixtureViolation(f"{name} of {tenant} lacks of {sent}, handled {seen}, held {held}")
            life.reached["events held"] += len(held)


async def _verify(life: MixedLife) -> None:
    checked = set()
    async for check in life.people.machines.verify():
        checked.add((check.tenant, check.run))
        if not check.good:
            raise MixtureViolation(f"{check.run} of {check.tenant}: {check.problems}")
        if check.by_other_code and not life.rolls:
            raise MixtureViolation(f"{check.run} of {check.tenant} ran by other code, and there is none")
    missed = {(tenant, row.lane) for tenant in life.given for row in await life.rows(tenant)} - checked
    if missed:  # lanes that were begun for a split that failed have no cells
        raise MixtureViolation(f"{missed} were not verified")


class _Accounts:
    """The accounts of one tenant, and what it was given."""

    def __init__(
        self, tenant: str, given: Sequence[Event], found: Mapping[str, Account], drops: Mapping[str, int]
    ) -> None:
        self.tenant = tenant
        self.given = given
        self.found = found
        self.drops = drops
        self.by_id = {event.id: event for event in given}
        self.handled = {id for state in found.values() for id in state.seen if not id.endswith("+")}

    def check(self) -> None:
        names = {event.account for event in self.given} | {event.to for event in self.given if isinstance(event, Moved)}
        for name in sorted(names | set(self.found)):
            state = self.found.get(name, Account())
            missing = self._events(name, state) + self._receipts(name, state)
            if missing > self.drops.get(name, 0):
                raise MixtureViolation(f"{self._place(name)} lacks {missing}, dropped were {self.drops}: {state}")
            self._balance(name, state)

    def _place(self, name: str) -> str:
        return f"{name} of {self.tenant}"

    def _events(self, name: str, state: Account) -> int:
        """Laws 1 and 2; how many are missing."""
        twice = [id for each in (state.seen, state.reminders) for id, count in Counter(each).items() if count > 1]
        if twice:
            raise MixtureViolation(f"{self._place(name)} handled {twice} twice")
        sent = [event.id for event in self.given if event.account == name]
        own = [id for id in state.seen if not id.endswith("+")]
        self._in_order(name, "its own events", sent, own)
        missing = len(sent) - len(own)
        received = [id.removesuffix("+") for id in state.seen if id.endswith("+")]
        for source, other in self.found.items():
            emitted = [id for id in other.seen if self._goes_to(id, name)]
            heard = [id for id in received if self.by_id[id].account == source]
            self._in_order(name, f"what {source} moved", emitted, heard)
            missing += len(emitted) - len(heard)
        if not set(state.reminders) <= set(received):
            raise MixtureViolation(f"{self._place(name)} was reminded of what it has not received: {state}")
        return missing + len(received) - len(state.reminders)

    def _goes_to(self, id: str, name: str) -> bool:
        event = self.by_id.get(id)
        return isinstance(event, Moved) and event.to == name

    def _in_order(self, name: str, what: str, sent: Sequence[str], handled: Sequence[str]) -> None:
        if list(handled) != [id for id in sent if id in set(handled)]:
            raise MixtureViolation(f"{self._place(name)} handled {what} as {handled}, and they came as {sent}")

    def _receipts(self, name: str, state: Account) -> int:
        """Law 3; how many are missing."""
        asked = {id for id in state.seen if isinstance(self.by_id.get(id), Charged)}
        settled = [*state.fees, *state.failed]
        if len(settled) != len(set(settled)) or not set(settled) <= asked or not set(state.progress) <= asked:
            raise MixtureViolation(f"{self._place(name)} has receipts or reports that it must not have: {state}")
        if sorted(state.open.values()) != sorted(asked - set(settled)):
            raise MixtureViolation(f"{self._place(name)} waits for something else than it has asked for: {state}")
        return len(asked) - len(settled)

    def _balance(self, name: str, state: Account) -> None:
        wanted = -sum(state.fees.values())
        for id in state.seen:
            event = self.by_id[id.removesuffix("+")]
            match event:
                case Deposited(amount=amount):
                    wanted += amount
                case Moved(amount=amount):
                    wanted += amount if id.endswith("+") else -amount
        if state.balance != wanted:
            raise MixtureViolation(f"{self._place(name)} has {state.balance} and must have {wanted}: {state}")
