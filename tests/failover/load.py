"""The load of a trial: callers who start, signal and emit, and write down what was acknowledged."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from holdfast import Holdfast
from holdfast.errors import HoldfastError, RunNotFound
from tests.failover.app import Placed, order

LANES: Final = 3
PAUSE_SECONDS: Final = 0.1
AGAIN_SECONDS: Final = 0.1
CELLS: Final = 4


class Acknowledged(NamedTuple):
    """An acknowledgement: of a start, a signal or an event."""

    at: float
    kind: str
    number: int


class Load:
    """Callers in this process, until they are told to stop. Whatever fails is repeated, with the same id."""

    def __init__(self, url: str, *, seconds: float = 0.05, first: int = 1) -> None:
        self.acknowledged: list[Acknowledged] = []
        self._app = Holdfast(url, worker=False)
        self._seconds = seconds
        self._numbers = itertools.count(first)
        self._stopping = False
        self._lanes: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Load:
        await self._app.open()
        self._lanes = [asyncio.create_task(self._lane()) for _ in range(LANES)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for lane in self._lanes:
            lane.cancel()
        await asyncio.gather(*self._lanes, return_exceptions=True)
        await self._app.close()

    async def stop(self) -> None:
        """Let every caller end what it has begun."""
        self._stopping = True
        async with asyncio.timeout(120):
            await asyncio.gather(*self._lanes)

    def of(self, kind: str) -> set[int]:
        return {each.number for each in self.acknowledged if each.kind == kind}

    async def _lane(self) -> None:
        while not self._stopping:
            number = next(self._numbers)
            run = self._app.run(f"order-{number}")
            event = Placed(f"cell {number % CELLS}", number)
            await self._insist("start", number, lambda n=number: self._start(n))  # type: ignore[misc]
            await self._insist("signal", number, lambda r=run, n=number: r.signal("go", f"go {n}", id=f"go-{n}"))  # type: ignore[misc]
            await self._insist("event", number, lambda e=event: self._app.emit(e, id=f"event-{e.number}"))  # type: ignore[misc]
            await asyncio.sleep(PAUSE_SECONDS)

    async def _start(self, number: int) -> None:
        await self._app.start(order, number, self._seconds, id=f"order-{number}")

    async def _insist(self, kind: str, number: int, call: Callable[[], Awaitable[Any]]) -> None:
        while True:
            try:
                await call()
            except RunNotFound:  # a failover has lost its start
                with suppress(HoldfastError):
                    await self._start(number)
            except HoldfastError:
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                self.acknowledged.append(Acknowledged(time.time(), kind, number))
                return
