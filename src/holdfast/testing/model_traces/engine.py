"""An engine that follows a trace: its clock goes on when the trace does, and it starts a due schedule when told to.

On the memory store time is virtual. Other stores need real time for their connections; there only timers of a minute
and more follow the trace's clock, and everything shorter is real.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Any, Final, TypeVar, cast

import msgspec

from holdfast.client.engine import Holdfast
from holdfast.schedules.schedule import KIND
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.store.urls import store_at
from holdfast.testing.virtual import EPOCH_MICROSECONDS, VirtualLoop, run_virtually
from holdfast.worker.options import WorkerOptions
from holdfast.worker.presence.heart import Beats, LoopPulse, Pulse

T = TypeVar("T")

MEMORY: Final = "memory://"
FAR_SECONDS: Final = 60.0
"""Timers from here on follow the trace's clock, on a loop whose time is real."""
MANY: Final = 100_000
PAUSE_SECONDS: Final = 0.003
VIRTUAL_PATIENCE: Final = 3.0
REAL_PATIENCE: Final = 60.0
"""So many seconds the engine has for something that must come."""

OPTIONS: Final = WorkerOptions(lease_seconds=1e9, retention_days=None, warm_limit=1000, capacity=10_000)
"""The clock jumps by days, and no lease may end by that."""


class SteeredLoop(asyncio.SelectorEventLoop):
    """A loop in real time that can jump: what is a minute away or more is due when the time was skipped."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped = 0.0
        self._far: list[tuple[float, asyncio.TimerHandle, Callable[[], object]]] = []

    def call_at(  # type: ignore[override]  # its arguments are not checked against the function
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = super().call_at(when, callback, *args, context=context)
        if when - self.time() >= FAR_SECONDS:
            self._far.append((when + self.skipped, handle, lambda: callback(*args)))
        return handle

    def skip(self, seconds: float) -> None:
        """Let so much time pass at once."""
        self.skipped += seconds
        near = self.time() + self.skipped + FAR_SECONDS
        due = [each for each in self._far if each[0] < near]
        self._far = [each for each in self._far if each[0] >= near and not each[1].cancelled()]
        for when, handle, call in due:
            super().call_at(when - self.skipped, _ring, handle, call)


def _ring(handle: asyncio.TimerHandle, call: Callable[[], object]) -> None:
    if not handle.cancelled():
        handle.cancel()
        call()


class TraceClock:
    """The engine's clock: the loop's time and what was skipped of it."""

    def __init__(self, loop: VirtualLoop | SteeredLoop) -> None:
        self._loop = loop
        self._begin = loop.time()

    def now(self) -> int:
        skipped = self._loop.skipped if isinstance(self._loop, SteeredLoop) else 0.0
        return EPOCH_MICROSECONDS + round((self._loop.time() - self._begin + skipped) * 1e6)

    def go_to(self, time: int) -> None:
        """Let the time pass until then; where it is past already, nothing happens."""
        if (ahead := time - self.now()) > 0:
            self._loop.skip(ahead / 1e6)


class PatientStore:
    """A store whose due schedules are seen only when the trace triggers them, as if each scheduler came late.

    It counts how often claimers and schedulers have looked, so that it is known when they had their chance: ``looks``
    are rounds of a scheduler that were begun, ``full_looks`` are ended rounds in which it looked at waiting ones, too.
    """

    def __init__(self, inner: p.Store, clock: TraceClock) -> None:
        self._inner = inner
        self._clock = clock
        self.let: set[p.ItemKey] = set()
        self.claims = 0
        self.looks = 0
        self.waits = 0
        self.full_looks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def claim(self, *args: Any, **kwargs: Any) -> Any:
        claimed = await self._inner.claim(*args, **kwargs)
        self.claims += 1
        return claimed

    async def now(self) -> int:
        return self._clock.now()

    async def due_now(self, kind: str, limit: int) -> p.DueNow:
        self.full_looks, now = self.waits, self._clock.now()
        found = await self._inner.due_items(kind, now, MANY)
        self.looks += 1
        return p.DueNow(now, [row for row in found if row.key in self.let][:limit])

    async def next_due_item(self, kind: str) -> int | None:
        return None if kind == KIND else await self._inner.next_due_item(kind)

    async def items(self, kind: str, *args: Any, **kwargs: Any) -> list[p.ItemRow]:
        found = await self._inner.items(kind, *args, **kwargs)
        if kind == KIND and kwargs.get("status") == "waiting":
            self.waits += 1
            return [row for row in found if row.key in self.let]
        return found


class TraceEngine(msgspec.Struct, frozen=True):
    """An engine, and what steers it."""

    app: Holdfast
    clock: TraceClock
    store: PatientStore

    async def until(self, is_so: Callable[[], Awaitable[bool]]) -> bool:
        """Let the engine go on until something is so; whether it came to be within the time that it may take."""
        loop = asyncio.get_running_loop()
        end = loop.time() + (VIRTUAL_PATIENCE if isinstance(loop, VirtualLoop) else REAL_PATIENCE)
        while not (reached := await is_so()) and loop.time() < end:
            self.wake()
            await asyncio.sleep(PAUSE_SECONDS)
        return reached

    def wake(self) -> None:
        """Let every role look at the store."""
        assert self.app.worker is not None
        for role in self.app.worker.roles:
            role.wake()


def _calm_pulse(store: p.Store, beats: Beats) -> Pulse:
    """Without the watchdog, which looks in real time."""
    return LoopPulse(store, msgspec.structs.replace(beats, watchdog=None))


@asynccontextmanager
async def trace_engine(url: str = MEMORY) -> AsyncIterator[TraceEngine]:
    """An engine with a worker on the running loop, which is one of ``run_steered``."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop | SteeredLoop)
    clock = TraceClock(loop)
    store = PatientStore(MemoryStore(clock.now) if url == MEMORY else store_at(url), clock)
    app = Holdfast(cast("p.Store", store), clock=clock, entropy=random.Random(0), options=OPTIONS, pulse=_calm_pulse)
    async with app:
        yield TraceEngine(app, clock, store)


def run_steered(main: Coroutine[Any, Any, T], url: str = MEMORY) -> T:
    """Like ``asyncio.run``: in virtual time on the memory store, else on a loop that can jump."""
    if url == MEMORY:
        return run_virtually(main)
    with asyncio.Runner(loop_factory=SteeredLoop) as runner:
        return runner.run(main)
