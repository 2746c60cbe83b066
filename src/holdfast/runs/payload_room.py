"""The room that large payloads of steps and acts have in a worker: their arguments and results, in bytes.

An attempt with large arguments begins when they fit; one whose arguments are larger than the whole room begins alone. A
large result is encoded when the results before it are durable. What is waited for always ends by itself:

- small payloads need no room: a step that has none never waits
- arguments give their room back when their attempt ends, and for as long as its code waits for a run
- results wait for commits of other results alone, and never for arguments
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Literal

from holdfast.journal.blobs import THRESHOLD_BYTES

Kind = Literal["arguments", "results"]


class PayloadRoom:
    """The bytes of large payloads under way, and their ``limit``. ``freed`` is called when some have gone."""

    def __init__(self, limit: int, freed: Callable[[], None] = lambda: None) -> None:
        self.limit = limit
        self.bytes: dict[Kind, int] = {"arguments": 0, "results": 0}
        self._freed = freed
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def used(self) -> int:
        return sum(self.bytes.values())

    def fits(self, size: int) -> bool:
        """Whether arguments of this size may come in now."""
        return not is_large(size) or not self.used or self.used + size <= self.limit

    def place(self, kind: Kind, size: int) -> PayloadPlace | None:
        """Count a payload, until it is released. None of a small one, which is not counted."""
        return PayloadPlace(self, kind, size) if is_large(size) else None

    async def results_fit(self) -> None:
        """Wait until another result may be encoded, if results have all the room. ``let_in`` must follow."""
        while self.bytes["results"] >= self.limit:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    def let_in(self) -> None:
        """Let the next result be encoded, if there is room. Each that was let in calls this once it is encoded or given
        up, since it may need no room itself."""
        while self._waiting and self.bytes["results"] < self.limit:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def add(self, kind: Kind, size: int) -> None:
        """Count so many bytes more, or fewer."""
        self.bytes[kind] += size
        if size < 0:
            self.let_in()
            self._freed()


class PayloadPlace:
    """One payload in the room."""

    __slots__ = ("_counts", "_is_over", "_kind", "_room", "size")

    def __init__(self, room: PayloadRoom, kind: Kind, size: int) -> None:
        self._room = room
        self._kind = kind
        self.size = size
        self._counts = False
        self._is_over = False
        self._count(True)

    def _count(self, counts: bool) -> None:
        if counts != self._counts:
            self._counts = counts
            self._room.add(self._kind, self.size if counts else -self.size)

    def lend(self) -> None:
        """Let others have the room for a while."""
        self._count(False)

    def take_back(self) -> None:
        """Count it again, whether or not there is room."""
        self._count(not self._is_over)

    def release(self) -> None:
        """It is over."""
        self._is_over = True
        self._count(False)


def is_large(size: int) -> bool:
    """Whether a payload of this size needs room: it is stored beside the journal."""
    return size > THRESHOLD_BYTES


Lender = tuple[asyncio.AbstractEventLoop, PayloadPlace]

lender: Final[ContextVar[Lender | None]] = ContextVar("holdfast-lender", default=None)
"""The large arguments of the attempt that the present code belongs to, with the loop that counts them."""


@contextmanager
def lent() -> Iterator[None]:
    """While a step waits for a run, its arguments need no room: the run may have a step that needs it."""
    found = lender.get()
    if found is None or found[0].is_closed():
        yield
        return
    loop, load = found
    loop.call_soon_threadsafe(load.lend)
    try:
        yield
    finally:
        if not loop.is_closed():
            loop.call_soon_threadsafe(load.take_back)
