"""Whatever a step raises fails its attempt and leaves the worker alone."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from holdfast import (
    Cost,
    Holdfast,
    RetryPolicy,
    StepFailed,
    WorkerOptions,
    action,
    heartbeat,
    step,
    step_info,
    workflow,
)
from holdfast.store.memory import MemoryStore
from holdfast.worker.steps.containment import is_interrupt
from tests.unit.worker.ground import FREE, Ground, receipts

SOON = RetryPolicy(max_attempts=3, initial=0.01, jitter=0)


class OwnError(BaseException):
    """No Exception, and none of Python's own."""


class Mute(Exception):
    """Cannot even say what it is."""

    def __str__(self) -> str:
        raise SystemExit(9)


def _exit() -> None:
    sys.exit(3)


def _raising(error: type[BaseException]) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


WAYS: dict[str, Callable[[], None]] = {
    "exit": _exit,
    "interrupt": _raising(KeyboardInterrupt),
    "generator": _raising(GeneratorExit),
    "cancelled": _raising(asyncio.CancelledError),
    "own": _raising(OwnError),
    "stop": _raising(StopIteration),
    "stop async": _raising(StopAsyncIteration),
    "mute": _raising(Mute),
}
TRIED: list[int] = []


@pytest.fixture(autouse=True)
def nothing_tried() -> None:
    TRIED.clear()


def _fail_twice(way: str) -> str:
    TRIED.append(step_info().attempt)
    if step_info().attempt < 3:
        WAYS[way]()
    return f"{way} {step_info().attempt}"


@step(name="contained.async", retry=SOON)
async def in_loop(way: str) -> str:
    return _fail_twice(way)


@step(name="contained.thread", retry=SOON)
def in_thread(way: str) -> str:
    return _fail_twice(way)


@step(name="contained.timed", retry=SOON, timeout=60)
async def timed(way: str) -> str:
    return _fail_twice(way)


@step(name="contained.heard", retry=SOON, heartbeat_timeout=60)
async def heard(way: str) -> str:
    heartbeat()
    return _fail_twice(way)


@step(name="contained.heard_thread", retry=SOON, heartbeat_timeout=60)
def heard_thread(way: str) -> str:
    heartbeat()
    return _fail_twice(way)


@step(name="contained.queued", retry=SOON, queue="contained")
async def queued(way: str) -> str:
    return _fail_twice(way)


@step(name="contained.gathered", retry=SOON)
async def gathered(way: str) -> str:
    async def part() -> str:
        await asyncio.sleep(0)
        return _fail_twice(way)

    return (await asyncio.gather(part()))[0]


KINDS = {each.name: each for each in (in_loop, in_thread, timed, heard, heard_thread, queued, gathered)}


@workflow(name="contained.run")
async def run_it(kind: str, way: str) -> str:
    return await KINDS[kind](way)


@step(name="contained.always")
async def always(way: str) -> None:
    WAYS[way]()


@workflow(name="contained.careful")
async def careful(way: str) -> str:
    try:
        await always(way)
    except StepFailed as error:
        return str(error.failure.type)  # type: ignore[attr-defined]
    return "nothing"


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("kind", list(KINDS))
def test_whatever_a_step_raises_fails_its_attempt(kind: str, way: str) -> None:
    """The retry policy holds as for any exception, and the worker goes on: it does the other run."""

    async def main() -> None:
        options = WorkerOptions(retention_days=None)
        async with Holdfast(MemoryStore(), workflows=[run_it, careful], options=options) as app:
            run = await app.start(run_it, kind, way)
            assert await run.result(60) == f"{way} 3"
            assert app.worker is not None
            assert app.worker.running
            assert (await (await app.start(careful, "exit")).result(60)) == "builtins:SystemExit"

    asyncio.run(main())
    assert TRIED == [1, 2, 3]


@step(name="contained.hasty")
async def hasty() -> str:
    async def part() -> None:
        raise AssertionError("it is cancelled before it begins")

    task = asyncio.create_task(part())
    task.cancel()
    await asyncio.wait([task])
    return "cancelled" if task.cancelled() else "not"


@workflow(name="contained.hurry")
async def hurry() -> str:
    return await hasty()


def test_a_contained_task_is_a_task_like_any_other() -> None:
    """Cancelled before it begins, it closes its coroutine without a warning."""

    async def main() -> None:
        async with Holdfast(MemoryStore(), workflows=[hurry]) as app, Holdfast(MemoryStore(), workflows=[hurry]):
            assert await (await app.start(hurry)).result(60) == "cancelled"

    asyncio.run(main())


# -- actions -------------------------------------------------------------------------------------------------------


def _cost(result: str) -> Cost:
    WAYS[result]()
    return Cost("provider", 1.0)


@action(connector="contained", operation="write", name="contained.act", safe_to_retry=True, retry=SOON, cost=_cost)
async def act(way: str) -> str:
    TRIED.append(step_info().attempt)
    if step_info().attempt < 3:
        WAYS[way]()
    return way


@action(connector="contained", operation="write", name="contained.sync_act", safe_to_retry=True, retry=SOON)
def sync_act(way: str) -> str:
    TRIED.append(step_info().attempt)
    if step_info().attempt < 3:
        WAYS[way]()
    return way


@workflow(name="contained.acting")
async def acting(way: str) -> str:
    return await act(way)


@workflow(name="contained.sync_acting")
async def sync_acting(way: str) -> str:
    return await sync_act(way)


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("flow", [acting, sync_acting])
def test_whatever_an_action_or_its_cost_raises_ends_there(flow: Any, way: str) -> None:
    """The act is tried again, its receipt is closed, and the cost says that it is not known."""

    async def main(ground: Ground) -> None:
        async with ground.engine(acting, sync_acting, policy=FREE) as app:
            run = await app.start(flow, way, id="one")
            assert await run.result(30) == way
            (row,) = await receipts(app)
            assert row.state == "succeeded"
            if flow is acting:
                assert "cost= failed" in str(row.cost)

    Ground(None).play(main)
    assert TRIED[-1] == 3


def test_an_interrupt_that_a_step_raises_is_none() -> None:
    """Neither under asyncio's handler nor under Python's own."""

    async def main() -> None:
        with pytest.raises(KeyboardInterrupt) as raised:
            raise KeyboardInterrupt
        assert not is_interrupt(raised.value)

    asyncio.run(main())
    with pytest.raises(KeyboardInterrupt) as raised:
        raise KeyboardInterrupt("by hand")
    assert not is_interrupt(raised.value)
    assert not is_interrupt(SystemExit())


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Python's own handler: a session in the background of a shell ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_a_real_interrupt_is_one() -> None:
    """Ctrl-C at Python's own handler; at asyncio's the second one, because the first cancels the main task."""
    with pytest.raises(KeyboardInterrupt) as raised:
        signal.raise_signal(signal.SIGINT)
    assert is_interrupt(raised.value)

    async def main() -> None:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt) as raised:
            signal.raise_signal(signal.SIGINT)
        assert is_interrupt(raised.value)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(0)

    with suppress(KeyboardInterrupt):
        asyncio.run(main())
