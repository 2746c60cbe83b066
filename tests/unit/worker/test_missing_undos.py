"""What was done waits for the step that undoes it: its run parks, and goes on where a worker has the step."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import Holdfast, RunCancelled, action, step, workflow
from holdfast.audit.records import Operated
from holdfast.errors import RunFailed, RunParked
from tests.unit.worker.ground import OPTIONS, Ground, kill, notes, rested

CALLS: list[str] = []
HELD: list[asyncio.Event] = []
DEFINITIONS = replace(OPTIONS, checkpoint_events=1)
PARKED = r"step_missing: no step 'undos\.(free|repay)' is here: start a worker whose code defines it"
UNDOS = ["undos.free", "undos.repay"]


@pytest.fixture(autouse=True)
def nothing_called() -> None:
    CALLS.clear()
    HELD.clear()


async def undone(what: str) -> None:
    CALLS.append(what)
    if HELD:
        await HELD.pop().wait()


@step(name="undos.free")
async def free(what: str) -> None:
    await undone(f"free {what}")


@step(name="undos.book", undo=free)
async def book(what: str) -> str:
    CALLS.append(f"book {what}")
    return what


@action(connector="bank", operation="repay", target="{what}", name="undos.repay", safe_to_retry=True)
async def repay(what: str) -> str:
    await undone(f"repay {what}")
    return what


@action(connector="bank", operation="pay", target="{what}", undo=repay, name="undos.pay")
async def pay(what: str) -> str:
    CALLS.append(f"pay {what}")
    return what


@workflow(name="undos.trip")
async def trip(calls: str) -> None:
    await (book if calls == "undos.book" else pay)("hotel")
    await book("flight") if calls == "undos.pay" else await pay("flight")
    raise ArithmeticError("no seats")


def flow(calls: str) -> dict[str, Any]:
    first, second = (("step", "undos.book"), ("action", "undos.pay"))
    if calls == "undos.pay":
        first, second = second, first
    steps = [
        {"hotel": {first[0]: first[1], "with": {"what": "hotel"}}},
        {"flight": {second[0]: second[1], "with": {"what": "flight"}}},
        {"over": {"raise": {"code": "FULL", "message": "no seats"}}},
    ]
    return {"holdfast": "definition/1", "name": "undos.flow", "version": 1, "steps": steps}


async def begun(app: Holdfast, kind: str, calls: str) -> Any:
    if kind == "function":
        return await app.start(trip, calls, id="one")
    app.definitions.add(flow(calls))
    return await app.start("undos.flow", id="one")


async def ends(run: Any) -> None:
    with pytest.raises(RunFailed, match="no seats") as caught:
        await run.result(60)
    assert "taken back" not in str(caught.value)
    assert (await run.verify()).good


kinds = pytest.mark.parametrize("kind", ["function", "definition"])
calls = pytest.mark.parametrize("calls", ["undos.book", "undos.pay"])


def order_of(calls: str) -> list[str]:
    if calls == "undos.book":
        return ["book hotel", "pay flight", "repay flight", "free hotel"]
    return ["pay hotel", "book flight", "free flight", "repay hotel"]


@kinds
@calls
def test_a_run_waits_for_a_worker_that_can_undo(ground: Ground, kind: str, calls: str) -> None:
    """It did not fail: a failed undo is not done again. It goes on by itself, and the audit says why."""

    async def main(ground: Ground) -> None:
        async with ground.engine(trip, options=DEFINITIONS, without=UNDOS) as old:
            run = await begun(old, kind, calls)
            with pytest.raises(RunParked, match=PARKED):
                await run.result()
        async with ground.engine(trip, options=DEFINITIONS) as new:
            await ends(new.run("one"))
            (resumed,) = [each for each in await notes(new, Operated) if each.act == "resume"]
            assert (resumed.who, resumed.run) == ("worker", "one")

    ground.play(main)
    assert order_of(calls) == CALLS


@kinds
@calls
def test_an_undo_that_was_asked_for_waits_for_a_worker_that_has_it(ground: Ground, kind: str, calls: str) -> None:
    """The worker died while it was under way. A cancellation does not end the wait, and the undo is not left out."""

    async def main(ground: Ground) -> None:
        HELD.append(asyncio.Event())
        async with ground.engine(trip, options=DEFINITIONS) as first:
            await begun(first, kind, calls)
            while len(CALLS) < 3:
                await first.changed(0.05)
            kill(first)
        async with ground.engine(trip, options=DEFINITIONS, without=UNDOS) as second:
            run = second.run("one")
            with pytest.raises(RunParked, match=PARKED):
                await run.result()
            await run.cancel("enough")
            await parked_again(second)
        async with ground.engine(trip, options=DEFINITIONS) as third:
            with pytest.raises((RunFailed, RunCancelled)):
                await third.run("one").result(60)
            assert (await third.run("one").verify()).good

    ground.play(main)
    undos = order_of(calls)[2:]
    assert [*order_of(calls)[:2], undos[0], *undos] == CALLS


async def parked_again(app: Holdfast) -> None:
    while not (row := await rested(app, "one")).pause or row.arrived == 0:
        await app.changed(0.05)


@kinds
@calls
def test_a_worker_that_cannot_undo_leaves_the_run_to_one_that_can(ground: Ground, kind: str, calls: str) -> None:
    """While a version is rolled out, nothing parks."""

    async def main(ground: Ground) -> None:
        async with (
            ground.engine(trip, options=DEFINITIONS, without=UNDOS) as old,
            ground.engine(trip, options=DEFINITIONS) as new,
        ):
            await ends(await begun(old, kind, calls))
            assert [each for each in await notes(new, Operated) if each.act == "resume"] == []

    ground.play(main)
    assert order_of(calls) == CALLS


def test_a_worker_without_the_step_does_not_let_the_run_go_on(virtual: Ground) -> None:
    """And one that has it, but not the next one, tries it once."""

    async def main(ground: Ground) -> None:
        async with ground.engine(trip, options=DEFINITIONS, without=UNDOS) as old:
            run = await begun(old, "function", "undos.book")
            with pytest.raises(RunParked, match=PARKED):
                await run.result()
            await asyncio.sleep(120)
            assert await resumptions(old) == 0
        async with ground.engine(trip, options=DEFINITIONS, without=["undos.free"]) as half:
            await asyncio.sleep(120)
            with pytest.raises(RunParked, match=r"undos\.free"):
                await half.run("one").result()
            assert await resumptions(half) == 1
            assert CALLS == ["book hotel", "pay flight", "repay flight"]
        async with ground.engine(trip, options=DEFINITIONS) as new:
            await ends(new.run("one"))
            assert await resumptions(new) == 2

    virtual.play(main)
    assert order_of("undos.book") == CALLS


async def resumptions(app: Holdfast) -> int:
    return len([each for each in await notes(app, Operated) if each.act == "resume"])
