"""Queued steps run on workers that serve their queue, without delay, and priorities are honoured."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import (
    Holdfast,
    WorkerOptions,
    step,
    step_info,
    workflow,
)
from holdfast.store.sqlite import store
from holdfast.testing.postgres import PostgresServer
from holdfast.worker.roles import claimer
from holdfast.worker.steps import taker
from tests.acceptance.authored import began, calls, hold, let_go, noting
from tests.acceptance.processes import until_status


@step(name="engine.render", queue="video", concurrency=2)
async def render(number: int) -> str:
    calls.append(f"render {number}")
    return step_info().step


@workflow(name="engine.film")
async def film(number: int) -> str:
    return await render(number)


def _serving(url: str, queues: dict[str, int]) -> Holdfast:
    return Holdfast(url, workflows=[film], options=WorkerOptions(queues=queues))


def test_a_queued_step_runs_only_where_its_queue_is_served(url: str) -> None:
    """A worker without the queue does not run it, ``explain`` reports it, and a worker with the queue runs it."""

    async def main() -> None:
        async with _serving(url, {}) as without:
            run = await without.start(film, 1, id="f")
            await until_status(run, "waiting")
            assert "on queue 'video', which no running worker serves: start one that does" in await run.explain()
            assert calls == []
            async with _serving(url, {"video": 1}):
                assert await run.result(60) == "engine.render"
        assert calls == ["render 1"]

    asyncio.run(main())


@pytest.fixture
def never_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker looks for lost hints, or at the file, which each heartbeat changes: what nobody announces waits."""
    for role in (claimer, taker):
        monkeypatch.setattr(role, "LOOK_SECONDS", 3600.0)
    monkeypatch.setattr(store, "WATCH_SECONDS", 3600.0)


async def _at_once(app: Holdfast) -> None:
    for number in range(5):
        assert await (await app.start(film, number)).result(60) == "engine.render"


def test_a_queued_step_begins_at_once_where_its_own_worker_serves_the_queue(never_looking: None, url: str) -> None:
    """Within a process nothing polls: new work wakes the part that serves the queue."""

    async def main() -> None:
        async with _serving(url, {"video": 2}) as app:
            await _at_once(app)

    asyncio.run(main())


def test_a_queued_step_begins_at_once_on_postgresql(never_looking: None, postgres: PostgresServer) -> None:
    """The same on a store that announces changes only to other processes."""

    async def main() -> None:
        async with _serving(postgres.schema_url(), {"video": 2}) as app:
            await _at_once(app)

    asyncio.run(main())


@workflow(name="engine.holding")
async def holding() -> None:
    await hold()


def test_higher_priorities_go_first_and_equal_ones_in_their_order(url: str) -> None:
    """With capacity for one run at a time, runs are ordered by priority, then by age."""

    async def main() -> None:
        options = WorkerOptions(capacity=1)
        async with Holdfast(url, workflows=[holding, noting], options=options) as app:
            first = await app.start(holding)
            await asyncio.to_thread(began.wait, 60)
            runs = [
                await app.start(noting, word, priority=priority)
                for word, priority in [("low", -1), ("one", 5), ("two", 5), ("high", 9), ("usual", 0)]
            ]
            let_go.set()
            await first.result(60)
            for run in runs:
                await run.result(60)
        assert calls == ["high", "one", "two", "usual", "low"]

    asyncio.run(main())
