"""Operators' work with runs: retry, fork, pause, resume, and deleting old ones."""

from __future__ import annotations

import asyncio
import time

import pytest

from holdfast import (
    Holdfast,
    RunFailed,
    StepFailed,
    WorkerOptions,
    receive,
    send,
    workflow,
)
from holdfast.errors import InvalidRequest
from tests.acceptance.authored import began, broken, calls, greet, hold, let_go, note, noting, ship
from tests.acceptance.processes import eventually, until_status


@workflow(name="engine.pack")
async def pack() -> str:
    return f"{await note('packed')} {await ship()}"


def test_a_failed_run_is_retried_from_its_failed_step_over_a_restart(url: str) -> None:
    """Steps that succeeded are kept, failed ones are done again; only a failed or cancelled run can be retried."""

    async def main() -> None:
        broken.set()
        async with Holdfast(url, workflows=[pack]) as app:
            run = await app.start(pack, id="o")
            with pytest.raises(RunFailed):
                await run.result(60)
        broken.clear()
        async with Holdfast(url, workflows=[pack]) as app:
            run = app.run("o")
            await run.retry()
            assert await run.result(60) == "packed shipped"
            assert (await run.verify()).good
            with pytest.raises(InvalidRequest, match="only a failed or cancelled run can be retried"):
                await run.retry()
        assert calls == ["packed", "ship"]

    asyncio.run(main())


@workflow(name="engine.parcel")
async def parcel() -> str:
    return await note("wrapped")


@workflow(name="engine.send")
async def sending() -> str:
    """Shipping fails first; the parcel is wrapped after that and before the run ends."""
    wrapped = asyncio.create_task(parcel())
    try:
        shipped = await ship()
    except StepFailed:
        await wrapped
        raise
    return f"{await wrapped} {shipped}"


def test_a_retried_run_gets_again_the_result_of_a_child_that_ended_after_the_failure(url: str) -> None:
    """Its new journal ends before that result. The child is not run again, and the run does not wait forever."""

    async def main() -> None:
        broken.set()
        async with Holdfast(url, workflows=[sending, parcel]) as app:
            run = await app.start(sending, id="s")
            with pytest.raises(RunFailed):
                await run.result(60)
            broken.clear()
            await run.retry()
            assert await run.result(60) == "wrapped shipped"
            assert (await run.verify()).good
        assert sorted(calls) == ["ship", "wrapped"]

    asyncio.run(main())


@workflow(name="engine.both")
async def both() -> str:
    """``greet`` still waits for a signal when ``ship`` fails, so it is cancelled with the run."""
    greeted, shipped = await asyncio.gather(greet("ann"), ship())
    return f"{greeted} {shipped}"


def test_a_child_that_was_cancelled_because_its_parent_failed_continues_with_it(url: str) -> None:
    """One retry is enough: the child that the run waits for again is continued, too."""

    async def main() -> None:
        broken.set()
        async with Holdfast(url, workflows=[both, greet]) as app:
            run = await app.start(both, id="b")
            with pytest.raises(RunFailed, match="lorry"):
                await run.result(60)
            await until_status(app.run("b~0"), "cancelled")
            broken.clear()
            await run.retry()
            await app.run("b~0").signal("ok", "fine")
            assert await run.result(60) == "ann fine shipped"

    asyncio.run(main())


@workflow(name="engine.swerve")
async def swerving() -> None:
    """If shipping succeeds, it takes another path: the call at the second place is another one."""
    try:
        await ship()
    except StepFailed:
        await send("listener", "word", "sorry")
        await noting("sorry")
        raise
    await send("listener", "word", "thanks")
    await noting("thanks")


@workflow(name="engine.listen")
async def listening() -> list[str]:
    return [await receive("word", str) for _ in range(2)]


