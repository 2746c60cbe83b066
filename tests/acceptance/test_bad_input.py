"""Bad input and bad code: a clear error that says what to do, or a parked run that goes on after the code is mended."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, RunFailed, patched, receive, step, workflow
from holdfast.errors import (
    DuplicateName,
    InvalidRequest,
    NotInWorkflow,
    PayloadTooLarge,
    RunConflict,
    RunEnded,
    RunNotFound,
    Unencodable,
    WorkflowUnknown,
)
from holdfast.programs.function import values
from holdfast.programs.function.definitions import Workflow
from holdfast.store.protocol import Key
from tests.acceptance.processes import sqlite_url, until_status

calls: list[str] = []


@step(name="bad.note")
async def note(word: str) -> str:
    calls.append(word)
    return word


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    calls.clear()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return sqlite_url(tmp_path / "holdfast.db")


def engine(url: str, *workflows: Workflow[..., Any], worker: bool = True) -> Holdfast:
    return Holdfast(url, workflows=workflows, worker=worker)


# -- values ------------------------------------------------------------------------------------------------------------


def test_an_argument_that_is_no_data_is_refused_before_anything_is_written(url: str) -> None:
    """Unencodable at the call, with the remedy; no run comes of it. Calls that do not fit the signature likewise."""

    @workflow(name="bad.takes")
    async def takes(value: object) -> None:
        return None

    async def main() -> None:
        async with engine(url, takes) as app:
            with pytest.raises(Unencodable, match=r"cannot be stored as data.*Use plain data"):
                await app.start(takes, socket.socket, id="a")
            with pytest.raises((InvalidRequest, TypeError), match="value"):
                await app.start(takes, id="a")  # type: ignore[call-arg]
            with pytest.raises(RunNotFound, match="holdfast list"):
                await app.run("a").status()

    asyncio.run(main())


def test_results_that_are_no_data_are_told_with_the_remedy(url: str) -> None:
    """A step's result can be caught like its error; a workflow's own parks the run, so that mended code finishes it."""

    @step(name="bad.gives_a_lock")
    async def gives_a_lock() -> object:
        return asyncio.Lock()

    @workflow(name="bad.catches")
    async def catches() -> str:
        try:
            await gives_a_lock()
        except Exception as error:
            return str(error)
        return "nothing was raised"

    def returns(value: object) -> Workflow[..., Any]:
        @workflow(name="bad.returns")
        async def returning() -> object:
            return value

        return returning

    async def main() -> None:
        async with engine(url, catches, returns(asyncio.Lock())) as app:
            told = await (await app.start(catches)).result(10)
            assert "the result of bad.gives_a_lock cannot be stored as data" in told
            run = await app.start("bad.returns", id="r")
            await until_status(run, "paused", 10)
            assert "the result of bad.returns cannot be stored as data" in await run.explain()
        async with engine(url, returns("plain")) as app:
            await app.run("r").resume()
            assert await app.run("r").result(10) == "plain"

    asyncio.run(main())


def test_a_payload_over_the_limit_is_refused_wherever_it_comes_from(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PayloadTooLarge for arguments, signals and results, saying what to pass instead."""
    monkeypatch.setattr(values, "PAYLOAD_LIMIT_BYTES", 100_000)

    @step(name="bad.too_much")
    async def too_much() -> bytes:
        return b"x" * 100_001

    @workflow(name="bad.large")
    async def large(data: bytes) -> int:
        await too_much()
        return len(data)

    async def main() -> None:
        async with engine(url, large) as app:
            with pytest.raises(PayloadTooLarge, match="pass its address"):
                await app.start(large, b"x" * 100_001)
            run = await app.start(large, b"x" * 90_000, id="fits")
            with pytest.raises(PayloadTooLarge, match="signal 'more' is 100"):
                await run.signal("more", "x" * 100_001)
            with pytest.raises(RunFailed, match=r"the result of bad.too_much is 100,006 bytes"):
                await run.result(10)

    asyncio.run(main())


# -- names and ids -----------------------------------------------------------------------------------------------------


