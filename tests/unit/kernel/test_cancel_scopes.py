"""Libraries with cancel scopes: anyio works in a body, and throwing the body away prints no warning."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import anyio
import pytest

from holdfast import Holdfast
from holdfast.programs.function.calls import receive
from holdfast.programs.function.decorators import step, workflow
from tests.runs import Run, signal
from tests.scope import one_stays


@step(name="scopes.slow")
async def slow(name: str) -> str:
    return name


async def moved_on() -> str:
    with anyio.move_on_after(5) as scope:
        await receive("never")
    return f"moved on: {scope.cancelled_caught}"


async def cancelled_scope() -> str:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await receive("never")
    return "cancelled"


async def grouped() -> str:
    got: list[str] = []

    async def take(name: str) -> None:
        got.append(await receive(name, str))

    async with anyio.create_task_group() as group:
        group.start_soon(take, "a")
        group.start_soon(take, "b")
    return "".join(sorted(got))


async def group_called_off() -> str:
    async def wait() -> None:
        await receive("never")

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await receive("stop")
        group.cancel_scope.cancel()
    return "called off"


async def failed_after() -> str:
    try:
        with anyio.fail_after(3):
            await slow("x")
    except TimeoutError:
        return "too late"
    return "in time"


async def shielded() -> str:
    with anyio.CancelScope(shield=True):
        await receive("stop")
    return "over"


async def nested() -> str:
    async def inner() -> None:
        with anyio.move_on_after(100):
            await receive("never")

    with anyio.move_on_after(50):
        async with anyio.create_task_group() as group:
            group.start_soon(inner)
            group.start_soon(inner)
            await receive("stop")
            group.cancel_scope.cancel()
    return "nested"


BODIES: list[tuple[Callable[[], Awaitable[str]], tuple[str, ...], str]] = [
    (moved_on, (), "moved on: True"),
    (cancelled_scope, (), "cancelled"),
    (grouped, ("a", "b"), "ab"),
    (group_called_off, ("stop",), "called off"),
    (failed_after, (), "too late"),
    (shielded, ("stop",), "over"),
    (nested, ("stop",), "nested"),
]
IDS = [body.__name__ for body, _, _ in BODIES]


def _workflow(body: Callable[[], Awaitable[str]]) -> Any:
    return workflow(name=f"scopes.{body.__name__}")(body)  # type: ignore[arg-type]


WORKFLOWS = {body: _workflow(body) for body, _, _ in BODIES}


@pytest.mark.parametrize(("body", "signals", "result"), BODIES, ids=IDS)
def test_scopes_work_in_a_body_and_replay(
    body: Callable[[], Awaitable[str]], signals: tuple[str, ...], result: str
) -> None:
    run = Run(WORKFLOWS[body])
    run.advance()
    for name in signals:
        run.advance(signal(name, name))
        run = run.rebuilt()
    if not run.ended:
        run.advance(after=5)
    assert run.result() == result
    assert run.rebuilt().ended


@pytest.fixture
def complaints(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[list[str]]:
    """Nothing is printed, and Python reports no exception that it had to ignore."""
    ignored: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: ignored.append(f"{error.err_msg} {error.exc_value!r}"))
    yield ignored
    gc.collect()
    out, err = capsys.readouterr()
    assert (ignored, out, err) == ([], "", "")


@pytest.mark.parametrize("body", one_stays(body for body, _, _ in BODIES if body is not cancelled_scope))
def test_a_body_is_thrown_away_in_silence(
    body: Callable[[], Awaitable[str]], complaints: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """In any scopes, when its lease is given up."""
    run = Run(WORKFLOWS[body])
    run.advance()
    assert not run.ended
    run.execution.program.close()
    del run
    gc.collect()
    assert complaints == []
    assert caplog.records == []


@pytest.mark.parametrize("body", one_stays(body for body, *_ in BODIES if body not in (cancelled_scope, failed_after)))
def test_an_engine_that_lets_go_of_a_run_is_silent(
    body: Callable[[], Awaitable[str]], complaints: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The library's own event loop runs at the same time, and must not be taken for the run's."""

    async def main() -> None:
        asyncio.get_running_loop().slow_callback_duration = 60  # how fast the machine is does not matter here
        async with Holdfast("memory://", workflows=[WORKFLOWS[body]]) as app:
            run = await app.start(WORKFLOWS[body], id="one")
            while await run.status() != "waiting":
                await app.changed(0.05)
        gc.collect()

    asyncio.run(main(), debug=True)
    assert complaints == []
    assert [record.getMessage() for record in caplog.records if record.levelname != "DEBUG"] == []
