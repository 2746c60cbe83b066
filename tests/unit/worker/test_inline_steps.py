"""Steps that are written where they are called: durable like decorated ones."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from holdfast import (
    RetryPolicy,
    RunFailed,
    RunParked,
    TerminalError,
    heartbeat,
    join_set,
    perform,
    receive,
    step,
    step_info,
    workflow,
)
from holdfast.errors import InvalidFunction
from tests.runs import Run
from tests.unit.worker.ground import Ground, kill, until

DONE: list[Any] = []
GATES: dict[str, asyncio.Event] = {}


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()
    GATES.clear()


@dataclass
class Price:
    cents: int


class Shop:
    """An object whose method is a step."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    async def price(self, item: str) -> Price:
        DONE.append((item, step_info().key))
        return Price(len(item) * self.factor)


@workflow(name="inline.pricing")
async def pricing(items: list[str]) -> list[int]:
    shop = Shop(10)
    prices = [await perform("price", shop.price, item) for item in items]
    assert all(isinstance(price, Price) for price in prices)
    return [price.cents for price in prices]


def test_a_call_is_recorded_and_its_result_has_the_annotated_type(ground: Ground) -> None:
    """The journal has the name and the arguments; each place of each run has a key of its own."""

    async def main(ground: Ground) -> None:
        async with ground.engine(pricing) as app:
            first = await app.start(pricing, ["nut", "nut"], id="one")
            assert await first.result(30) == [30, 30]
            assert await (await app.start(pricing, ["nut"], id="two")).result(30) == [30]
            calls = [entry.fields async for entry in first.journal() if entry.event == "InvokeScheduled"]
            names = [(call["kind"], call["function_name"]) for call in calls]
            assert names == [("step", "price"), ("step", "price")]

    ground.play(main)
    assert len({key for _, key in DONE}) == 3


@workflow(name="inline.surviving")
async def surviving() -> list[Any]:
    async def slow(text: str) -> list[Any]:
        DONE.append(text)
        if len(DONE) == 1:
            GATES["begun"].set()
            await asyncio.Event().wait()
        return [text, step_info().begun_before]

    return await perform("slow", slow, "work")


def test_another_worker_begins_it_again_when_the_body_has_reached_the_call(ground: Ground) -> None:
    """The function died with its worker; the replayed body brings another, which knows that it was begun before."""

    async def main(ground: Ground) -> Any:
        GATES["begun"] = asyncio.Event()
        async with ground.engine(surviving) as app:
            await app.start(surviving, id="one")
            await GATES["begun"].wait()
            kill(app)
        async with ground.engine(surviving) as app:
            return await app.run("one").result(30)

    assert ground.play(main) == ["work", True]
    assert DONE == ["work", "work"]


@workflow(name="inline.once")
async def once() -> list[str]:
    async def note(text: str) -> str:
        DONE.append(text)
        return text

    first = await perform("note", note, "before")
    return [first, await receive("go", str), await perform("note", note, "after")]


def test_a_settled_call_is_not_done_again_in_a_replay(ground: Ground) -> None:
    async def main(ground: Ground) -> Any:
        async with ground.engine(once) as app:
            await app.start(once, id="one")
            await until(app, lambda: DONE == ["before"])
        async with ground.engine(once) as app:
            await app.run("one").signal("go", "now")
            return await app.run("one").result(30)

    assert ground.play(main) == ["before", "now", "after"]
    assert DONE == ["before", "after"]


@workflow(name="inline.patient")
async def patient() -> list[int]:
    async def flaky(fails: int) -> int:
        attempt = step_info().attempt
        DONE.append(step_info().key)
        if attempt <= fails:
            raise ConnectionError("nobody there")
        return attempt

    quick = RetryPolicy(max_attempts=4, initial=0.01)
    return [await perform("flaky", flaky, 2, retry=quick), await perform("flaky", flaky, 1, retries=1)]


