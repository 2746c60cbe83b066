"""``explain`` says since when and until when, and does not count workers that are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import Holdfast, RetryPolicy, receive, step, workflow
from holdfast.client.runs.explanation import explain
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from tests.acceptance.processes import until_status
from tests.unit.worker.ground import Ground, kill

MINUTE = 60_000_000
HOUR = 60 * MINUTE


@workflow(name="explaining.sleeper")
async def sleeper() -> None:
    await asyncio.sleep(48 * 3600)


@step(name="explaining.flaky", retry=RetryPolicy(max_attempts=2, initial=3600.0, maximum=3600.0, jitter=0.0))
async def flaky() -> None:
    raise OSError("no")


@workflow(name="explaining.trying")
async def trying() -> None:
    await flaky()


@workflow(name="explaining.listener")
async def listener() -> None:
    await receive("never")


async def waiting(workflow: Any) -> tuple[MemoryStore, p.Run]:
    """A run that waits, and no worker any more."""
    store = MemoryStore()
    async with Holdfast(store) as app:
        run = await app.start(workflow, id="r-1")
        await until_status(run, "waiting")
    await store.open()
    (row,) = await store.get([p.Key("default", "r-1")])
    return store, row


def explained(workflow: Any, later: int) -> str:
    """The explanation of a waiting run so many microseconds later, without a worker."""

    async def main() -> str:
        store, row = await waiting(workflow)
        return (await explain(store, row, row.updated_at + later)).text

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("workflow", "later", "parts"),
    [
        (sleeper, MINUTE, ["For 60.0 seconds it has been waiting for a timer that fires at 20", " UTC (in 48 hours)."]),
        (trying, MINUTE, ["the next attempt of step explaining.flaky, due at 20", " UTC (in 59 minutes)."]),
    ],
)
def test_a_future_time_comes_with_how_far_off_it_is(workflow: Any, later: int, parts: list[str]) -> None:
    """Nobody subtracts times in their head."""
    sentence = explained(workflow, later)
    assert all(part in sentence for part in parts), sentence
    assert "No worker is running" not in sentence


@pytest.mark.parametrize(
    ("workflow", "later", "part"),
    [
        (sleeper, 50 * HOUR, " a timer that was due at 20"),
        (trying, 3 * HOUR, "the next attempt of step explaining.flaky, which was due at 20"),
    ],
)
def test_a_time_that_has_passed_is_no_reason_to_wait(workflow: Any, later: int, part: str) -> None:
    """It is late because no worker is there: that is the remedy."""
    sentence = explained(workflow, later)
    assert part in sentence
    assert " UTC (2 hours ago)." in sentence
    assert sentence.endswith("No worker is running: start one with `holdfast worker APP`.")


def test_a_time_of_a_clock_that_is_ahead_is_called_so() -> None:
    """The run has not been waiting for no time at all."""
    sentence = explained(sleeper, -HOUR)
    assert sentence.startswith("Since 20")
    assert ", by a clock that is 60 minutes ahead of this one, it has been waiting for a timer" in sentence


def test_a_signal_needs_no_worker_to_wait_for() -> None:
    """It is the sender who is late."""
    assert explained(listener, HOUR).startswith("For 60 minutes it has been waiting for signal 'never' (")
    assert "worker" not in explained(listener, HOUR)


def with_store(check: Callable[[MemoryStore, p.Run, p.WorkerRow], Awaitable[None]]) -> None:
    async def main() -> None:
        store, row = await waiting(sleeper)
        worker = p.WorkerRow("w-1", "host-1", 77, ("explaining.sleeper",), (), 0, 0)
        await store.register(worker, 15.0)
        (known,) = await store.workers()
        await check(store, row, known)

    asyncio.run(main())


def test_a_worker_that_is_silent_does_not_work_on_a_run() -> None:
    """Its lease has ended, and the sentence says how long ago."""

    async def check(store: MemoryStore, row: p.Run, worker: p.WorkerRow) -> None:
        held = replace(row, owner="w-1")
        alive = (await explain(store, held, row.updated_at + 1_000_000)).text
        assert alive == "It is being worked on by worker w-1 (process 77 on host-1), and last moved 1.0 seconds ago."
        gone = (await explain(store, held, worker.expires_at + 5 * MINUTE)).text
        assert "worker w-1 (process 77 on host-1) is silent, its lease ended 5 minutes ago." in gone

    with_store(check)


def test_a_worker_that_is_silent_serves_nobody() -> None:
    """A run that is ready waits for one that runs."""

    async def check(store: MemoryStore, row: p.Run, worker: p.WorkerRow) -> None:
        ready = replace(row, ready_at=row.updated_at)
        assert "waits for a worker that is free" in (await explain(store, ready, row.updated_at)).text
        assert "no worker is running" in (await explain(store, ready, worker.expires_at + MINUTE)).text

    with_store(check)


def test_a_pause_comes_with_its_length() -> None:
    """In words that can be read aloud."""

    async def check(store: MemoryStore, row: p.Run, worker: p.WorkerRow) -> None:
        sentence = (
            await explain(store, replace(row, pause="paused by request: lunch"), row.updated_at + 5 * MINUTE)
        ).text
        assert sentence.startswith("It has been paused for 5 minutes: paused by request: lunch. `holdfast resume r-1` ")

    with_store(check)


@step(name="explaining.far", queue="explaining-far")
async def far() -> None:
    await asyncio.Event().wait()


@workflow(name="explaining.reaching")
async def reaching() -> None:
    await far()


def test_a_worker_that_is_silent_runs_no_step_and_serves_no_queue() -> None:
    """Another one takes the step over, and where none serves the queue, one is to be started."""

    async def main(ground: Ground) -> None:
        async with ground.engine(worker=False) as reader, ground.engine(reaching) as app:
            run = reader.run((await app.start(reaching, id="one")).id)
            while ", which worker " not in await run.explain():
                await app.changed(0.1)
            kill(app)
            await asyncio.sleep(60)
            assert "queue 'explaining-far', which no running worker serves: start one that does" in await run.explain()
            (row,) = await ground.store.get([p.Key("default", "one")])
            silent, now = await ground.store.workers(), ground.clock.now()
            await ground.store.register(p.WorkerRow("w-2", "host-1", 77, (), ("explaining-far",), now, 0), 15.0)
            said = (await explain(ground.store, row, now)).text
            assert f"which another worker takes over: worker {silent[0].id}, which ran it, is silent" in said

    Ground(None).play(main)
