"""Bad input: each mistake gets a clear error that says what to do, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from holdfast import Holdfast, RunFailed, RunHandle, receive, step, workflow
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
from holdfast.programs.function.decorators import Workflow
from tests.acceptance.authored import note
from tests.acceptance.processes import until_status


def engine(url: str, *workflows: Workflow[..., Any], worker: bool = True) -> Holdfast:
    return Holdfast(url, workflows=workflows, worker=worker)


# -- values ------------------------------------------------------------------------------------------------------------


def test_an_argument_that_is_not_data_is_refused_before_anything_is_written(url: str) -> None:
    """``start`` raises Unencodable with the remedy and starts nothing. So it does if the signature does not fit."""

    @workflow(name="bad.takes")
    async def takes(value: object) -> None:
        return None

    async def main() -> None:
        async with engine(url, takes) as app:
            with pytest.raises(Unencodable, match=r"cannot be stored as data.*Use plain data"):
                await app.start(takes, socket.socket, id="a")
            with pytest.raises((InvalidRequest, TypeError), match="value"):
                await app.start(takes, id="a")
            with pytest.raises(RunNotFound, match="holdfast list"):
                await app.run("a").status()

    asyncio.run(main())


def test_results_that_are_not_data_are_reported_with_the_remedy(url: str) -> None:
    """For a step it is an error that can be caught; for a workflow it parks the run, and fixed code finishes it."""

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
            message = await (await app.start(catches)).result(60)
            assert "the result of bad.gives_a_lock cannot be stored as data" in message
            run: RunHandle[str] = await app.start("bad.returns", id="r")
            await until_status(run, "paused")
            assert "the result of bad.returns cannot be stored as data" in await run.explain()
        async with engine(url, returns("plain")) as app:
            await app.run("r").resume()
            assert await app.run("r").result(60) == "plain"

    asyncio.run(main())


def test_a_payload_over_the_limit_is_refused_everywhere(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PayloadTooLarge for arguments, signals and results; it says what to pass instead."""
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
                await run.result(60)

    asyncio.run(main())


# -- names and ids -----------------------------------------------------------------------------------------------------


def test_two_workflows_of_one_name_are_refused_when_they_are_defined(url: str) -> None:
    """DuplicateName names both places and the remedy, from the decorator and from an engine that gets both."""

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
            assert await (await app.start(one, 1, id="a")).result(60) == 1
            assert await (await app.start(one, 1, id="a")).result(60) == 1
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
    """A signal is never dropped silently."""

    @workflow(name="bad.short")
    async def short() -> None:
        return None

    async def main() -> None:
        async with engine(url, short) as app:
            run = await app.start(short, id="ended")
            await run.result(60)
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
    """Outside of a workflow, neither a child can be started nor a signal received."""

    @workflow(name="bad.lonely")
    async def lonely() -> None:
        return None

    with pytest.raises(NotInWorkflow, match=r"app\.start"):
        lonely()
    with pytest.raises(NotInWorkflow, match="only inside a workflow"):
        asyncio.run(receive("x"))


def test_a_run_of_an_unknown_workflow_waits_for_a_worker_that_knows_it(url: str) -> None:
    """It is queued, ``explain`` reports what is missing, and the first worker with the code finishes it."""

    @workflow(name="bad.known")
    async def known() -> str:
        return "here"

    @workflow(name="bad.elsewhere")
    async def elsewhere(word: str) -> str:
        return await note(word)

    async def main() -> None:
        async with engine(url, known) as app:
            run: RunHandle[str] = await app.start("bad.elsewhere", "there", id="w")
            assert await (await app.start(known)).result(60) == "here"
            assert await run.status() == "queued"
            assert "none of the 1 running workers knows the workflow 'bad.elsewhere'" in await run.explain()
        async with engine(url, elsewhere) as app:
            assert await app.run("w").result(60) == "there"

    asyncio.run(main())
