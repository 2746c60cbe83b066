"""Timers on the real clock: a role that sleeps is woken for every timer that is due earlier than it would wake.

Virtual time jumps to the next timer, and would hide a role that sleeps for too long. So these tests really wait, and
read from the journal how late each timer was. They wait together, see ``tests.acceptance.together``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import asynccontextmanager
from datetime import datetime
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
from holdfast.runs.journals import row_of
from tests.acceptance.processes import eventually, until_status
from tests.acceptance.together import LoopDelays, Outcomes, Place, runner, together
from tests.unit.worker.ground import asking, policy_of

LATEST_SECONDS = 0.05
"""The law: on an idle engine, no timer is later than this."""

SOON_SECONDS = 1.0
"""What was announced begins before this, and ``a_moment``; what was not waits for the next look at the store."""

TRIES, ON_TIME = 3, 2
"""How many of the tries must be on time: a sleeping role may be lucky once, and a busy machine may be slow once."""

pytestmark = pytest.mark.xdist_group("timers")

delays = LoopDelays()


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Outcomes]:
    """How the cases of a store ended."""
    return runner(request, tmp_path_factory.mktemp("timers"), delays)


def blameless(due: datetime, fired: datetime) -> float:
    """By how many seconds it came late, without those by which a plain sleep in this process was late meanwhile."""
    late = (fired - due).total_seconds()
    assert late >= 0, "it came before its time"
    return late - delays.within(due.timestamp(), fired.timestamp())


async def lateness(run: RunHandle[Any]) -> list[float]:
    """By how many seconds each timer and each retry of the run came late, without the delays of the event loop."""
    due: dict[object, datetime] = {}
    late: list[float] = []
    async for entry in run.journal():
        promise = entry.fields.get("promise_id")
        if entry.event in ("TimerScheduled", "InvokeRetrying"):
            due[promise] = entry.fields.get("fire_at") or entry.fields["retry_at"]
        elif entry.event in ("TimerFired", "InvokeStarted") and promise in due:
            late.append(blameless(due.pop(promise), entry.time))
    return late


async def a_moment(app: Holdfast) -> float:
    """The time that a run without waits takes now: on a busy machine this delay is not the timer's."""
    begun = time.monotonic()
    await (await app.start(nap, 0.0)).result(60)
    return time.monotonic() - begun


async def punctual(app: Holdfast, once: Callable[[int], Any]) -> None:
    """In most tries no timer was late; in none was one early, which ``blameless`` checks."""
    measured: list[tuple[list[float], float]] = []
    on_time = 0
    for number in range(TRIES):
        late = await once(number)
        assert late, "there was no timer"
        allowed = LATEST_SECONDS + await a_moment(app)
        measured.append((late, allowed))
        on_time += max(late) < allowed
        if on_time == ON_TIME:
            return
    raise AssertionError(f"timers were later than allowed: {measured}")


# -- workflows that wait -------------------------------------------------------------------------------------------


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


@workflow(name="timers.signalled")
async def signalled() -> None:
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


SERVED = (nap, retrying, queued_retrying, impatient, signalled, renewed, at_once, busy, paying)


@asynccontextmanager
async def engine(place: Place, *, policy: Policy | str | None = None, **options: Any) -> Any:
    """An engine whose roles have nothing to do and sleep."""
    worker = WorkerOptions(retention_days=None, evidence=False, **options)
    async with Holdfast(place.open(), workflows=SERVED, options=worker, policy=policy) as app:
        await asyncio.sleep(0.1)  # afterwards each role has looked for work once
        yield app


# -- each way in which an earlier timer can arise ------------------------------------------------------------------


async def _alone(place: Place, workflow: Any, *args: object) -> None:
    async with engine(place) as app:

        async def once(number: int) -> list[float]:
            run = await app.start(workflow, *args, id=f"run {number}")
            await run.result(60)
            return await lateness(run)

        await punctual(app, once)


@pytest.mark.parametrize("seconds", [0.3, 1.3, 2.2])
@together
async def test_a_timer_of_a_new_run_fires_on_time(place: Place, seconds: float) -> None:
    """The run is released with its first turn, and only its worker knows of the timer."""
    await _alone(place, nap, seconds)


@together
async def test_a_retry_begins_on_time(place: Place) -> None:
    """The step fails while its run is held, and the run is released until the retry is due."""
    await _alone(place, retrying)


@together
async def test_a_queued_retry_begins_on_time(place: Place) -> None:
    """The queue keeps the time of the next attempt, and the part that serves the queue is notified."""
    await _alone(place, queued_retrying)


@together
async def test_a_timeout_around_a_wait_fires_on_time(place: Place) -> None:
    """A timeout is a timer."""
    await _alone(place, impatient)


@together
async def test_an_earlier_timer_fires_while_the_claimer_sleeps_for_a_later_one(place: Place) -> None:
    """The claimer sleeps for the first run's timer; the second run's timer is earlier."""
    async with engine(place) as app:

        async def once(number: int) -> list[float]:
            await app.start(nap, 4.0, id=f"far {number}")
            await asyncio.sleep(0.1)
            near = await app.start(nap, 1.3, id=f"near {number}")
            await near.result(60)
            return await lateness(near)

        await punctual(app, once)


@together
async def test_a_timer_that_follows_a_signal_fires_on_time(place: Place) -> None:
    """The run was claimed because of its message, and is released with a new timer."""
    async with engine(place) as app:

        async def once(number: int) -> list[float]:
            run = await app.start(signalled, id=f"run {number}")
            await until_status(run, "waiting")
            await run.signal("word", "go")
            await run.result(60)
            return await lateness(run)

        await punctual(app, once)


async def _ended(app: Holdfast, id: str) -> bool:
    return [run.status async for run in app.list() if run.id == id] == ["completed"]


