"""The deliveries of one signal name: which are buffered, and which were received.

The kernel numbers them 1, 2, 3, …, so one number shows which were received. The first ones may be carried from earlier
generations of the run; then their payloads are kept elsewhere. The formal model may number them in any way, so all of
its deliveries are kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from holdfast.errors import LawBroken
from holdfast.journal import events as e
from holdfast.journal.payload import Payload


class Deliveries:
    """The deliveries under one name, of which the first ``carried`` are not in this journal. ``buffered`` has each
    payload of the others with the journal's version at its arrival."""

    __slots__ = ("arrived", "buffered", "carried", "consumed", "taken")

    def __init__(self, consumed: int = 0, carried: int = 0) -> None:
        self.carried = carried
        self.buffered: dict[int, tuple[Payload, int]] = {}
        self.consumed = consumed
        self.arrived: list[tuple[int, Payload]] = []  # in a model: all, in order
        self.taken: list[int] = []  # in a model: the received ones

    @property
    def next_id(self) -> int:
        return max(self.carried, self.consumed) + len(self.buffered) + 1

    @property
    def waiting(self) -> int:
        """How many carried ones were not received."""
        return max(0, self.carried - self.consumed)

    def check(self, event: e.SignalReceived, payload: Payload | None) -> None:
        """Judge a receive of the kernel's, where the delivery of its number has this payload. Raises LawBroken."""
        name = _name(event)
        if 0 < event.delivery_id <= self.consumed:
            raise LawBroken("CF-3", f"{name} was consumed before")
        if payload != event.payload:
            raise LawBroken("CF-2", f"{name} with that payload was never delivered")
        if event.delivery_id != self.consumed + 1:
            raise LawBroken("CF-3", f"{name} was consumed before an older one")

    def consume(self, delivery: int) -> None:
        if delivery > self.carried:
            del self.buffered[delivery]
        self.consumed = delivery

    def take(self, event: e.SignalReceived) -> None:
        """Judge a receive of a model's, and fold it in. Raises LawBroken."""
        name = _name(event)
        if (event.delivery_id, event.payload) not in self.arrived:
            raise LawBroken("CF-2", f"{name} with that payload was never delivered")
        if event.delivery_id in self.taken:
            raise LawBroken("CF-3", f"{name} was consumed before")
        if self.arrived[len(self.taken)][0] != event.delivery_id:
            raise LawBroken("CF-3", f"{name} was consumed before an older one")
        self.taken.append(event.delivery_id)


class CarriedDeliveries(Protocol):
    """The signals that a start carries. Its answers may have to be loaded: then it raises that they are missing."""

    def count_of(self, name: str) -> int: ...
    def payload_of(self, name: str, number: int) -> Payload: ...


class Signals(dict[str, Deliveries]):
    """The deliveries of all names that a journal has told of. Others may be ``carried`` by its start."""

    carried: CarriedDeliveries | None = None

    def of(self, name: str) -> Deliveries | None:
        """The deliveries of this name, where there are any."""
        deliveries = self.get(name)
        if deliveries is None and self.carried is not None and (count := self.carried.count_of(name)):
            deliveries = self[name] = Deliveries(carried=count)
        return deliveries

    def next_id(self, name: str) -> int:
        """The number that the next delivery of this name takes."""
        deliveries = self.of(name)
        return 1 if deliveries is None else deliveries.next_id

    def oldest(self, name: str) -> tuple[int, Payload] | None:
        """The delivery that the next receive of this name consumes."""
        deliveries = self.of(name)
        if deliveries is None:
            return None
        payload = self._payload(name, deliveries, deliveries.consumed + 1)
        return None if payload is None else (deliveries.consumed + 1, payload)

    def deliver(self, event: e.SignalDelivered, version: int) -> None:
        """Take in a delivery of the kernel's. Raises LawBroken."""
        name = event.signal_name
        if event.delivery_id != self.next_id(name):
            raise LawBroken("K-3", f"delivery {event.delivery_id} of {name!r} is out of turn")
        deliveries = self.get(name)
        if deliveries is None:
            deliveries = self[name] = Deliveries()
        deliveries.buffered[event.delivery_id] = (event.payload, version)

    def checked(self, event: e.SignalReceived) -> Deliveries:
        """The deliveries of the name that a receive of the kernel's consumes of, judged. Raises LawBroken."""
        deliveries = self.of(event.signal_name) or Deliveries()
        deliveries.check(event, self._payload(event.signal_name, deliveries, event.delivery_id))
        return deliveries

    def _payload(self, name: str, deliveries: Deliveries, number: int) -> Payload | None:
        """The payload of the delivery of this number, if it was not received before."""
        if deliveries.consumed < number <= deliveries.carried and self.carried is not None:
            return self.carried.payload_of(name, number)
        return deliveries.buffered.get(number, (None,))[0]

    def buffered(self, names: Iterable[str]) -> list[str]:
        """The names of these signals' buffered deliveries, in the order in which they came."""
        signals = {name: found for name in names if (found := self.of(name)) is not None}
        carried = [name for name, deliveries in signals.items() for _ in range(deliveries.waiting)]
        arrivals = [(at, name) for name, deliveries in signals.items() for _, at in deliveries.buffered.values()]
        return [*carried, *(name for _, name in sorted(arrivals))]

    def unconsumed(self) -> list[tuple[str, Payload]]:
        """Every buffered signal that this journal has, in order per name: a next generation gets them after those that
        are carried and were not received."""
        return [
            (name, payload)
            for name, deliveries in self.items()
            for _, (payload, _) in sorted(deliveries.buffered.items())
        ]

    def carried_and_received(self) -> dict[str, int]:
        """How many of the carried signals were received, by name."""
        taken = {name: min(each.carried, each.consumed) for name, each in self.items()}
        return {name: number for name, number in taken.items() if number}


def _name(event: e.SignalReceived) -> str:
    return f"delivery {event.delivery_id} of {event.signal_name!r}"
