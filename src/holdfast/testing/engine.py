"""An engine for tests of workflows: the real one, on virtual time, in memory, in one process.

``virtual_engine`` is used inside ``run_virtually``. Sleeping is free there: whenever everything waits, the clock jumps to
the next timer. Plain functions run on the spot instead of in threads, because a thread knows nothing of virtual time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Executor, Future
from contextlib import asynccontextmanager
from typing import Any, Final, ParamSpec, TypeVar

import msgspec

from holdfast.client.engine import Holdfast
from holdfast.errors import InvalidRequest
from holdfast.programs.function.definitions import Workflow
from holdfast.store.memory import MemoryStore
from holdfast.store.protocol import Store
from holdfast.testing.virtual import VirtualClock, VirtualLoop
from holdfast.worker.heart import Beats, LoopPulse, Pulse
from holdfast.worker.worker import WorkerOptions

P = ParamSpec("P")
T = TypeVar("T")

PATIENT: Final = WorkerOptions(lease_seconds=3600.0, retention_days=None)
"""Nothing dies here, so hearts beat seldom, and nothing is deleted while a test may still look at it."""


class OnTheSpot(Executor):
    """Runs what it is given at once, in the caller's thread."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def _calm_pulse(store: Store, beats: Beats) -> Pulse:
    """Without the watchdog, which looks twice a second for bodies that block, and in real time."""
    return LoopPulse(store, msgspec.structs.replace(beats, watchdog=None))


@asynccontextmanager
async def virtual_engine(
    *,
    seed: int = 0,
    workflows: Iterable[Workflow[..., Any]] | None = None,
    options: WorkerOptions = PATIENT,
) -> AsyncIterator[Holdfast]:
    """An engine with a worker on the running virtual loop. The same seed gives the same ids and the same jitter.

    Raises InvalidRequest on a loop whose time is real.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        raise InvalidRequest("virtual_engine() needs virtual time: give the coroutine to run_virtually().")
    clock = VirtualClock(loop)
    app = Holdfast(
        MemoryStore(clock.now),
        clock=clock,
        entropy=random.Random(seed),
        options=options,
        pulse=_calm_pulse,
        threads=OnTheSpot(),
        workflows=workflows,
    )
    async with app:
        yield app
