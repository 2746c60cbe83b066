"""Business references: what a definition sets is on the run's row and on its open tasks, in the turn's own commit."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import Holdfast, RunFailed, RunHandle, action, workflow
from tests.unit.worker.ground import OPTIONS, Ground, asked, asking, kill, rested

DEFINITIONS = replace(OPTIONS, checkpoint_events=1)


@action(connector="bank", operation="pay", name="references.pay")
async def pay(sum: int) -> int:
    return sum


@workflow(name="references.plain")
async def plain(sum: int) -> int:
    return sum


def document(*nodes: dict[str, Any], name: str = "references.claim", **parts: Any) -> dict[str, Any]:
    return {"holdfast": "definition/1", "name": name, "version": 1, "steps": list(nodes), **parts}


FORM = {"title": "Well?", "form": {"type": "object"}}
CLAIM = document(
    {"ask": {"task": "well"}},
    {"number": {"wait": "number", "as": "state.number"}},
    {"renamed": {"set": {"reference": "=state.number"}}},
    {"again": {"task": "well", "as": "state.answer"}},
    {"done": {"end": "=run.reference"}},
    reference='="C-" + start.no',
    tasks={"well": FORM},
)


async def begun(app: Holdfast, what: dict[str, Any] = CLAIM, id: str = "one", **options: Any) -> RunHandle[Any]:
    found = app.definitions.add(what)
    return await app.start(found.definition.name, {"no": "7"}, id=id, **options)


async def seen(app: Holdfast, reference: str, status: Any = "requested") -> tuple[list[str], list[str]]:
    """The runs and the titles of tasks that are found by a reference."""
    runs = [run.id async for run in app.list(tenant="default", reference=reference)]
    return runs, [task.summary async for task in app.tasks.list(reference=reference, status=status)]


def test_the_declared_reference_is_there_with_the_run(ground: Ground) -> None:
    """The first commit has it; a run of a function has none."""

    async def main(ground: Ground) -> None:
        async with ground.engine(plain, options=DEFINITIONS) as app:
            run = await begun(app)
            assert (await run.info()).reference == "C-7"
            assert await seen(app, "C-7") == (["one"], ["Well?"])
            other = await app.start(plain, 1, id="two")
            await other.result(30)
            assert (await other.info()).reference is None

    ground.play(main)


def test_a_changed_reference_is_carried_to_the_row_and_to_open_tasks(ground: Ground) -> None:
    """Also by a worker that takes the run over. The task that was answered before keeps the old one."""

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            run = await begun(app)
            first = await asked(app, "one")
            await app.tasks.complete(first.id, {}, by="ann")
            kill(app)
        async with ground.engine(options=DEFINITIONS) as other:
            run = other.run("one")
            await run.signal("number", "R-9")
            await asked(other, "one", other_than=first.id)
            assert await seen(other, "C-7") == ([], [])
            assert await seen(other, "C-7", None) == ([], ["Well?"])
            assert await seen(other, "R-9") == (["one"], ["Well?"])
            async for task in other.tasks.list(reference="R-9"):
                await other.tasks.complete(task.id, {}, by="ann")
            assert await run.result(30) == "R-9"
            assert await seen(other, "R-9", None) == (["one"], ["Well?"])
            assert (await run.verify()).good
            assert (await other.audit.verify()).good

    ground.play(main)


def test_a_branch_changes_the_reference_when_it_is_joined(ground: Ground) -> None:
    """As with state: what a branch that loses has written would otherwise stay."""
    flow = document(
        {
            "both": {
                "fork": {
                    "asked": [{"ask": {"task": "well"}}],
                    "moved": [{"go": {"wait": "go"}}, {"named": {"set": {"reference": '="R-1"'}}}],
                },
                "join": "all",
            }
        },
        tasks={"well": FORM},
        name="references.side",
    )

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            run = await begun(app, flow)
            task = await asked(app, "one")
            await run.signal("go")
            await rested(app, "one")
            assert ((await run.info()).reference, task.reference) == (None, None)
            await app.tasks.complete(task.id, {}, by="ann")
            await run.result(30)
            assert (await run.info()).reference == "R-1"

    ground.play(main)


def test_approvals_have_the_reference_of_their_run(ground: Ground) -> None:
    """Whatever a task asks for."""
    flow = document(
        {"paid": {"action": "references.pay", "with": {"sum": 5}}}, reference="=start.no", name="references.paid"
    )

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS, policy=asking()) as app:
            run = await begun(app, flow)
            await rested(app, "one")
            runs, summaries = await seen(app, "7")
            assert (runs, len(summaries)) == (["one"], 1)
            async for task in app.tasks.list(reference="7"):
                await app.tasks.approve(task.id, by="bob")
            await run.result(30)

    ground.play(main)


def test_a_child_has_a_reference_of_its_own(ground: Ground) -> None:
    """The parent's is not handed down."""
    child = document({"go": {"wait": "go"}}, reference='="K"', name="references.child")
    bare = document({"go": {"wait": "go"}}, name="references.bare")
    parent = document(
        {"both": {"fork": {"a": [{"a": {"run": "references.child"}}], "b": [{"b": {"run": "references.bare"}}]}}},
        reference="=start.no",
        name="references.parent",
    )

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            app.definitions.add(child)
            app.definitions.add(bare)
            run = await begun(app, parent)
            await rested(app, "one~0")
            await rested(app, "one~1")
            found = {info.workflow: info.reference async for info in app.list()}
            assert found == {"references.parent": "7", "references.child": "K", "references.bare": None}
            for id in ("one~0", "one~1"):
                await app.run(id).signal("go")
            await run.result(30)

    ground.play(main)


def test_the_last_turn_of_a_run_carries_its_reference_too(ground: Ground) -> None:
    """Whether the run fails in it or not."""
    flow = document(
        {"named": {"set": {"reference": '="first"'}}},
        {"go": {"wait": "go", "as": "state.go"}},
        {"renamed": {"set": {"reference": '="second"'}}},
        {"fails": {"when": "=state.go", "raise": {"code": "NO"}}},
        name="references.failing",
    )

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            for id, fails in (("one", True), ("two", False)):
                run = await begun(app, flow, id)
                assert (await run.info()).reference == "first"
                await run.signal("go", fails)
                with pytest.raises(RunFailed) if fails else nullcontext():
                    await run.result(30)
                assert (await run.info()).reference == "second"

    ground.play(main)