@together
async def test_a_timer_of_the_next_generation_fires_on_time_and_its_detached_run_begins_at_once(place: Place) -> None:
    """The turn that ends a generation announces the runs that it started, like any other turn."""
    async with engine(place) as app:
        begun = time.time()
        run = await app.start(renewed, True, id="renewed")
        await eventually(lambda: _ended(app, "detached"), "the detached run")
        took = delays.since(begun)
        assert took < SOON_SECONDS + await a_moment(app), "the detached run waited for the next poll of the store"
        await run.result(60)
        assert max(await lateness(run)) < LATEST_SECONDS + await a_moment(app)
        begun = time.time()
        await (await app.start(at_once, True)).result(60)
        took = delays.since(begun)
        assert took < SOON_SECONDS + await a_moment(app), "a run that continues as new at once waited for the next poll"


@together
async def test_a_task_expires_on_time(place: Place) -> None:
    """The run sleeps until its task is answered or expires."""
    async with engine(place, policy=asking(expires_in="2s")) as app:

        async def once(number: int) -> list[float]:
            run = await app.start(paying, id=f"run {number}")
            assert await run.result(60) == "expired"
            (task,) = [each async for each in app.tasks.list(status=None) if each.run == f"run {number}"]
            ended = (await run.info()).ended_at
            assert ended is not None
            assert task.expires_at is not None
            return [blameless(task.expires_at, ended)]

        await punctual(app, once)


@together
async def test_a_paused_run_that_is_resumed_keeps_its_time(place: Place) -> None:
    """It is claimed, must still wait, and is released."""
    async with engine(place) as app:

        async def once(number: int) -> list[float]:
            run = await app.start(nap, 1.8, id=f"run {number}")
            await run.pause()
            await run.resume()
            await run.result(60)
            return await lateness(run)

        await punctual(app, once)


# -- other workers -------------------------------------------------------------------------------------------------


@together
async def test_another_worker_fires_the_timer_of_one_that_is_full(place: Place) -> None:
    """It slept when the run was released by a worker that is full now."""
    async with engine(place, capacity=1) as full, engine(place) as app:

        async def once(number: int) -> list[float]:
            run = await full.start(nap, 1.8, id=f"run {number}")
            occupied = await full.start(busy, 2.6, id=f"busy {number}")
            await run.result(60)
            late = await lateness(run)
            await occupied.result(60)
            return late

        await punctual(app, once)


@together
async def test_another_worker_fires_the_timer_of_one_that_has_stopped(place: Place) -> None:
    """The timers of the stopped worker are in the store."""
    async with engine(place) as app:

        async def once(number: int) -> list[float]:
            async with engine(place) as first:
                await first.start(nap, 1.8, id=f"run {number}")
            run = app.run(f"run {number}")
            await run.result(60)
            return await lateness(run)

        await punctual(app, once)


# -- caps ----------------------------------------------------------------------------------------------------------


class Shifted:
    """The machine's clock, moved by some seconds."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> int:
        return time.time_ns() // 1000 + round(self.seconds * 1e6)


@together
async def test_a_rate_lets_the_next_run_begin_on_time(place: Place) -> None:
    """One run a minute: the second begins when the first is a minute old."""
    clock = Shifted()
    capped = policy_of({}, caps={"default": {"max_runs_per_min": 1}})
    options = WorkerOptions(retention_days=None, evidence=False)
    clock.seconds = -58.5
    async with Holdfast(place.open(), workflows=SERVED, options=options, policy=capped, clock=clock) as app:
        first = await app.start(nap, 0.0, id="first")
        await first.result(60)
        begun = (await row_of(app.store, first.key)).begun_at
        clock.seconds = 0.0
        second = await app.start(nap, 0.0, id="second")
        await second.result(60)
        row = await row_of(app.store, second.key)
        assert begun is not None
        assert row.begun_at is not None
        late = (row.begun_at - begun) / 1e6 - 60
        assert late >= 0, "it began before the minute was over"
        late -= delays.within(row.begun_at / 1e6 - late, row.begun_at / 1e6)
        assert late < 2 * SOON_SECONDS, "it did not begin when the minute was over"


@together
async def test_a_changed_policy_lets_runs_begin_at_once(place: Place) -> None:
    """A run that waits because of the old caps begins without waiting for the next poll of the store."""
    file = place.folder / "policy.yaml"
    file.write_text("version: 1\nrules: []\ncaps:\n  default:\n    max_concurrency: 1\n")

    async with engine(place, policy=str(file)) as app:
        await app.start(busy, 12.0, id="first")
        await asyncio.sleep(0.2)
        second = await app.start(nap, 0.0, id="second")
        changed = time.time()
        file.write_text("version: 1\nrules: []\ncaps:\n  default:\n    max_concurrency: 2\n")
        await second.result(60)
        row = await row_of(app.store, second.key)
        assert row.begun_at is not None
        begun = row.begun_at / 1e6
        assert begun - changed - delays.within(changed, begun) < 3.5, "the file is checked every two seconds"


# -- a clock that was wrong ----------------------------------------------------------------------------------------


@together
async def test_a_timer_set_after_the_clock_was_put_right_takes_its_duration(place: Place) -> None:
    """The worker's clock was an hour ahead when the run began; the recorded times do not delay a new timer."""
    clock = Shifted()
    clock.seconds = 3600.0
    options = WorkerOptions(retention_days=None, evidence=False)
    async with Holdfast(place.open(), workflows=SERVED, options=options, clock=clock) as app:
        run = await app.start(signalled, id="run")
        await until_status(run, "waiting")
        clock.seconds = 0.0
        await run.signal("word", "go")
        await run.result(60)
