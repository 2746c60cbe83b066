"""Timers on the real clock: whoever sleeps is woken for every time that is nearer than the one it sleeps for.

Virtual time jumps to the next timer, whichever it is, and hides a role that sleeps for too long. So these tests wait
for real, and read from the journal how late each timer was.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import (
    Holdfast,
    Policy,
    RetryPolicy,
    RunHandle,
    WorkerOptions,
    action,
    continue_as_new,
    receive,
    spawn,
    step,
    step_info,
    workflow,
)
from holdfast.errors import ApprovalExpired
from holdfast.journal import events as e
from holdfast.store.memory import MemoryStore
from holdfast.store.protocol import Store
from holdfast.testing.postgres import PostgresServer
from tests.acceptance.processes import eventually, until_status
from tests.unit.worker.ground import asking, policy_of

LATEST_SECONDS = 0.05
"""The law: no timer is later on an idle engine."""

TRIES, ON_TIME = 3, 2
"""Of so many tries so many must be on time: a role that sleeps has luck now and then, and a busy machine bad luck."""

Open = Callable[[], str | Store]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Gives what an engine is made with; every engine of a test is on the same store."""
    if request.param == "sqlite":
        return lambda: f"sqlite:///{tmp_path / 'timers.db'}"
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.schema_url()
        return lambda: url
    store = MemoryStore()
    return store.twin


async def lateness(run: RunHandle[Any]) -> list[float]:
    """By how many seconds each timer and each retry of the run came late."""
    due: dict[object, int] = {}
    late: list[float] = []
    async for entry in run.journal():
        match entry.event:
            case e.TimerScheduled(promise_id=promise, fire_at=at) | e.InvokeRetrying(promise_id=promise, retry_at=at):
                due[promise] = at
            case e.TimerFired(promise_id=promise) | e.InvokeStarted(promise_id=promise) if promise in due:
                late.append((entry.timestamp - due.pop(promise)) / 1e6)
            case _:
                pass
    return late


async def a_moment(app: Holdfast) -> float:
    """What a run that waits for nothing takes just now: the machine may be busy, and that is no timer's fault."""
    begun = time.monotonic()
    await (await app.start(nap, 0.0)).result(20)
    return time.monotonic() - begun


async def punctual(app: Holdfast, once: Callable[[int], Any]) -> None:
    """Most tries have no timer that was late, and none was early."""
    seen: list[tuple[list[float], float]] = []
    on_time = 0
    for number in range(TRIES):
        late = await once(number)
        assert late, "there was no timer"
        assert min(late) >= 0, "a timer fired before its time"
        allowed = LATEST_SECONDS + await a_moment(app)
        seen.append((late, allowed))
        on_time += max(late) < allowed
        if on_time == ON_TIME:
            return
    raise AssertionError(f"timers were late by more than was allowed: {seen}")


# -- what is waited for --------------------------------------------------------------------------------------------


@workflow(name="timers.nap")
async def nap(seconds: float) -> None:
    await asyncio.sleep(seconds)


RETRY = RetryPolicy(max_attempts=2, initial=1.4, jitter=0)


@step(name="timers.fails_once", retry=RETRY)
async def fails_once() -> int:
    if step_info().attempt == 1:
        raise ValueError("not yet")
    return step_info().attempt


@step(name="timers.queued_fails_once", queue="timers", retry=RETRY)
async def queued_fails_once() -> int:
    if step_info().attempt == 1:
        raise ValueError("not yet")
    return step_info().attempt


@workflow(name="timers.retrying")
async def retrying() -> int:
    return await fails_once()


@workflow(name="timers.queued_retrying")
async def queued_retrying() -> int:
    return await queued_fails_once()


@workflow(name="timers.impatient")
async def impatient() -> str:
    try:
        async with asyncio.timeout(1.3):
            return await receive("word")
    except TimeoutError:
        return "nothing"


@workflow(name="timers.told")
async def told() -> None:
    await receive("word")
    await asyncio.sleep(1.3)


@workflow(name="timers.renewed")
async def renewed(first: bool) -> None:
    if first:
        await spawn(nap, 0.0, id="detached")
        continue_as_new(False)
    await asyncio.sleep(1.3)


@workflow(name="timers.at_once")
async def at_once(first: bool) -> None:
    if first:
        continue_as_new(False)


@step(name="timers.occupy")
async def occupy(seconds: float) -> None:
    await asyncio.sleep(seconds)


