"""The exchange: it sends hints to other processes and hears theirs, through a driver.

- Hints are sent by a task of its own, after the commit. Nobody waits for it, and no error of a driver gets further.
- One message is under way at most, and a short gap follows it. All changes meanwhile are one further message.
- Whoever connects again looks at the store, because hints may have been missed.
- Nothing is connected before there is a hint to send, or someone who wants to hear.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from holdfast.wakeups.driver import Wakeups
from holdfast.wakeups.trouble import Trouble

log = logging.getLogger("holdfast.wakeups")

GAP_SECONDS: Final = 0.01
SEND_SECONDS: Final = 5.0
FLUSH_SECONDS: Final = 1.0
"""How long a process that ends waits for its last hint to be sent."""
SHORTEST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 5.0
STEADY_SECONDS: Final = 10.0
"""A subscription that was lost after so long was a good one: it is made again at once."""


def channel_of(identity: str) -> str:
    """The channel of a store. Its name tells nothing about the store, and no two stores share one."""
    return f"holdfast:{hashlib.sha256(identity.encode()).hexdigest()[:32]}"


class HintExchange:
    """The hints of one process about one store. ``identity`` gives the store's, ``hint`` is called for hints heard."""

    def __init__(self, driver: Wakeups, identity: Callable[[], Awaitable[str]], hint: Callable[[], None]) -> None:
        self.driver = driver
        self._identity = identity
        self._hint = hint
        self._sender = uuid.uuid4().hex
        self._channel = ""
        self._is_open = False
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._due = asyncio.Event()
        self._flushed = asyncio.Event()
        place = str(driver) if type(driver).__str__ is not object.__str__ else type(driver).__name__
        self._sending = Trouble(f"send hints to other processes by {place}")
        self._hearing = Trouble(f"hear hints of other processes by {place}")
        self.sent = 0

    def open(self) -> None:
        """From now on hints are sent and heard. Safe to call twice."""
        if not self._is_open:
            self._is_open = True
            self._due, self._flushed = asyncio.Event(), asyncio.Event()
            self._flushed.set()

    def announce(self) -> None:
        """Something that concerns others is durable. Returns at once."""
        if self._is_open:
            self._due.set()
            if not self._sending.present:
                self._flushed.clear()
            self._begin("send", self._send)

    def listen(self) -> None:
        """Hear hints of others from now on. Returns at once; hints may come before the subscription is known."""
        if self._is_open:
            self._begin("hear", self._hear)

    async def close(self) -> None:
        """Send the last hint, for a moment at most, and give up all connections. Safe to call twice."""
        if not self._is_open:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_SECONDS):
                await self._flushed.wait()
        self._is_open = False
        tasks, self._tasks = set(self._tasks.values()), {}
        while tasks:  # a driver may turn a cancellation into an error of its own: then it is cancelled again
            for task in tasks:
                task.cancel()
            _, tasks = await asyncio.wait(tasks, timeout=FLUSH_SECONDS)
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await self.driver.close()
        except Exception as error:
            log.debug("the connections of wake-ups were not closed well: %r", error)

    # -- sending -------------------------------------------------------------------------------------------------

    def _begin(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if name not in self._tasks:
            self._tasks[name] = asyncio.get_running_loop().create_task(work(), name=f"holdfast-wakeups-{name}")

    async def _send(self) -> None:
        failures = 0
        while True:
            await self._due.wait()
            self._due.clear()
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    await self.driver.publish(await self._channel_name(), self._sender)
            except Exception as error:
                failures += 1
                self._due.set()  # it is still to be sent, once, however many changes come meanwhile
                if failures > 1:  # servers close idle connections, and that is no trouble
                    self._sending.failed(error)
                    self._flushed.set()
                await asyncio.sleep(_pause(failures))
            else:
                failures = 0
                self.sent += 1
                self._sending.over()
                if not self._due.is_set():
                    self._flushed.set()
                await asyncio.sleep(GAP_SECONDS)

    # -- hearing -------------------------------------------------------------------------------------------------

    async def _hear(self) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            began = loop.time()
            error: Exception = ConnectionError("the subscription ended")
            try:
                await self.driver.listen(await self._channel_name(), self._heard)
            except Exception as failure:
                error = failure
            failures = 1 if loop.time() - began > STEADY_SECONDS else failures + 1
            if failures > 1:
                self._hearing.failed(error)
            await asyncio.sleep(_pause(failures))

    def _heard(self, sender: str) -> None:
        self._hearing.over()
        if sender != self._sender:
            self._hint()

    async def _channel_name(self) -> str:
        if not self._channel:
            self._channel = channel_of(await self._identity())
        return self._channel


def _pause(failures: int) -> float:
    """The seconds until the next attempt: longer after each failure, and not the same in all processes."""
    longest: float = min(LONGEST_PAUSE_SECONDS, SHORTEST_PAUSE_SECONDS * 2 ** min(failures - 1, 10))
    return longest * random.uniform(0.75, 1.0)
