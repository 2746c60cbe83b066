"""The protocol of a driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Heard = Callable[[str], None]


class Wakeups(Protocol):
    """Carries hints between processes. Write one for any broker; ``Holdfast(url, wakeups=…)`` takes it.

    A driver may be plain. The engine publishes one message at a time, calls again after an error, with growing pauses,
    and logs trouble once. Messages may be lost, doubled, late or in any order. All calls come from one event loop until
    ``close``; after it the driver may be used again, on another loop.
    """

    async def publish(self, channel: str, sender: str) -> None:
        """Send ``sender`` to all that listen on the channel now. Raises any error where it cannot.

        The channel is a short name of letters, digits and colons; the sender is random and says nothing about anyone.
        """
        ...

    async def listen(self, channel: str, heard: Callable[[str], None]) -> None:
        """Call ``heard("")`` once the subscription stands, then ``heard(sender)`` for each message, until cancelled.

        Raises any error where the subscription cannot be made or is lost, even by a peer that only falls silent.
        """
        ...

    async def close(self) -> None:
        """Give up all connections. Safe to call twice."""
        ...
