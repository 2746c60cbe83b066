"""The deliveries of one signal name: which are buffered, and which were received.

The kernel numbers them 1, 2, 3, …, so one number shows which were received. The formal model may number them in any
way, so all of its deliveries are kept.
"""

from __future__ import annotations

from holdfast.errors import LawBroken
from holdfast.journal import events as e
from holdfast.journal.payload import Payload


class Deliveries:
    """The deliveries under one name. ``buffered`` has each payload with the journal's version at its arrival."""

    __slots__ = ("arrived", "buffered", "consumed", "taken")

    def __init__(self, consumed: int = 0) -> None:
        self.buffered: dict[int, tuple[Payload, int]] = {}
        self.consumed = consumed
        self.arrived: list[tuple[int, Payload]] = []  # in a model: all, in order
        self.taken: list[int] = []  # in a model: the received ones

    @property
    def next_id(self) -> int:
        return len(self.buffered) + self.consumed + 1

    def oldest(self) -> tuple[int, Payload] | None:
        """The delivery that the next receive consumes."""
        if not self.buffered:
            return None
        delivery = self.consumed + 1
        return delivery, self.buffered[delivery][0]

    def check(self, event: e.SignalReceived) -> None:
        """Judge a receive of the kernel's. Raises LawBroken."""
        name = _name(event)
        if 0 < event.delivery_id <= self.consumed:
            raise LawBroken("CF-3", f"{name} was consumed before")
        if self.buffered.get(event.delivery_id, (None,))[0] != event.payload:
            raise LawBroken("CF-2", f"{name} with that payload was never delivered")
        if event.delivery_id != self.consumed + 1:
            raise LawBroken("CF-3", f"{name} was consumed before an older one")

    def consume(self, delivery: int) -> None:
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
