"""Attempts of steps: heartbeats, timeouts, threads, cancellation, and undo."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast import (
    Holdfast,
    RetryPolicy,
    RunCancelled,
    RunFailed,
    heartbeat,
    step,
    step_info,
    workflow,
)
from tests.acceptance.authored import began, broken, calls, let_go, note, ship
from tests.acceptance.processes import eventually

QUICK = RetryPolicy(max_attempts=3, initial=0.01, maximum=0.01)


@step(name="engine.silent", heartbeat_timeout=0.15, retry=QUICK)
async def silent() -> str:
    info = step_info()
    for beat in range(3):
        heartbeat({"beat": beat})
        await asyncio.sleep(0.06)
    if info.attempt == 1:
        calls.append("silent")
        await asyncio.Event().wait()
    return f"attempt {info.attempt}"


@step(name="engine.slow", timeout=0.1, retry=QUICK)
async def slow() -> str:
    calls.append(f"slow {step_info().attempt}")
    if step_info().attempt < 3:
        await asyncio.Event().wait()
    return f"attempt {step_info().attempt}"


@step(name="engine.slow_thread", timeout=0.1)
def slow_thread() -> None:
    began.set()
    try:
        while not let_go.wait(0.01):
            heartbeat()
    except asyncio.CancelledError:
        calls.append("cancelled")
        raise


@step(name="engine.threaded")
def threaded(number: int) -> str:
    return f"{number} {threading.current_thread().name.startswith('holdfast-step')} {step_info().attempt}"


@workflow(name="engine.many")
async def many() -> list[str]:
    return [await silent(), await slow(), *await asyncio.gather(*(threaded(number) for number in range(5)))]


@workflow(name="engine.overrun")
async def overrun() -> str:
    try:
        await slow_thread()
    except TimeoutError as error:
        return str(error)
    return "in time"


def test_attempts_without_heartbeats_or_over_their_time_end_and_are_tried_again(url: str) -> None:
    """An attempt needs heartbeats to stay alive; a timeout limits each attempt; a ``def`` runs in a thread."""

    async def main() -> None:
        async with Holdfast(url, workflows=[many, overrun]) as app:
            run = await app.start(many)
            threads = [f"{number} True 1" for number in range(5)]
            assert await run.result(60) == ["attempt 2", "attempt 3", *threads]
            retries = [entry.fields async for entry in run.journal() if entry.event == "InvokeRetrying"]
            assert [fields["error"]["message"] for fields in retries] == [
                "no heartbeat for 0.15 s",
                "the attempt took longer than 0.1 s",
                "the attempt took longer than 0.1 s",
            ]
            assert "took longer than 0.1 s" in await (await app.start(overrun)).result(60)

            async def is_cancelled() -> bool:
                return "cancelled" in calls

            await eventually(is_cancelled, "the thread's heartbeat to raise")

    asyncio.run(main())


@step(name="engine.endless")
async def endless() -> None:
    began.set()
    try:
        await asyncio.Event().wait()
    finally:
        calls.append("stopped")


@step(name="engine.refund")
async def refund(paid: str, amount: int) -> None:
    calls.append(f"refund {paid} {amount}")


@step(name="engine.pay", undo=refund)
async def pay(amount: int) -> str:
    calls.append(f"pay {amount}")
    return f"p-{amount}"


@workflow(name="engine.endlessly")
async def endlessly() -> None:
    await pay(3)
    await pay(4)
    await endless()


@workflow(name="engine.order")
async def order() -> str:
    paid = await pay(1)
    await note("packed")
    return f"{paid} {await ship()}"


def test_cancelling_stops_the_running_step_and_undoes_the_completed_ones(url: str) -> None:
    """The running step is cancelled, then undos run, the newest first, and the run ends as cancelled."""

    async def main() -> None:
        async with Holdfast(url, workflows=[endlessly]) as app:
            run = await app.start(endlessly)
            await asyncio.to_thread(began.wait, 60)
            await run.cancel("enough")
            with pytest.raises(RunCancelled, match="enough"):
                await run.result(60)
            assert (await run.verify()).good
        assert calls == ["pay 3", "pay 4", "stopped", "refund p-4 4", "refund p-3 3"]

    asyncio.run(main())


def test_a_failure_undoes_the_completed_steps(url: str) -> None:
    """The undo gets the step's result and arguments; the run fails with the error of the failed step."""

    async def main() -> None:
        broken.set()
        async with Holdfast(url, workflows=[order]) as app:
            with pytest.raises(RunFailed, match="the lorry broke down"):
                await (await app.start(order)).result(60)
        assert calls == ["pay 1", "packed", "refund p-1 1"]

    asyncio.run(main())
