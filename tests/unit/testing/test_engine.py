"""The engine for users' tests: real workflows, virtual time."""

from __future__ import annotations

import asyncio
import datetime
import time

import pytest

from holdfast import Holdfast, RunHandle, heartbeat, now, receive, step, step_info, workflow
from holdfast.errors import InvalidRequest, RunFailed
from holdfast.programs.function.decorators import Workflow
from holdfast.testing import run_virtually, virtual_engine

DAY = 86400


@step
def length(text: str) -> int:
    heartbeat(len(text))
    return len(text)


@step
def refuse() -> None:
    raise ValueError("no")


@step(retries=20)
async def stubborn() -> int:
    if step_info().attempt < 15:
        raise ValueError("not yet")
    return step_info().attempt


@step(queue="quiet", retries=3)
async def queued() -> int:
    if step_info().attempt < 3:
        raise ValueError("not yet")
    return step_info().attempt


@workflow
async def year(text: str) -> tuple[int, int]:
    began = now()
    await asyncio.sleep(365 * DAY)
    return (now() - began).days, await length(text)


@workflow
async def asking() -> str:
    try:
        async with asyncio.timeout(30 * DAY):
            return await receive("answer", str)
    except TimeoutError:
        return "nobody answered"


@workflow
async def trying() -> int:
    return await stubborn()


@workflow
async def trying_elsewhere() -> int:
    return await queued()


@workflow
async def refusing() -> None:
    await refuse()


@workflow
async def at_once() -> float:
    return now().timestamp()


def test_a_year_of_sleep_passes_in_seconds() -> None:
    """The clock jumps to the next timer; a plain function runs on the spot."""

    async def main() -> tuple[int, int]:
        async with virtual_engine() as app:
            run = await app.start(year, "abc")
            return await run.result()

    began = time.perf_counter()
    assert run_virtually(main()) == (365, 3)
    assert time.perf_counter() - began < 60


def test_a_timeout_and_a_signal_in_time_are_told_apart() -> None:
    """Virtual time passes for the test itself too: it can answer on the 29th day, or not at all."""

    async def main() -> list[str]:
        async with virtual_engine() as app:
            answered, silent = await app.start(asking), await app.start(asking)
            await asyncio.sleep(29 * DAY)
            await answered.signal("answer", "here")
            return [await answered.result(), await silent.result()]

    assert run_virtually(main()) == ["here", "nobody answered"]


def test_timers_fire_at_their_time() -> None:
    """A hint comes when a timer is due: no run is woken late."""

    async def main() -> float:
        async with virtual_engine() as app:
            loop = asyncio.get_running_loop()
            began = loop.time()
            await (await app.start(asking)).result()
            return loop.time() - began

    assert run_virtually(main()) == pytest.approx(30 * DAY, abs=0.01)


def test_retries_wait_in_virtual_time_here_and_on_queues() -> None:
    """Backoff costs nothing."""

    async def main() -> tuple[int, int]:
        async with virtual_engine() as app:
            here, elsewhere = await app.start(trying), await app.start(trying_elsewhere)
            return await here.result(), await elsewhere.result()

    assert run_virtually(main()) == (15, 3)


def test_the_error_of_a_plain_function_fails_the_run() -> None:
    """It is carried over from where it was raised, as from a thread."""

    async def main() -> None:
        async with virtual_engine() as app:
            await (await app.start(refusing)).result()

    with pytest.raises(RunFailed, match="ValueError: no"):
        run_virtually(main())


def test_the_same_seed_gives_the_same_ids() -> None:
    """A test that fails once fails again."""

    async def main(seed: int) -> tuple[str, float]:
        async with virtual_engine(seed=seed) as app:
            run: RunHandle[float] = await app.start(at_once)
            return run.id, await run.result()

    assert run_virtually(main(7)) == run_virtually(main(7))
    assert run_virtually(main(7))[0] != run_virtually(main(8))[0]


def test_only_the_given_workflows_are_served() -> None:
    """``workflows`` narrows the engine, as it does for ``Holdfast``."""

    async def main() -> str:
        async with virtual_engine(workflows=[asking]) as app:
            run = await app.start(at_once)
            await asyncio.sleep(DAY)
            return await run.status()

    assert run_virtually(main()) == "queued"


def test_real_time_is_refused() -> None:
    """On a real loop days of sleeping would be days."""

    async def main() -> Holdfast:
        async with virtual_engine() as app:
            return app

    with pytest.raises(InvalidRequest, match="run_virtually"):
        asyncio.run(main())


def test_virtual_time_begins_at_a_fixed_moment() -> None:
    """``now()`` does not depend on the day on which a test runs."""

    async def main() -> float:
        async with virtual_engine() as app:
            return await (await app.start(at_once)).result()

    moment = datetime.datetime.fromtimestamp(run_virtually(main()), datetime.UTC)
    assert (moment.year, moment.month, moment.day) == (2023, 11, 14)


@pytest.mark.parametrize("asked", [False, True])
def test_a_schedule_that_a_module_declares_runs_only_if_a_test_asks_for_it(asked: bool) -> None:
    """Else every test that lets a day pass has its runs, too. One that the test makes runs in any case."""

    async def nightly() -> str:
        return "tidy"

    declared: Workflow[[], str] = Workflow(nightly, name="engine.nightly", schedule="0 3 * * *")

    async def main() -> list[str]:
        async with virtual_engine(workflows=[declared], declared_schedules=asked) as app:
            await app.schedules.create("mine", "engine.nightly", every=DAY / 2)
            await asyncio.sleep(86_400)
            return [run.id async for run in app.list()]

    ids = run_virtually(main())
    assert [id for id in ids if id.startswith("mine@")]
    assert len([id for id in ids if "engine.nightly" in id]) == (1 if asked else 0)