@workflow(name="timers.busy")
async def busy(seconds: float) -> None:
    await occupy(seconds)


@action(connector="timers", operation="pay", name="timers.pay")
async def pay() -> str:
    return "paid"


@workflow(name="timers.paying")
async def paying() -> str:
    try:
        return await pay()
    except ApprovalExpired:
        return "expired"


SERVED = (nap, retrying, queued_retrying, impatient, told, renewed, at_once, busy, paying)


@asynccontextmanager
async def engine(place: Open, *, policy: Policy | str | None = None, **options: Any) -> Any:
    """An engine whose roles have nothing to do, and have looked and lain down."""
    kept = WorkerOptions(retention_days=None, evidence=False, **options)
    async with Holdfast(place(), workflows=SERVED, options=kept, policy=policy) as app:
        await asyncio.sleep(0.1)  # the first looks are over
        yield app


# -- each way in which a nearer time comes into being --------------------------------------------------------------


def _alone(place: Open, workflow: Any, *args: object) -> None:
    async def main() -> None:
        async with engine(place) as app:

            async def once(number: int) -> list[float]:
                run = await app.start(workflow, *args, id=f"run {number}")
                await run.result(20)
                return await lateness(run)

            await punctual(app, once)

    asyncio.run(main())


@pytest.mark.parametrize("seconds", [0.3, 1.3, 2.2])
def test_a_timer_of_a_new_run_fires_on_time(place: Open, seconds: float) -> None:
    """The run is handed back with its first turn, and nobody but its worker knows of its time."""
    _alone(place, nap, seconds)


def test_a_retry_begins_on_time(place: Open) -> None:
    """The step fails while its run is held, and the run is handed back until the retry is due."""
    _alone(place, retrying)


def test_a_queued_retry_begins_on_time(place: Open) -> None:
    """The queue keeps the time of the next attempt, and whoever serves the queue is told of it."""
    _alone(place, queued_retrying)


def test_a_timeout_around_a_wait_fires_on_time(place: Open) -> None:
    """A timeout is a timer."""
    _alone(place, impatient)


def test_a_nearer_timer_goes_before_one_that_is_slept_for(place: Open) -> None:
    """The claimer sleeps for the first run's timer; the second run's is nearer."""

    async def main() -> None:
        async with engine(place) as app:

            async def once(number: int) -> list[float]:
                await app.start(nap, 4.0, id=f"far {number}")
                await asyncio.sleep(0.1)
                near = await app.start(nap, 1.3, id=f"near {number}")
                await near.result(20)
                return await lateness(near)

            await punctual(app, once)

    asyncio.run(main())


def test_a_timer_that_follows_a_signal_fires_on_time(place: Open) -> None:
    """The run was claimed for its message, and is handed back with a time that it did not have."""

    async def main() -> None:
        async with engine(place) as app:

            async def once(number: int) -> list[float]:
                run = await app.start(told, id=f"run {number}")
                await until_status(run, "waiting")
                await run.signal("word", "go")
                await run.result(20)
                return await lateness(run)

            await punctual(app, once)

    asyncio.run(main())


def test_a_timer_of_the_next_generation_fires_on_time_and_its_detached_run_begins_at_once(place: Open) -> None:
    """The turn that ends a generation tells others of what it started, like any other turn."""

    async def main() -> None:
        async with engine(place) as app:
            begun = time.monotonic()
            run = await app.start(renewed, True, id="renewed")
            await eventually(lambda: _ended(app, "detached"), "the detached run", 10)
            assert time.monotonic() - begun < 1.0, "the detached run waited for a look at the store"
            await run.result(20)
            assert max(await lateness(run)) < LATEST_SECONDS + await a_moment(app)
            begun = time.monotonic()
            await (await app.start(at_once, True)).result(10)
            assert time.monotonic() - begun < 1.0, "a run that goes on as another at once waited for a look"

    async def _ended(app: Holdfast, id: str) -> bool:
        return [row.status async for row in app.list() if row.key.run == id] == ["completed"]

    asyncio.run(main())


def test_a_task_expires_on_time(place: Open) -> None:
    """The run sleeps until its task is answered or too old."""

    async def main() -> None:
        async with engine(place, policy=asking(expires_in="2s")) as app:

            async def once(number: int) -> list[float]:
                run = await app.start(paying, id=f"run {number}")
                assert await run.result(20) == "expired"
                (task,) = [each async for each in app.tasks.list(status=None) if each.run == f"run {number}"]
                ended = (await run.info()).ended_at
                assert ended is not None
                assert task.expires_at is not None
                return [(ended - task.expires_at) / 1e6]

            await punctual(app, once)

    asyncio.run(main())


