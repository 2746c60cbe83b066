"""The neighbours of an engine: other processes on the same store. It hears hints of theirs, and gives them hints.

The store itself hints as well as it can; wake-ups, if there are any, come beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from holdfast.store import protocol as p
from holdfast.store.concerns import concerns_others
from holdfast.wakeups.driver import Wakeups
from holdfast.wakeups.exchange import HintExchange
from holdfast.wakeups.urls import wakeups_of


class Neighbours:
    """``hint`` is called whenever one of them may have changed something."""

    def __init__(self, store: p.Store, wakeups: str | Wakeups | None, hint: Callable[[], None]) -> None:
        """Raises UnsupportedWakeups, ExtraMissing."""
        self._store = store
        self._hint = hint
        self._unwatch: Callable[[], None] | None = None
        self._listeners: set[Callable[[], None]] = set()
        self._change = asyncio.Event()
        self.use(wakeups)

    def use(self, wakeups: str | Wakeups | None) -> None:
        """Choose the driver of wake-ups, before the engine is opened. Raises UnsupportedWakeups, ExtraMissing."""
        driver = wakeups_of(wakeups)
        self.exchange = None if driver is None else HintExchange(driver, self._store.identity, self._hint)

    @property
    def wakeups(self) -> Wakeups | None:
        """The driver, if there is one beside the store."""
        return None if self.exchange is None else self.exchange.driver

    def open(self) -> None:
        self._unwatch = self._store.watch(self._hint)
        if self.exchange is not None:
            self.exchange.open()

    async def close(self) -> None:
        """Safe to call twice."""
        unwatch, self._unwatch = self._unwatch, None
        if unwatch is not None:
            unwatch()
        if self.exchange is not None:
            await self.exchange.close()

    def listen(self) -> None:
        """Someone here waits for changes: without that no connection is made to hear of them."""
        if self.exchange is not None:
            self.exchange.listen()

    def add_listener(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call the listener after every commit here, and on every hint of a neighbour; gives what ends this.

        It is called often, from the middle of something else: it must be quick, and must not raise.
        """
        self._listeners.add(listener)
        self.listen()
        return lambda: self._listeners.discard(listener)

    def change(self) -> None:
        """Whoever waits in ``changed`` looks again."""
        self._change.set()

    async def changed(self, seconds: float) -> None:
        """Wait for a hint, at most so many seconds."""
        self._change.clear()
        self.listen()
        try:
            async with asyncio.timeout(seconds):
                await self._change.wait()
        except TimeoutError:
            return

    def tell(self) -> None:
        """Something may have changed."""
        for listener in self._listeners:
            listener()

    def announce(self) -> None:
        """Something that concerns them is durable."""
        if self.exchange is not None:
            self.exchange.announce()

    def committed(self, changes: Sequence[p.Change]) -> None:
        """These changes of this process are durable."""
        self.tell()
        if self.exchange is not None and any(concerns_others(change) for change in changes):
            self.exchange.announce()
