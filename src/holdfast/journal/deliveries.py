"""The deliveries of one signal name: which are buffered, and which were received.

The kernel numbers them 1, 2, 3, …, so one number shows which were received. The first ones may be carried from earlier
generations of the run; then their payloads are kept elsewhere. The formal model may number them in any way, so all of
its deliveries are kept.
"""

from __future__ import annotations

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


def _name(event: e.SignalReceived) -> str:
    return f"delivery {event.delivery_id} of {event.signal_name!r}"
