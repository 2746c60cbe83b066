"""What a definition stops, on whole engines: questions are withdrawn, children are cancelled and awaited."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import Holdfast, RunCancelled, action, step, workflow
from tests.unit.worker.ground import OPTIONS, Ground, asked, asking, kill, receipts, rested

DEFINITIONS = replace(OPTIONS, checkpoint_events=1)
DONE: list[str] = []


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


@step(name="stopped.free")
async def free(result: str) -> None:
    await asyncio.sleep(0.01)
    DONE.append(f"free {result}")


@action(name="stopped.pay", connector="bank", operation="pay", risk="med", undo=free)
async def pay(what: str) -> str:
    DONE.append(f"pay {what}")
    return what


@step(name="stopped.note")
async def note(what: str) -> None:
    DONE.append(what)


@step(name="stopped.book", undo=free)
async def book(what: str) -> str:
    DONE.append(f"book {what}")
    return what


@workflow(name="stopped.function")
async def function(what: str) -> None:
    await book(what)
    await asyncio.sleep(1_000_000)


def document(*nodes: dict[str, Any], name: str) -> dict[str, Any]:
    return {"holdfast": "definition/1", "name": name, "version": 1, "steps": list(nodes)}


def limited(inner: dict[str, Any], name: str) -> dict[str, Any]:
    """A block that is out of time after a short while, and a step behind it."""
    block = {"do": [inner], "timeout": "200ms", "on": {"timeout": []}}
    return document({"block": block}, {"then": {"step": "stopped.note", "with": {"what": "then"}}}, name=name)


async def begun(app: Holdfast, what: dict[str, Any]) -> Any:
    app.definitions.add(what)
    return await app.start(what["name"], id="one")


@pytest.mark.parametrize("killed", [False, True])
def test_an_act_that_waits_for_approval_is_withdrawn_when_its_time_is_over(ground: Ground, killed: bool) -> None:
    paying = limited({"pay": {"action": "stopped.pay", "with": {"what": "x"}}}, "stopped.paying")

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS, policy=asking()) as app:
            run = await begun(app, paying)
            task = await asked(app, "one")
            if killed:
                kill(app)
            else:
                await run.result(30)
                assert (await app.tasks.get(task.id)).status == "cancelled"
        async with ground.engine(options=DEFINITIONS, policy=asking()) as other:
            await other.run("one").result(30)
            assert (await other.tasks.get(task.id)).status == "cancelled"
            assert await receipts(other) == []

    ground.play(main)
    assert DONE == ["then"]


@pytest.mark.parametrize("kind", ["function", "definition"])
def test_a_child_that_is_out_of_time_has_undone_what_it_did_before_its_parent_goes_on(
    ground: Ground, kind: str
) -> None:
    child = document(
        {"book": {"step": "stopped.book", "with": {"what": "x"}}}, {"wait": {"wait": "never"}}, name="stopped.child"
    )
    called = "stopped.function" if kind == "function" else "stopped.child"
    parent = limited({"child": {"run": called, "with": {"what": "x"}}}, f"stopped.parent.{kind}")

    async def main(ground: Ground) -> None:
        async with ground.engine(function, options=DEFINITIONS) as app:
            app.definitions.add(child)
            await (await begun(app, parent)).result(30)
            (row,) = [each async for each in app.list(parent="one")]
            assert row.status == "cancelled"

    ground.play(main)
    assert DONE == ["book x", "free x", "then"]


def test_a_cancelled_run_ends_after_its_child(ground: Ground) -> None:
    parent = document({"child": {"run": "stopped.function", "with": {"what": "x"}}}, name="stopped.above")

    async def main(ground: Ground) -> None:
        async with ground.engine(function, options=DEFINITIONS) as app:
            run = await begun(app, parent)
            await rested(app, "one")
            while DONE != ["book x"]:
                await app.changed(0.05)
            kill(app)
        async with ground.engine(function, options=DEFINITIONS) as app:
            run = app.run("one")
            await run.cancel("enough")
            with pytest.raises(RunCancelled):
                await run.result(30)
            assert DONE == ["book x", "free x"]

    ground.play(main)
