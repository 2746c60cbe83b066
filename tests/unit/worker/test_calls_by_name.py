"""Functions that call definitions, and definitions that call functions, on whole engines."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast import Holdfast, RunCancelled, RunFailed, StepFailed, child, join_set, spawn, step, workflow
from holdfast.errors import InvalidRequest, NotInWorkflow, RunParked
from holdfast.store import protocol as p
from tests.unit.worker.ground import OPTIONS, Ground, kill, rested

CALLS: list[str] = []
BROKEN: set[str] = set()
DEFINITIONS = replace(OPTIONS, checkpoint_events=1)


@pytest.fixture(autouse=True)
def nothing_called() -> None:
    CALLS.clear()
    BROKEN.clear()


class Settlement(msgspec.Struct):
    sum: int
    by: str


@step(name="names.note")
async def note(what: str) -> str:
    CALLS.append(what)
    if what in BROKEN:
        raise ValueError(f"no {what}")
    return what


@workflow(name="names.double")
async def double(n: int) -> int:
    await note("double")
    return 2 * n


settle = child("names.settle@^1", Settlement)


@workflow(name="names.outer")
async def outer(n: int) -> list[object]:
    await note("before")
    settled = await settle({"n": n})
    await note("after")
    return [settled.sum, settled.by]


@workflow(name="names.together")
async def together(n: int) -> list[int]:
    both = join_set()
    both.submit(settle({"n": n}))
    both.submit(settle, n=n + 1)
    third = await asyncio.gather(settle({"n": n + 2}))
    return [one.sum for one in [*await both.all(), *third]]


@workflow(name="names.careful")
async def careful() -> list[object]:
    try:
        await child("names.fails")({})
    except StepFailed as error:
        return [str(error), getattr(error.failure, "details", "")]
    return []


@workflow(name="names.starter")
async def starter(id: str) -> str:
    return await spawn(child("names.settle"), {"n": 4}, id=id)


@workflow(name="names.by_function")
async def by_function(n: int) -> int:
    found: int = await child("names.double")(n)
    return found


FUNCTIONS = (double, outer, together, careful, starter, by_function)


def document(*nodes: dict[str, Any], name: str, version: int = 1, **parts: Any) -> dict[str, Any]:
    return {"holdfast": "definition/1", "name": name, "version": version, "steps": list(nodes), **parts}


def settling(version: int = 1, add: int = 0) -> dict[str, Any]:
    """It calls a function, waits for a signal, and ends."""
    return document(
        {"twice": {"run": "names.double", "with": {"n": "=start.n"}, "as": "state.twice"}},
        {"go": {"wait": "go", "as": "state.by"}},
        {"done": {"end": {"sum": f"=state.twice + {add}", "by": "=state.by"}}},
        name="names.settle",
        version=version,
        start={"type": "object", "properties": {"n": {"type": "integer"}}},
    )


async def child_of(app: Holdfast, parent: str) -> Any:
    """The first child of a run, once it rests."""
    while True:
        async for found in app.run(parent).children():
            await rested(app, found.id)
            return found
        await app.changed(0.05)


def test_a_function_calls_a_definition_that_calls_a_function(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(*FUNCTIONS, options=DEFINITIONS) as app:
            app.definitions.add(settling())
            run = await app.start(outer, 7, id="one")
            inner = await child_of(app, "one")
            assert (await inner.info()).workflow == "names.settle"
            await inner.signal("go", "ann")
            assert await run.result(30) == [14, "ann"]
            assert (await run.verify()).good

    ground.play(main)
    assert CALLS == ["before", "double", "after"]


def test_the_code_of_the_child_is_in_the_store_and_the_recorded_version_is_kept(ground: Ground) -> None:
    """The next worker has never seen the definition; a later one has a newer version. Neither changes the call."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*FUNCTIONS, options=DEFINITIONS) as app:
            app.definitions.add(settling())
            await app.start(outer, 7, id="one")
            await child_of(app, "one")
            kill(app)
        async with ground.engine(*FUNCTIONS, options=DEFINITIONS) as other:
            inner = await child_of(other, "one")
            kill(other)
        async with ground.engine(*FUNCTIONS, options=DEFINITIONS) as newer:
            newer.definitions.add(settling())
            newer.definitions.add(settling(2, add=1))
            await newer.run(inner.id).signal("go", "bob")
            assert await newer.run("one").result(30) == [14, "bob"]
            fresh = await newer.start(outer, 7, id="two")
            await (await child_of(newer, "two")).signal("go", "bob")
            assert await fresh.result(30) == [15, "bob"]
            assert (await newer.run("one").verify()).good

    ground.play(main)
    assert CALLS.count("double") == 2