def test_attempts_are_tried_again_under_one_key(ground: Ground) -> None:
    async def main(ground: Ground) -> Any:
        async with ground.engine(patient) as app:
            return await (await app.start(patient, id="one")).result(60)

    assert ground.play(main) == [3, 2]
    assert len(DONE) == 5
    assert len(set(DONE)) == 2


@workflow(name="inline.limited")
async def limited() -> list[Any]:
    async def long() -> None:
        await asyncio.Event().wait()

    async def resumed() -> Any:
        if step_info().progress is None:
            heartbeat(7)
            await asyncio.Event().wait()
        return step_info().progress

    try:
        await perform("long", long, timeout=0.05)
    except TimeoutError as error:
        said = str(error)
    return [said, await perform("resumed", resumed, heartbeat_timeout=0.2, retries=1)]


def test_time_limits_and_heartbeats_work(ground: Ground) -> None:
    async def main(ground: Ground) -> Any:
        async with ground.engine(limited) as app:
            return await (await app.start(limited, id="one")).result(60)

    assert ground.play(main) == ["step long failed: TimeoutError: the attempt took longer than 0.05 s", 7]


@step(name="inline.release")
async def release(seat: str) -> None:
    DONE.append(f"released {seat}")


@workflow(name="inline.undoing")
async def undoing() -> None:
    async def reserve(seat: str) -> str:
        return f"seat {seat}"

    seats = join_set()
    seats.submit(perform("reserve", reserve, "A", undo=release))
    await seats.next()
    raise TerminalError("no hotel")


def test_a_success_is_undone_and_join_sets_take_the_calls(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(undoing) as app:
            with pytest.raises(RunFailed, match="no hotel"):
                await (await app.start(undoing, id="one")).result(30)

    ground.play(main)
    assert DONE == ["released seat A"]


async def _fine() -> None: ...


def _plain() -> None: ...


@pytest.mark.parametrize(
    ("name", "function", "options"),
    [
        ("", _fine, {}),
        ("  ", _fine, {}),
        ("x" * 201, _fine, {}),
        (7, _fine, {}),
        ("plain", _plain, {}),
        ("lambda", lambda: _fine(), {}),
        ("partial", partial(_fine), {}),
        ("decorated", release, {}),
        ("both", _fine, {"retry": RetryPolicy(), "retries": 1}),
        ("never", _fine, {"timeout": 0}),
        ("undo", _fine, {"undo": _fine}),
    ],
)
def test_a_call_that_cannot_be_made_is_refused(name: Any, function: Any, options: Any) -> None:
    with pytest.raises(InvalidFunction):
        perform(name, function, **options)


def test_outside_of_a_workflow_it_is_just_a_call() -> None:
    """As with decorated steps, so that functions are tested alone."""

    async def double(number: int) -> int:
        return 2 * number

    assert asyncio.run(_awaited(perform("double", double, 4))) == 8


async def _awaited(call: Any) -> Any:
    return await call


@workflow(name="inline.forgetful")
async def forgetful() -> None:
    perform("fine", _fine)  # type: ignore[unused-coroutine]
    await receive("never")


def test_a_call_that_is_thrown_away_parks_the_run_at_once(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(forgetful) as app:
            with pytest.raises((RunParked, RunFailed), match="never awaited"):
                await (await app.start(forgetful, id="one")).result()

    ground.play(main)


@workflow(name="inline.raced")
async def raced() -> str:
    async def wait_for(text: str) -> str:
        await asyncio.Event().wait()
        return text

    for number in range(3):
        try:
            async with asyncio.timeout(1):
                await perform("wait", wait_for, str(number))
        except TimeoutError:
            continue
    return "over"


def test_the_program_keeps_no_function_of_a_call_that_is_over() -> None:
    """Neither of one that was given up, nor of one that was settled."""
    run = Run(raced)
    run.advance()
    assert len(run.execution.program.inline) == 1  # type: ignore[attr-defined]
    while not run.ended:
        run.advance(after=1)
    assert run.execution.program.inline == {}  # type: ignore[attr-defined]
