"""Parents whose children do not end: what holds them is named, and doing what is advised moves them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from holdfast import Holdfast, RunCancelled, RunFailed, WorkerOptions, continue_as_new, receive, step, workflow
from holdfast.runs.advice import AdviceCode
from holdfast.store import protocol as p
from tests.unit.worker.ground import OPTIONS, Ground, kill, rested

UNDONE: list[str] = []


@pytest.fixture(autouse=True)
def nothing_undone() -> None:
    UNDONE.clear()


@step(name="held.unbook")
async def unbook(booked: str) -> None:
    UNDONE.append(booked)


@step(name="held.book", undo=unbook)
async def book(what: str) -> str:
    return what


@workflow(name="held.slow")
async def slow() -> None:
    """A child whose cleanup waits for a person."""
    try:
        await receive("go")
    finally:
        await receive("cleaned")


@workflow(name="held.parent")
async def parent(above: int = 0) -> None:
    await book(f"of {above}")
    await (parent(above - 1) if above else slow())


@workflow(name="held.hurried", cleanup_timeout=3600.0)
async def hurried() -> None:
    await book("hurried")
    await slow()


async def waits(app: Holdfast, run: str) -> None:
    """Until the run is there, and rests."""
    while not await app.store.get([p.Key("default", run)]):
        await app.changed(1)
    await rested(app, run)


def test_explain_names_the_child_that_holds_its_parent_and_its_remedy(virtual: Ground) -> None:
    """However deep it is. The advice for the child ends it, and then its parents."""

    async def main(ground: Ground) -> None:
        async with ground.engine(parent, slow) as app:
            run = await app.start(parent, 2, id="one")
            await waits(app, "one~1~1~1")
            await run.cancel()
            for each in ("one", "one~1", "one~1~1", "one~1~1~1"):
                while not (await rested(app, each)).cancelling:
                    await app.changed(1)
            said = await run.explain()
            assert "one~1: " in said
            assert "one~1~1~1: " in said
            assert "`holdfast signal 'one~1~1~1' cleaned VALUE` sends it" in said
            assert "`holdfast cancel one --leave-children` ends one without its children" in said
            assert UNDONE == []
            await app.run("one~1~1~1").signal("cleaned")
            with pytest.raises(RunCancelled):
                await run.result(60)
            assert UNDONE == ["of 0", "of 1", "of 2"]

    virtual.play(main)


def test_a_person_lets_a_run_end_without_its_children(virtual: Ground) -> None:
    """It undoes what it did, and its end names the child that was left, which goes on with its cleanup."""

    async def main(ground: Ground) -> None:
        async with ground.engine(parent, slow) as app:
            run = await app.start(parent, id="one")
            await waits(app, "one~1")
            await run.cancel("enough")
            await waits(app, "one")
            assert UNDONE == []
            await run.cancel("enough", by="ann", leave_children=True)
            with pytest.raises(RunCancelled, match=r"enough; left before they had ended: one~1$"):
                await run.result(60)
            assert UNDONE == ["of 0"]
            child = app.run("one~1")
            await child.signal("cleaned")
            with pytest.raises(RunCancelled):
                await child.result(60)
            assert (await run.verify()).good

    virtual.play(main)


BOOKS = {"booked": {"step": "held.book", "with": {"what": "flow"}}}
CALLS = {"call": {"run": "held.slow"}}
FAILS = {"both": {"fork": {"a": [CALLS], "b": [{"go": {"wait": "fail"}}, {"bad": {"raise": {"code": "BAD"}}}]}}}
RESTS = msgspec.structs.replace(OPTIONS, checkpoint_events=1)


def flow(*steps: Any, **parts: Any) -> dict[str, Any]:
    return {"holdfast": "definition/1", "name": "held.flow", "version": 1, "steps": [BOOKS, *steps], **parts}


async def begun(app: Holdfast, *steps: Any, **parts: Any) -> Any:
    app.definitions.add(flow(*steps, **parts))
    run = await app.start("held.flow", id="one")
    await waits(app, "one~1")
    await rested(app, "one")
    return run


async def cleaned(app: Holdfast, child: str) -> None:
    await app.run(child).signal("cleaned")
    with pytest.raises(RunCancelled):
        await app.run(child).result(60)


@pytest.mark.parametrize("options", [OPTIONS, RESTS])
@pytest.mark.parametrize("restart", [False, True])
def test_a_person_lets_a_definition_end_without_its_children(
    virtual: Ground, options: WorkerOptions, restart: bool
) -> None:
    """As a function: explain names the child and both remedies; the end names the child that was left."""

    async def main(ground: Ground) -> None:
        async with ground.engine(slow, options=options) as app:
            run = await begun(app, CALLS)
            await run.cancel("enough")
            while "`holdfast signal 'one~1' cleaned VALUE` sends it" not in (said := await run.explain()):
                await app.changed(1)
            assert "one~1: " in said
            assert "`holdfast cancel one --leave-children` ends one without its children" in said
            assert UNDONE == []
            if restart:
                kill(app)
            else:
                await run.cancel("enough", by="ann", leave_children=True)
                with pytest.raises(RunCancelled, match=r"enough; left before they had ended: one~1$"):
                    await run.result(60)
        async with ground.engine(slow, options=options) as app:
            if restart:
                await app.run("one").cancel("enough", by="ann", leave_children=True)
                with pytest.raises(RunCancelled, match=r"enough; left before they had ended: one~1$"):
                    await app.run("one").result(60)
            assert UNDONE == ["flow"]
            await cleaned(app, "one~1")
            assert (await app.run("one").verify()).good

    virtual.play(main)


def test_a_definition_that_is_cancelled_at_once_without_its_children(virtual: Ground) -> None:
    """The word comes with the cancellation: nothing is waited for. Children that end first need no word."""

    async def main(ground: Ground) -> None:
        async with ground.engine(slow, options=RESTS) as app:
            run = await begun(app, CALLS)
            await run.cancel("enough", by="ann", leave_children=True)
            with pytest.raises(RunCancelled, match=r"left before they had ended: one~1$"):
                await run.result(60)
            await cleaned(app, "one~1")

    virtual.play(main)


def test_a_definition_whose_children_end_says_nothing_of_them(virtual: Ground) -> None:
    """The wait for the word ends with them, and the timer is called off."""

    async def main(ground: Ground) -> None:
        async with ground.engine(slow, options=RESTS) as app:
            run = await begun(app, CALLS, cleanup_timeout="1h")
            await run.cancel("enough")
            await cleaned(app, "one~1")
            with pytest.raises(RunCancelled, match=r"enough$"):
                await run.result(60)
            assert UNDONE == ["flow"]
            assert (await run.info()).wake_at is None

    virtual.play(main)


@pytest.mark.parametrize("options", [OPTIONS, RESTS])
@pytest.mark.parametrize("fails", [False, True])
def test_a_definition_may_limit_the_wait_for_its_children(virtual: Ground, options: WorkerOptions, fails: bool) -> None:
    """Cancelled, or failed by another branch, which nothing catches. The time is recorded, and outlives its worker."""

    async def main(ground: Ground) -> None:
        async with ground.engine(slow, options=options) as app:
            run = await begun(app, FAILS if fails else CALLS, cleanup_timeout="1h")
            await (run.signal("fail") if fails else run.cancel("enough"))
            while "--leave-children" not in await run.explain():
                await app.changed(1)
            await asyncio.sleep(3500)
            assert UNDONE == []
        async with ground.engine(slow, options=options) as app:
            with pytest.raises((RunCancelled, RunFailed), match="left before they had ended: one~1"):
                await app.run("one").result(200)
            assert UNDONE == ["flow"]
            await cleaned(app, "one~1")
            assert (await app.run("one").verify()).good

    virtual.play(main)


def test_an_error_that_is_caught_ends_no_wait(virtual: Ground) -> None:
    """The run goes on after it, so the children of the other branch are waited for however long they take."""
    caught = {"both": {**FAILS["both"], "on": {"failure": []}}}

    async def main(ground: Ground) -> None:
        async with ground.engine(slow, options=RESTS) as app:
            run = await begun(app, caught, {"done": {"end": "fine"}}, cleanup_timeout="1m")
            await run.signal("fail")
            await asyncio.sleep(600)
            assert "--leave-children" not in await run.explain()
            await cleaned(app, "one~1")
            assert await run.result(60) == "fine"

    virtual.play(main)


def test_a_workflow_may_limit_the_wait_for_its_children(virtual: Ground) -> None:
    """The time is recorded when the wait begins, and outlives its worker."""

    async def main(ground: Ground) -> None:
        async with ground.engine(hurried, slow) as app:
            run = await app.start(hurried, id="one")
            await waits(app, "one~1")
            await run.cancel("enough")
            await waits(app, "one")
            await asyncio.sleep(3500)
            assert (await run.info()).status == "cancelling"
        async with ground.engine(hurried, slow) as app:
            with pytest.raises(RunCancelled, match="left before they had ended: one~1"):
                await app.run("one").result(200)
            assert UNDONE == ["hurried"]

    virtual.play(main)


@workflow(name="held.continuing")
async def continuing(left: int = 1) -> Any:
    return continue_as_new(left - 1) if left else await asyncio.gather(slow(), slow())


def test_a_run_that_has_continued_is_given_back_while_its_children_run(virtual: Ground) -> None:
    """It was kept in case it met children of an earlier generation: its row said that a worker was at it, for as long
    as its children ran, and not what they waited for. See seed 100013 of the simulation."""

    async def main(ground: Ground) -> None:
        async with ground.engine(continuing, slow) as app:
            run = await app.start(continuing, id="one")
            while (await run.info()).generation == 0:
                await app.changed(1)
            await app.changed(30)
            (row,) = await app.store.get([run.key])
            assert (row.standing, row.owner) == ("waiting", None)
            asked = [(each.code, each.thing, each.run) for each in await run.advice()]
            children = sorted({thing for code, thing, _ in asked if code == AdviceCode.FOLLOW_CHILD})
            assert len(children) == 2
            assert [each for each in asked if each[2]] == [(AdviceCode.SEND_SIGNAL, child, child) for child in children]
            for child in children:
                await app.run(child).signal("go")
                await app.run(child).signal("cleaned")
            await run.result(60)

    virtual.play(main)