def test_two_workflows_of_one_name_are_refused_when_they_are_defined(url: str) -> None:
    """DuplicateName names both places and the remedy; so does an engine that is given two."""

    def first() -> Workflow[..., Any]:
        @workflow(name="bad.same")
        async def one() -> None:
            return None

        return one

    def second() -> Workflow[..., Any]:
        @workflow(name="bad.same")
        async def two() -> None:
            return None

        return two

    with pytest.raises(DuplicateName, match=r"first.<locals>.one and .*second.<locals>.two.*give one of them another"):
        engine(url, first(), second())

    with pytest.raises(DuplicateName, match="give one of them another"):

        @workflow(name="bad.twice")
        async def a() -> None:
            return None

        @workflow(name="bad.twice")
        async def b() -> None:
            return None


def test_an_id_is_found_again_and_never_means_something_else(url: str) -> None:
    """The same start finds the same run; another workflow or other arguments are a conflict; bad ids are refused."""

    @workflow(name="bad.one")
    async def one(number: int) -> int:
        return number

    @workflow(name="bad.other")
    async def other(number: int) -> int:
        return number

    async def main() -> None:
        async with engine(url, one, other) as app:
            assert await (await app.start(one, 1, id="a")).result(10) == 1
            assert await (await app.start(one, 1, id="a")).result(10) == 1
            with pytest.raises(RunConflict, match="choose another id"):
                await app.start(one, 2, id="a")
            with pytest.raises(RunConflict, match=r"it runs 'bad.one'"):
                await app.start(other, 1, id="a")
            for bad in ("", "x" * 201, "two\nlines", "a~1"):
                with pytest.raises(InvalidRequest, match="the id"):
                    await app.start(one, 1, id=bad)
            with pytest.raises(WorkflowUnknown, match="decorate it"):
                await app.start(lambda: None)  # type: ignore[arg-type]

    asyncio.run(main())


def test_a_signal_to_an_ended_or_unknown_run_is_an_error_that_says_so(url: str) -> None:
    """Nothing is dropped in silence: not by a client, not by a workflow that sends."""

    @workflow(name="bad.short")
    async def short() -> None:
        return None

    async def main() -> None:
        async with engine(url, short) as app:
            run = await app.start(short, id="ended")
            await run.result(10)
            with pytest.raises(RunEnded, match="start a new one, or fork it"):
                await run.signal("go")
            with pytest.raises(RunEnded):
                await run.cancel()
            with pytest.raises(RunNotFound, match="no run 'nobody' in tenant 'default'"):
                await app.run("nobody").signal("go")
            with pytest.raises(RunNotFound, match="no run 'ended' in tenant 'other'"):
                await app.run("ended", tenant="other").signal("go")
            with pytest.raises(InvalidRequest, match="a signal has a name"):
                await run.signal("")

    asyncio.run(main())


def test_calls_of_a_workflow_in_the_wrong_place_say_where_they_belong() -> None:
    """Outside of a workflow there is no child to start and nothing to receive."""

    @workflow(name="bad.lonely")
    async def lonely() -> None:
        return None

    with pytest.raises(NotInWorkflow, match="app.start"):
        lonely()
    with pytest.raises(NotInWorkflow, match="only inside a workflow"):
        asyncio.run(receive("x"))


def test_a_run_of_an_unknown_workflow_waits_for_a_worker_that_knows_it(url: str) -> None:
    """It is queued, ``explain`` says what is missing, and the first worker that has the code finishes it."""

    @workflow(name="bad.known")
    async def known() -> str:
        return "here"

    @workflow(name="bad.elsewhere")
    async def elsewhere(word: str) -> str:
        return await note(word)

    async def main() -> None:
        async with engine(url, known) as app:
            run = await app.start("bad.elsewhere", "there", id="w")
            assert await (await app.start(known)).result(10) == "here"
            assert await run.status() == "queued"
            assert "none of the 1 running workers knows the workflow 'bad.elsewhere'" in await run.explain()
        async with engine(url, elsewhere) as app:
            assert await app.run("w").result(10) == "there"

    asyncio.run(main())