def test_calls_by_name_run_side_by_side(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(*FUNCTIONS, options=DEFINITIONS) as app:
            app.definitions.add(settling())
            run = await app.start(together, 1, id="one")
            while len(found := [each async for each in run.children()]) < 3:
                await app.changed(0.05)
            for each in found:
                await each.signal("go", "ann")
            assert await run.result(30) == [2, 4, 6]

    ground.play(main)


def test_a_failure_carries_its_class_through_the_call(ground: Ground) -> None:
    fails = document({"no": {"raise": {"code": "NO_FUNDS", "message": "empty"}}}, {"end": {"end": 1}}, name="x")
    fails["name"], fails["steps"] = "names.fails", fails["steps"][:1]

    async def main(ground: Ground) -> None:
        async with ground.engine(*FUNCTIONS, options=DEFINITIONS) as app:
            app.definitions.add(fails)
            message, details = await (await app.start(careful, id="one")).result(30)
            assert "BusinessError: empty" in message
            assert '"class":"business"' in details
            assert '"code":"NO_FUNDS"' in details

    ground.play(main)


def test_cancelling_goes_through_to_the_child_of_the_child(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(*FUNCTIONS, options=DEFINITIONS) as app:
            app.definitions.add(settling())
            run = await app.start(outer, 7, id="one")
            inner = await child_of(app, "one")
            await run.cancel("enough")
            for each in (run, inner):
                with pytest.raises(RunCancelled):
                    await each.result(30)

    ground.play(main)
    assert "after" not in CALLS


def test_a_retried_parent_finds_its_child_again(ground: Ground) -> None:
    """The child has ended. It is not run again, whatever its name means by then."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*FUNCTIONS, options=DEFINITIONS) as app:
            app.definitions.add(settling())
            BROKEN.add("after")
            run = await app.start(outer, 7, id="one")
            await (await child_of(app, "one")).signal("go", "ann")
            with pytest.raises(RunFailed, match="no after"):
                await run.result(30)
            BROKEN.clear()
            app.definitions.add(settling(2, add=1))
            await run.retry()
            assert await run.result(30) == [14, "ann"]

    ground.play(main)
    assert CALLS == ["before", "double", "after", "after"]


def test_a_definition_is_started_on_its_own(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(*FUNCTIONS, options=DEFINITIONS) as app:
            app.definitions.add(settling())
            assert await (await app.start(starter, "other", id="one")).result(30) == "other"
            await app.run("other").signal("go", "eve")
            assert await app.run("other").result(30) == {"sum": 8, "by": "eve"}
            assert (await app.run("other").info()).parent is None
            kill(app)
        async with ground.engine(*FUNCTIONS, options=DEFINITIONS) as app:
            assert await app.run("other").state() == {"twice": 8, "by": "eve"}

    ground.play(main)


def test_a_function_is_called_by_its_name(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(*FUNCTIONS, options=DEFINITIONS) as app:
            assert await (await app.start(by_function, 21, id="one")).result(30) == 42

    ground.play(main)


def test_a_name_that_means_nothing_parks_the_run_until_it_does(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(*FUNCTIONS, options=DEFINITIONS) as app:
            run = await app.start(outer, 7, id="one")
            with pytest.raises(RunParked, match=r"there is no definition 'names\.settle@\^1' here"):
                await run.result()
            app.definitions.add(settling())
            await run.resume()
            await (await child_of(app, "one")).signal("go", "ann")
            assert await run.result(30) == [14, "ann"]
            rows = await app.store.get([p.Key("default", "one~1")])
            assert rows[0].program_kind == "definition"

    ground.play(main)
    assert CALLS == ["before", "double", "after"]


def test_a_name_is_a_text_and_is_called_in_workflows_alone() -> None:
    with pytest.raises(InvalidRequest, match="letters@3"):
        child("")
    with pytest.raises(NotInWorkflow, match=r"app\.start\('names\.settle@\^1'"):
        settle({"n": 1})


def test_a_published_definition_is_called_by_a_process_that_does_not_have_it(ground: Ground) -> None:
    """What the name meant is recorded: what is published later changes nothing, and a replay asks nobody."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*FUNCTIONS, options=DEFINITIONS) as app:
            await app.definitions.publish(settling())
            run = await app.start(outer, 7, id="one")
            inner = await child_of(app, "one")
            assert (await inner.instance()).version == 1
            kill(app)
        async with ground.engine(*FUNCTIONS, options=DEFINITIONS) as other:
            await other.definitions.publish(settling(2, add=100))
            await other.run(inner.id).signal("go", "ann")
            assert await other.run("one").result(30) == [14, "ann"]
            assert (await other.run("one").verify()).good
            run = await other.start(outer, 7, id="two")
            await (await child_of(other, "two")).signal("go", "ann")
            assert await run.result(30) == [114, "ann"]

    ground.play(main)


def test_several_published_names_of_one_turn_are_called_side_by_side(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(*FUNCTIONS, options=DEFINITIONS) as app:
            await app.definitions.publish(settling())
            run = await app.start(together, 1, id="one")
            for id in ("one~1", "one~2", "one~3"):
                while not await app.store.get([p.Key("default", id)]):
                    await app.changed(0.05)
                await app.run(id).signal("go", "ann")
            assert sorted(await run.result(30)) == [2, 4, 6]
            spawned = await (await app.start(starter, "away", id="two")).result(30)
            await app.run(spawned).signal("go", "ann")
            assert (await app.run("away").result(30))["sum"] == 8

    ground.play(main)


def test_what_another_tenant_has_published_is_not_called(ground: Ground) -> None:
    """An author's ``except`` cannot take the look-up for an error of the call."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*FUNCTIONS, options=DEFINITIONS) as app:
            await app.definitions.publish(settling(), tenant="acme")
            run = await app.start(outer, 7, id="one")
            with pytest.raises(
                RunParked, match=r"there is no definition 'names\.settle@\^1' here, and none is published"
            ):
                await run.result()
            await app.definitions.publish(settling())
            await run.resume()
            await (await child_of(app, "one")).signal("go", "ann")
            assert await run.result(30) == [14, "ann"]

    ground.play(main)
    assert CALLS == ["before", "double", "after"]