def test_a_retried_run_that_takes_another_path_gets_no_results_of_the_first_path(url: str) -> None:
    """It is parked where it calls with another input than what is kept, until a person says that nothing counts."""

    async def main() -> None:
        broken.set()
        async with Holdfast(url, workflows=[swerving, noting, listening]) as app:
            listener = await app.start(listening, id="listener")
            run = await app.start(swerving, id="w")
            with pytest.raises(RunFailed):
                await run.result(60)
            broken.clear()
            await run.retry()
            await run.settled(60)
            assert "word was done before the retry with another input" in await run.explain()
            await run.retry(new=True)
            await run.result(60)
            assert await listener.result(60) == ["sorry", "thanks"]
            assert (await run.verify()).good
        assert calls == ["sorry", "ship", "thanks"]

    asyncio.run(main())


def test_a_fork_repeats_the_steps_after_its_sequence_number_and_none_before(url: str) -> None:
    """The new run has the old journal up to that event; the old run does not change."""

    async def main() -> None:
        async with Holdfast(url, workflows=[pack]) as app:
            run = await app.start(pack, id="o")
            await run.result(60)
            entries = [entry async for entry in run.journal()]
            second = [entry.sequence for entry in entries if entry.event == "InvokeScheduled"][1]
            forked = await run.fork(second, id="o-2")
            assert await forked.result(60) == "packed shipped"
            assert calls == ["packed", "ship", "ship"]
            assert [entry async for entry in run.journal()] == entries
            assert (await forked.verify()).good
            assert (await forked.info()).attributes["forked_from"] == "o"
            with pytest.raises(InvalidRequest, match="fork from 1 to"):
                await run.fork(0)

    asyncio.run(main())


def test_a_paused_run_finishes_its_step_and_waits_until_resumed_over_a_restart(url: str) -> None:
    """Steps that were begun are finished; none begins before ``resume``, even after a restart."""

    @workflow(name="engine.pausing")
    async def pausing() -> str:
        await hold()
        return await note("after")

    async def main() -> None:
        async with Holdfast(url, workflows=[pausing]) as app:
            run = await app.start(pausing, id="p")
            await asyncio.to_thread(began.wait, 60)
            await run.pause("the shop moves")
            let_go.set()

            async def is_released() -> bool:
                return (await run.info()).worker is None

            await eventually(is_released, "the run to be released")
            assert await run.status() == "paused"
            assert "the shop moves" in await run.explain()
        began.clear()
        async with Holdfast(url, workflows=[pausing]) as app:
            other = await app.start(pausing, id="other")
            assert await other.result(60) == "after"
            run = app.run("p")
            assert (await run.status(), calls) == ("paused", ["after"])
            began.clear()
            await run.resume()
            assert await run.result(60) == "after"
            assert not began.is_set(), "the step that had ended before the pause ran again"

    asyncio.run(main())


class Tomorrow:
    """A clock that can be moved forward."""

    def __init__(self) -> None:
        self.days = 0.0

    def now(self) -> int:
        return time.time_ns() // 1000 + round(self.days * 86_400e6)


def test_ended_runs_are_deleted_after_the_retention_time_and_others_never(url: str) -> None:
    """They are deleted with all their data; a waiting run is kept, however old it is."""

    async def main() -> None:
        clock = Tomorrow()
        options = WorkerOptions(retention_days=2)
        async with Holdfast(url, workflows=[noting, greet], options=options, clock=clock) as app:
            ended = await app.start(noting, "x" * 50_000, id="ended")
            await ended.result(60)
            waiting = await app.start(greet, "ann", id="waiting")
            await until_status(waiting, "waiting")
            assert (await app.store.facts()).blobs > 0
        clock.days = 1
        async with Holdfast(url, workflows=[noting], options=options, clock=clock) as app:
            assert await app.run("ended").status() == "completed"
        clock.days = 3
        async with Holdfast(url, workflows=[noting], options=options, clock=clock) as app:

            async def gone() -> bool:
                return [run.id async for run in app.list()] == ["waiting"]

            await eventually(gone, "the ended run to be deleted")
            facts = await app.store.facts()
            assert (facts.blobs, facts.inbox, facts.work) == (0, 0, 0)

    asyncio.run(main())