# -- code --------------------------------------------------------------------------------------------------------------


async def _open_connection() -> None:
    await asyncio.open_connection("127.0.0.1", 9)


async def _sleep_for_real() -> None:
    time.sleep(0.01)  # noqa: ASYNC251 - the very mistake


async def _connect() -> None:
    with socket.create_connection(("127.0.0.1", 9)):
        pass


async def _subprocess() -> None:
    subprocess.run(["true"], check=True)  # noqa: ASYNC221 - the very mistake


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
    """The message says to use a step; after the deploy ``resume`` goes on, and no completed step runs again."""

    def code(body: Callable[[], Awaitable[None]] | None) -> Workflow[..., Any]:
        @workflow(name="bad.blocking")
        async def blocking() -> str:
            before = await note("before")
            if body is not None:
                try:
                    await body()
                except Exception:  # an author's own except must not hide it
                    calls.append("hidden")
            return before + await note("after")

        return blocking

    async def main() -> None:
        async with engine(url, code(mistake)) as app:
            run = await app.start("bad.blocking", id="b")
            await until_status(run, "paused", 10)
            told = await run.explain()
            assert "blocked_loop" in told
            assert "move this into a @step" in told
            assert "holdfast resume b" in told
        async with engine(url, code(None)) as app:
            run = app.run("b")
            await run.resume()
            assert await run.result(10) == "beforeafter"
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
    """Never failed, never silently different: the diff names both commands, and nothing is run twice."""

    async def main() -> None:
        async with engine(url, _versions("a", "b")) as app:
            run = await app.start("bad.changing", id="c")
            await until_status(run, "waiting", 10)
        async with engine(url, _versions("changed", "b")) as app:
            run = app.run("c")
            await run.signal("go")
            await until_status(run, "paused", 10)
            told = await run.explain()
            for words in ("- recorded: step bad.note('a')", "+ issued:   step bad.note('changed')", "patched()"):
                assert words in told
            await run.resume()
            await until_status(run, "paused", 10)
        async with engine(url, _versions("a", "b")) as app:
            run = app.run("c")
            await run.resume()
            assert await run.result(10) == "ab"
            assert (await run.verify()).good
        assert calls == ["a", "b"]

    asyncio.run(main())


def test_a_marker_lets_new_runs_take_the_new_path_and_old_ones_keep_theirs(url: str) -> None:
    """``patched()``: decided when a run first reaches it, and the same ever after."""

    async def main() -> None:
        async with engine(url, _versions("a", "b")) as app:
            old = await app.start("bad.changing", id="old")
            past = await app.start("bad.changing", id="past")
            await until_status(old, "waiting", 10)
            await past.signal("go")
            assert await past.result(10) == "ab"
        async with engine(url, _versions("a", "b", marked=True)) as app:
            await app.run("old").signal("go")
            assert await app.run("old").result(10) == "aLOUD"  # it had not reached the place yet
            new = await app.start("bad.changing", id="new")
            await new.signal("go")
            assert await new.result(10) == "aLOUD"
            forked = await app.run("past").fork(await _sequence_after_signal(app), id="forked")
            assert await forked.result(10) == "ab"

    asyncio.run(main())


async def _sequence_after_signal(app: Holdfast) -> int:
    """Behind the recorded second step of the old code: a replay meets the marker's place with the old path taken."""
    return (await app.store.get([Key("default", "past")]))[0].version


def test_a_step_without_code_fails_its_run_with_the_remedy_and_retry_mends_it(url: str) -> None:
    """A worker that has the workflow and lost one of its steps says so; after the deploy ``retry`` goes on."""
    from holdfast.programs.function.definitions import STEPS

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
                    await run.result(10)
        finally:
            STEPS._by_name["bad.lost"] = definition
        async with engine(url, needs) as app:
            await app.run("n").retry()
            assert await app.run("n").result(10) == "keptfound"
        assert calls == ["kept"]

    asyncio.run(main())