def test_a_paused_run_that_is_resumed_keeps_its_time(place: Open) -> None:
    """It is claimed, finds that it must still wait, and is handed back."""

    async def main() -> None:
        async with engine(place) as app:

            async def once(number: int) -> list[float]:
                run = await app.start(nap, 1.8, id=f"run {number}")
                await run.pause()
                await run.resume()
                await run.result(20)
                return await lateness(run)

            await punctual(app, once)

    asyncio.run(main())


# -- other workers -------------------------------------------------------------------------------------------------


def test_another_worker_fires_the_timer_of_one_that_has_no_room(place: Open) -> None:
    """It was asleep when the run was handed back by a worker that is full by now."""

    async def main() -> None:
        async with engine(place, capacity=1) as full, engine(place) as app:

            async def once(number: int) -> list[float]:
                run = await full.start(nap, 1.8, id=f"run {number}")
                occupied = await full.start(busy, 2.6, id=f"busy {number}")
                await run.result(20)
                late = await lateness(run)
                await occupied.result(20)
                return late

            await punctual(app, once)

    asyncio.run(main())


def test_another_worker_fires_the_timer_of_one_that_has_stopped(place: Open) -> None:
    """What the stopped one knew, the store knows."""

    async def main() -> None:
        async with engine(place) as app:

            async def once(number: int) -> list[float]:
                async with engine(place) as first:
                    await first.start(nap, 1.8, id=f"run {number}")
                run = app.run(f"run {number}")
                await run.result(20)
                return await lateness(run)

            await punctual(app, once)

    asyncio.run(main())


# -- caps ----------------------------------------------------------------------------------------------------------


class Shifted:
    """The machine's clock, some seconds off."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> int:
        return time.time_ns() // 1000 + round(self.seconds * 1e6)


def test_a_rate_lets_the_next_run_begin_on_time(place: Open) -> None:
    """One run a minute: the second begins when the first is a minute old."""

    async def main() -> None:
        clock = Shifted()
        capped = policy_of({}, caps={"default": {"max_runs_per_min": 1}})
        options = WorkerOptions(retention_days=None, evidence=False)
        clock.seconds = -58.5
        async with Holdfast(place(), workflows=SERVED, options=options, policy=capped, clock=clock) as app:
            first = await app.start(nap, 0.0, id="first")
            await first.result(20)
            begun = (await first.info()).begun_at
            clock.seconds = 0.0
            second = await app.start(nap, 0.0, id="second")
            await second.result(20)
            row = await second.info()
            assert begun is not None
            assert row.begun_at is not None
            assert 0 <= row.begun_at - begun - 60e6 < 0.5e6, "it was not begun when its minute was over"

    asyncio.run(main())


def test_a_changed_policy_lets_runs_begin_at_once(place: Open, tmp_path: Path) -> None:
    """Whoever waits for a place under the old caps does not wait for a look at the store under the new ones."""
    file = tmp_path / "policy.yaml"
    file.write_text("version: 1\nrules: []\ncaps:\n  default:\n    max_concurrency: 1\n")

    async def main() -> None:
        async with engine(place, policy=str(file)) as app:
            await app.start(busy, 6.0, id="first")
            await asyncio.sleep(0.2)
            second = await app.start(nap, 0.0, id="second")
            file.write_text("version: 1\nrules: []\ncaps:\n  default:\n    max_concurrency: 2\n")
            await second.result(3.5)  # the file is looked at every two seconds

    asyncio.run(main())


# -- a clock that was wrong ----------------------------------------------------------------------------------------


def test_a_timer_set_after_the_clock_was_put_right_takes_its_duration(place: Open) -> None:
    """The worker's clock was an hour ahead when the run began; what the journal recorded then delays nothing now."""

    async def main() -> None:
        clock = Shifted()
        clock.seconds = 3600.0
        options = WorkerOptions(retention_days=None, evidence=False)
        async with Holdfast(place(), workflows=SERVED, options=options, clock=clock) as app:
            run = await app.start(told, id="run")
            await until_status(run, "waiting")
            clock.seconds = 0.0
            await run.signal("word", "go")
            await run.result(5)

    asyncio.run(main())
