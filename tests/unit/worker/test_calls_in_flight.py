"""A call that is under way when its run fails, is cancelled, or no longer waits: it is done, known, and undone."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import RunCancelled, RunFailed, action, heartbeat, receive, step, workflow
from holdfast.runs.journals import row_of
from tests.unit.worker.ground import FREE, OPTIONS, Ground, asked, kill, receipts, until

QUEUED = replace(OPTIONS, queues={"flight": 2})
DONE: list[str] = []
GO: list[threading.Event] = []
"""What the acts wait for: an act is under way until the test lets it end."""


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()
    GO[:] = [threading.Event()]


async def _end() -> None:
    await asyncio.to_thread(GO[0].wait, 60)


@step(name="flight.refund")
async def refund(to: str) -> None:
    DONE.append(f"refund {to}")


@action(connector="bank", operation="pay", target="{to}", undo=refund, name="flight.pay")
async def pay(to: str) -> str:
    DONE.append(f"begin {to}")
    await _end()
    DONE.append(f"paid {to}")
    return to


@step(name="flight.step", undo=refund)
async def paid(to: str) -> str:
    DONE.append(f"begin {to}")
    await _end()
    DONE.append(f"paid {to}")
    return to


@step(name="flight.queued", undo=refund, queue="flight")
async def queued(to: str) -> str:
    DONE.append(f"begin {to}")
    await _end()
    DONE.append(f"paid {to}")
    return to


@step(name="flight.thread", undo=refund)
def threaded(to: str) -> str:
    DONE.append(f"begin {to}")
    assert GO[0].wait(60)
    DONE.append(f"paid {to}")
    return to


CALLS: dict[str, Any] = {"pay": pay, "step": paid, "queued": queued, "thread": threaded}


@workflow(name="flight.plain")
async def plain(how: str) -> str:
    result: str = await CALLS[how]("ann")
    return result


@workflow(name="flight.gathered")
async def gathered(how: str) -> None:
    await asyncio.gather(CALLS[how]("ann"), sibling())


async def sibling() -> None:
    await receive("go")
    raise ArithmeticError("no")


@workflow(name="flight.raced")
async def raced(how: str, fails: bool) -> str:
    """It gives its call up when a signal comes."""
    call = asyncio.ensure_future(CALLS[how]("ann"))
    await receive("go")
    call.cancel()
    if fails:
        raise ArithmeticError("no")
    return "over"


ENDS = ("cancelled", "a sibling fails", "given up, then it fails", "given up, then it returns")


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("how", CALLS)
def test_a_call_under_way_comes_to_its_end_and_is_undone(how: str, end: str, tmp_path: Any) -> None:
    """It is done once and undone once, and the run ends after both."""

    async def main(ground: Ground) -> None:
        async with ground.engine(plain, gathered, raced, policy=FREE, options=QUEUED) as app:
            if end == "cancelled":
                run = await app.start(plain, how, id="one", actor="ann")
            elif end == "a sibling fails":
                run = await app.start(gathered, how, id="one", actor="ann")
            else:
                run = await app.start(raced, how, end.endswith("fails"), id="one", actor="ann")
            await until(app, lambda: DONE == ["begin ann"])
            if end == "cancelled":
                await run.cancel("enough")
                while "CancelRequested" not in [entry.event async for entry in run.journal()]:  # else it may end first
                    await app.changed(0.05)
            else:
                await run.signal("go")
                while (await row_of(app.store, run.key)).version < 6:  # the signal has come, and the body is left
                    await app.changed(0.05)
            GO[0].set()
            if end == "given up, then it returns":
                assert await run.result(30) == "over"
            else:
                with pytest.raises(RunCancelled if end == "cancelled" else RunFailed):
                    await run.result(30)
            assert DONE == ["begin ann", "paid ann", "refund ann"]
            assert [row.state for row in await receipts(app)] == (["succeeded"] if how == "pay" else [])
            assert (await run.verify()).good

    Ground(tmp_path / "store.db").play(main)


def test_a_step_that_is_stopped_learns_it_by_its_heartbeat(ground: Ground) -> None:
    """It may end early: then it has not succeeded, and there is nothing to undo."""

    async def main(ground: Ground) -> None:
        async with ground.engine(beating_run, policy=FREE) as app:
            run = await app.start(beating_run, id="one", actor="ann")
            await until(app, lambda: bool(DONE))
            await run.cancel("enough")
            with pytest.raises(RunCancelled):
                await run.result(30)
            assert DONE == ["begin"]

    ground.play(main)


@step(name="flight.beating", undo=refund)
async def beating() -> str:
    DONE.append("begin")
    while True:
        heartbeat()
        await asyncio.sleep(0.01)


@workflow(name="flight.beating_run")
async def beating_run() -> str:
    return await beating()


@workflow(name="flight.parent")
async def parent() -> None:
    await quick("parent")
    await asyncio.gather(child(), sibling())


@workflow(name="flight.child")
async def child() -> None:
    await quick("child")
    await started()
    try:
        await asyncio.sleep(3600)
    finally:
        await clean()


@step(name="flight.quick", undo=refund)
async def quick(to: str) -> str:
    return to


@step(name="flight.started")
async def started() -> None:
    DONE.append("the child waits")


@step(name="flight.clean")
async def clean() -> None:
    await asyncio.sleep(0.2)
    DONE.append("the child cleaned up")


def test_a_parent_undoes_after_its_child_has_ended(ground: Ground) -> None:
    """Each run undoes its own, and the last first."""

    async def main(ground: Ground) -> None:
        async with ground.engine(parent, child, policy=FREE) as app:
            run = await app.start(parent, id="one")
            await until(app, lambda: DONE == ["the child waits"])
            await run.signal("go")
            with pytest.raises(RunFailed):
                await run.result(30)
            assert DONE == ["the child waits", "the child cleaned up", "refund child", "refund parent"]

    ground.play(main)


def test_an_act_whose_worker_died_is_asked_about_before_its_run_ends(tmp_path: Any) -> None:
    """Its receipt is open, so it may have been done: a person says what became of it, and only then the run ends."""

    async def main(ground: Ground) -> None:
        async with ground.engine(plain, policy=FREE) as app:
            run = await app.start(plain, "pay", id="one", actor="ann")
            await until(app, lambda: DONE == ["begin ann"])
            await run.cancel("enough")
            kill(app)
        async with ground.engine(plain, policy=FREE) as app:
            task = await asked(app, "one")
            assert task.kind == "outcome"
            assert "cancelling" in str((await app.run("one").info()).status)
            assert "what became of flight.pay" in await app.run("one").explain()
            await app.tasks.happened(task.id, by="ben", result="ann")
            with pytest.raises(RunCancelled):
                await app.run("one").result(30)
            assert DONE == ["begin ann", "refund ann"]
            assert [row.state for row in await receipts(app)] == ["succeeded"]
            GO[0].set()  # the act of the killed engine still waits in a thread, and that would be waited for

    Ground(tmp_path / "store.db").play(main)
