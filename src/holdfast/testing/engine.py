"""An engine for tests of workflows: the real one, on virtual time, in memory, in one process.

``virtual_engine`` is used inside ``run_virtually``. Sleeping is free there: whenever everything waits, the clock jumps
to the next timer. Plain functions run at once and not in threads: a thread knows nothing of virtual time.

Background roles poll a store every few seconds, in case a hint was lost. None is lost here, and polling through weeks
of virtual time would take minutes. So the store gives a hint when a timer is due, and the roles rest until then.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import msgspec

from holdfast.client.engine import Holdfast
from holdfast.errors import InvalidRequest
from holdfast.gate.policy.policy import Policy
from holdfast.programs.function.decorators import Workflow
from holdfast.runs.role import Role
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.testing.virtual import VirtualClock, VirtualLoop
from holdfast.worker.options import WorkerOptions
from holdfast.worker.presence.heart import Beats, LoopPulse, Pulse

P = ParamSpec("P")
T = TypeVar("T")

PATIENT: Final = WorkerOptions(lease_seconds=30 * 86400.0, retention_days=None)
"""Workers do not die here, so they beat rarely, and nothing is deleted while a test may still look at it."""

LOOKS_SECONDS: Final = 2.0
"""A role that rests this long only polls for lost hints."""


class OnTheSpot(Executor):
    """Runs its functions at once, in the caller's thread."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class PunctualStore(MemoryStore):
    """The memory store, with a hint whenever a timer or a piece of work is due."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock.now)
        self._virtual = clock

    async def commit(self, batch: Sequence[p.Change]) -> list[p.Answer]:
        answers = await super().commit(batch)
        loop, now = asyncio.get_running_loop(), self._virtual.now()
        for due in (due for change in batch for due in _dues(change)):
            # A microsecond late rather than early: at the hint, the timer must be due.
            loop.call_later(max(0, due - now + 1) / 1e6, self._tables.hint)
        return answers

    async def claim(self, *args: Any, **kwargs: Any) -> p.ClaimedRuns:
        claimed = await super().claim(*args, **kwargs)
        if claimed.limited and claimed.next_wake_at is not None:  # a rate lets the next run begin then
            seconds = max(0, claimed.next_wake_at - self._virtual.now() + 1) / 1e6
            asyncio.get_running_loop().call_later(seconds, self._tables.hint)
        return claimed


def _dues(change: p.Change) -> Iterator[int]:
    """The times at which the change makes something due."""
    if isinstance(change, p.Enqueue):
        yield change.work.available_at
    if isinstance(change, (p.Start, p.Advance)):
        if change.projection.wake_at is not None:
            yield change.projection.wake_at
        for each in change.attached:
            yield from _dues(each)
    if isinstance(change, p.Tally):
        yield change.due_at
    if isinstance(change, p.Operate):
        for act in change.changes:
            if isinstance(act, p.PutItem) and act.item.due_at is not None:
                yield act.item.due_at


def calm_pulse(store: p.Store, beats: Beats) -> Pulse:
    """Without the watchdog, which looks twice a second, and in real time."""
    return LoopPulse(store, msgspec.structs.replace(beats, watchdog=None))


def _rest_until_hinted(role: Role) -> None:
    look = role.round

    async def round() -> float | None:
        seconds = await look()
        return None if seconds is None or seconds >= LOOKS_SECONDS else seconds

    role.round = round  # type: ignore[method-assign]  # how long a role rests is nobody's option but this test's


@asynccontextmanager
async def virtual_engine(
    *,
    seed: int = 0,
    workflows: Iterable[Workflow[..., Any]] | None = None,
    options: WorkerOptions = PATIENT,
    policy: str | Path | Policy | None = None,
    declared_schedules: bool = False,
) -> AsyncIterator[Holdfast]:
    """An engine with a worker on the running virtual loop. The same seed gives the same ids and the same jitter.

    Schedules that imported code declares are made only with ``declared_schedules``: their runs would come into every
    test that lets time pass.

    Raises InvalidRequest on a loop whose time is real.
    """
    clock = virtual_clock()
    app = Holdfast(
        PunctualStore(clock),
        clock=clock,
        entropy=random.Random(seed),
        options=msgspec.structs.replace(options, declared_schedules=declared_schedules),
        pulse=calm_pulse,
        threads=OnTheSpot(),
        workflows=workflows,
        policy=policy,
    )
    async with calmly(app):
        yield app


def virtual_clock() -> VirtualClock:
    """The clock of the running loop. Raises InvalidRequest on a loop whose time is real."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        raise InvalidRequest("an engine for tests needs virtual time: give the coroutine to run_virtually().")
    return VirtualClock(loop)


@asynccontextmanager
async def calmly(app: Holdfast) -> AsyncIterator[None]:
    """An open engine whose roles rest until they are hinted."""
    async with app:
        assert app.worker is not None
        for role in (app.waiters, *app.worker.roles):
            _rest_until_hinted(role)
        yield
