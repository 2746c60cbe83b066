"""A run whose code cannot replay is parked with a reason, and continues with fixed code; nothing is done twice."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast import Holdfast, RunFailed, RunHandle, patched, receive, step, workflow
from holdfast.programs.function.decorators import Workflow
from holdfast.store.protocol import Key
from tests.acceptance.authored import calls, note
from tests.acceptance.processes import until_status


def engine(url: str, *workflows: Workflow[..., Any], worker: bool = True) -> Holdfast:
    return Holdfast(url, workflows=workflows, worker=worker)


async def _open_connection() -> None:
    await asyncio.open_connection("127.0.0.1", 9)


async def _sleep_for_real() -> None:
    time.sleep(0.01)  # noqa: ASYNC251 - the mistake under test


async def _connect() -> None:
    with socket.create_connection(("127.0.0.1", 9)):
        pass


async def _subprocess() -> None:
    subprocess.run(["true"], check=True)  # noqa: ASYNC221 - the mistake under test


async def _thread() -> None:
    await asyncio.to_thread(time.monotonic)


async def _asyncio_subprocess() -> None:
    await asyncio.create_subprocess_exec("true")


MISTAKES: list[Callable[[], Awaitable[None]]] = [
    _open_connection,
    _sleep_for_real,
    _connect,
    _subprocess,
    _thread,
    _asyncio_subprocess,
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__.lstrip("_"))
def test_real_io_in_a_body_parks_the_run_and_mended_code_finishes_it(
    url: str, mistake: Callable[[], Awaitable[None]]
) -> None:
    """The message says to use a step; with fixed code ``resume`` continues, and no completed step runs again."""

    def code(body: Callable[[], Awaitable[None]] | None) -> Workflow[..., Any]:
        @workflow(name="bad.blocking")
        async def blocking() -> str:
            before = await note("before")
            if body is not None:
                try:
                    await body()
                except Exception:  # an author's ``except`` must not hide the mistake
                    calls.append("hidden")
            return before + await note("after")

        return blocking

    async def main() -> None:
        async with engine(url, code(mistake)) as app:
            run: RunHandle[str] = await app.start("bad.blocking", id="b")
            await until_status(run, "paused")
            explanation = await run.explain()
            assert "blocked_loop" in explanation
            assert "move this into a @step" in explanation
            assert "holdfast resume b" in explanation
        async with engine(url, code(None)) as app:
            run = app.run("b")
            await run.resume()
            assert await run.result(60) == "beforeafter"
            assert (await run.verify()).good
        assert [word for word in calls if word != "hidden"] == ["before", "after"]

    asyncio.run(main())


def _versions(first: str, second: str, *, marked: bool = False) -> Workflow[..., Any]:
    @workflow(name="bad.changing")
    async def changing() -> str:
        one = await note(first)
        await receive("go")
        if marked and patched("louder"):
            return one + await note("LOUD")
        return one + await note(second)

    return changing


def test_changed_code_parks_with_a_readable_difference_and_the_old_code_finishes(url: str) -> None:
    """The run neither fails nor silently takes another path: the diff names both commands, nothing runs twice."""

    async def main() -> None:
        async with engine(url, _versions("a", "b")) as app:
            run: RunHandle[str] = await app.start("bad.changing", id="c")
            await until_status(run, "waiting")
        async with engine(url, _versions("changed", "b")) as app:
            run = app.run("c")
            await run.signal("go")
            await until_status(run, "paused")
            explanation = await run.explain()
            for text in ("- recorded: step engine.note('a')", "+ issued:   step engine.note('changed')", "patched()"):
                assert text in explanation
            await run.resume()
            await until_status(run, "paused")
        async with engine(url, _versions("a", "b")) as app:
            run = app.run("c")
            await run.resume()
            assert await run.result(60) == "ab"
            assert (await run.verify()).good
        assert calls == ["a", "b"]

    asyncio.run(main())


def test_a_marker_lets_new_runs_take_the_new_path_and_old_ones_keep_theirs(url: str) -> None:
    """``patched()`` is decided when a run first reaches it, and then stays the same."""

    async def main() -> None:
        async with engine(url, _versions("a", "b")) as app:
            old: RunHandle[str] = await app.start("bad.changing", id="old")
            past: RunHandle[str] = await app.start("bad.changing", id="past")
            await until_status(old, "waiting")
            await past.signal("go")
            assert await past.result(60) == "ab"
        async with engine(url, _versions("a", "b", marked=True)) as app:
            await app.run("old").signal("go")
            assert await app.run("old").result(60) == "aLOUD"  # it had not reached the marker yet
            new: RunHandle[str] = await app.start("bad.changing", id="new")
            await new.signal("go")
            assert await new.result(60) == "aLOUD"
            forked = await app.run("past").fork(await _sequence_after_signal(app), id="forked")
            assert await forked.result(60) == "ab"

    asyncio.run(main())


async def _sequence_after_signal(app: Holdfast) -> int:
    """After the second step of the old code: a replay reaches the marker, and must take the old path."""
    return (await app.store.get([Key("default", "past")]))[0].version


def test_a_step_without_code_fails_its_run_with_the_remedy_and_retry_continues_it(url: str) -> None:
    """A worker that has the workflow but lacks a step names the step; after a deployment ``retry`` continues."""
    from holdfast.programs.function.decorators import STEPS

    @step(name="bad.lost")
    async def lost() -> str:
        return "found"

    @workflow(name="bad.needs")
    async def needs() -> str:
        return await note("kept") + await lost()

    async def main() -> None:
        definition = STEPS._by_name.pop("bad.lost")
        try:
            async with engine(url, needs) as app:
                run = await app.start(needs, id="n")
                with pytest.raises(RunFailed, match=r"no step is called 'bad.lost' here: deploy the code"):
                    await run.result(60)
        finally:
            STEPS._by_name["bad.lost"] = definition
        async with engine(url, needs) as app:
            await app.run("n").retry()
            assert await app.run("n").result(60) == "keptfound"
        assert calls == ["kept"]

    asyncio.run(main())
