"""Rule 16: while a call waits for people, the time of its node stands still. In virtual time: here minutes pass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import Holdfast, OutcomeUnknown, action
from tests.unit.worker.ground import FREE, OPTIONS, Ground, asked, asking, kill, rested

MINUTE = 60
DEFINITIONS = replace(OPTIONS, checkpoint_events=1)
LASTS: list[float] = []
UNSURE: list[bool] = []


@pytest.fixture
def ground() -> Ground:
    LASTS.clear()
    UNSURE.clear()
    return Ground(None)


@action(name="clocks.pay", connector="bank", operation="pay", risk="med")
async def pay() -> str:
    if UNSURE and UNSURE.pop():
        raise OutcomeUnknown("the line broke")
    await asyncio.sleep(LASTS.pop() if LASTS else 0)
    return "paid"


def paying(timeout: Any, **more: Any) -> dict[str, Any]:
    node = {
        "action": "clocks.pay",
        "as": "state.paid",
        "timeout": timeout,
        "on": {"timeout": [{"late": {"end": "late"}}]},
    }
    steps = [{"pay": {**node, **more}}, {"done": {"end": "=state.paid"}}]
    return {"holdfast": "definition/1", "name": "clocks.paying", "version": 1, "steps": steps}


async def begun(app: Holdfast, document: dict[str, Any]) -> Any:
    app.definitions.add(document)
    return await app.start("clocks.paying", id="one")


async def took(run: Any) -> float:
    info = await run.info()
    return float((info.ended_at - info.created_at).total_seconds())


@pytest.mark.parametrize("killed", [False, True])
def test_a_time_out_does_not_run_on_while_an_approval_is_waited_for(ground: Ground, killed: bool) -> None:
    """Nor does a worker that takes the run over let it."""

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS, policy=asking()) as app:
            run = await begun(app, paying("1m"))
            task = await asked(app, "one")
            await asyncio.sleep(5 * MINUTE)
            if not killed:
                await app.tasks.approve(task.id, by="bob")
                assert await run.result(60) == "paid"
            kill(app)
        async with ground.engine(options=DEFINITIONS, policy=asking()) as other:
            run = other.run("one")
            if killed:
                await asyncio.sleep(5 * MINUTE)
                await other.tasks.approve(task.id, by="bob")
            assert await run.result(60) == "paid"
            assert (await run.verify()).good

    ground.play(main)


def test_it_goes_on_when_the_answer_is_there_with_what_was_left_of_it(ground: Ground) -> None:
    """Of one minute nothing had passed: after five minutes of waiting the node has one more, and no more."""

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS, policy=asking()) as app:
            LASTS.append(2 * MINUTE)
            run = await begun(app, paying("1m"))
            task = await asked(app, "one")
            await asyncio.sleep(5 * MINUTE)
            await app.tasks.approve(task.id, by="bob")
            assert await run.result(2 * MINUTE) == "late"
            assert 6 * MINUTE <= await took(run) < 6 * MINUTE + 2
            assert (await run.verify()).good

    ground.play(main)


def test_the_answer_of_a_run_that_nobody_holds_moves_its_time(ground: Ground) -> None:
    """The run sleeps while it waits: it is not woken for a clock that stands still."""

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS, policy=asking()) as app:
            await begun(app, paying("1m"))
            row = await rested(app, "one")
            task = await asked(app, "one")
            assert row.wake_at == task.expires_at

    ground.play(main)


def test_so_it_is_while_people_find_out_what_became_of_an_act(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS, policy=FREE) as app:
            UNSURE.append(True)
            run = await begun(app, paying("1m"))
            task = await asked(app, "one")
            assert task.kind == "outcome"
            await asyncio.sleep(5 * MINUTE)
            await app.tasks.happened(task.id, by="bob", result="seen")
            assert await run.result(60) == "seen"

    ground.play(main)


def in_block(document: dict[str, Any]) -> dict[str, Any]:
    node = document["steps"][0]["pay"]
    limit = {name: node.pop(name) for name in ("timeout", "on")}
    return {**document, "steps": [{"block": {"do": [{"pay": node}], **limit}}, *document["steps"][1:]]}


def at_a_time(ground: Ground) -> dict[str, Any]:
    at = datetime.fromtimestamp(ground.clock.now() / 1e6).astimezone() + timedelta(minutes=1)
    return paying({"at": at.isoformat()})


@pytest.mark.parametrize("made", [lambda _: in_block(paying("1m")), at_a_time])
def test_the_time_of_a_block_and_a_time_of_day_go_on(ground: Ground, made: Callable[[Ground], dict[str, Any]]) -> None:
    """The approval is withdrawn then."""

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS, policy=asking()) as app:
            run = await begun(app, made(ground))
            task = await asked(app, "one")
            assert await run.result(2 * MINUTE) == "late"
            assert (await app.tasks.get(task.id)).status == "cancelled"

    ground.play(main)


def beside_a_signal() -> dict[str, Any]:
    """Paying, while a signal may wake the run."""
    document = paying("1m")
    pay = {**document["steps"][0]["pay"], "on": {"timeout": [{"late": {"set": {"state.paid": "late"}}}]}}
    both = {"fork": {"a": [{"pay": pay}], "b": [{"poked": {"wait": "poke"}}]}}
    return {**document, "steps": [{"both": both}, *document["steps"][1:]]}


@pytest.mark.parametrize("killed", [False, True])
def test_the_time_of_an_approval_that_was_superseded_does_not_count(ground: Ground, killed: bool) -> None:
    """A stricter policy asks anew. For the first answer time stood still, too, and a takeover does not forget it."""

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS, policy=asking("low")) as app:
            await begun(app, beside_a_signal())
            first = await asked(app, "one")
            await rested(app, "one")
            await asyncio.sleep(5 * MINUTE)
            kill(app)
        LASTS.append(2 * MINUTE)
        async with ground.engine(options=DEFINITIONS, policy=asking("med")) as stricter:
            await stricter.run("one").signal("poke")
            second = await asked(stricter, "one", other_than=first.id)
            assert (await stricter.tasks.get(first.id)).status == "cancelled"
            await asyncio.sleep(5 * MINUTE)
            if not killed:
                await finish(stricter, second.id)
            kill(stricter)
        if killed:
            async with ground.engine(options=DEFINITIONS, policy=asking("med")) as last:
                await finish(last, second.id)

    async def finish(app: Holdfast, task: str) -> None:
        """It has one minute from the answer on, and no more; and so it is shown."""
        run = app.run("one")
        (limit,) = (await run.instance()).engine.timers
        assert limit.due is None
        end = ground.clock.now() / 1e6 + MINUTE
        await app.tasks.approve(task, by="bob")
        while (due := (await run.instance()).engine.timers[0].due) is None:
            await app.changed(0.05)
        assert abs(due.timestamp() - end) < 2
        assert await run.result(3 * MINUTE) == "late"
        ended = (await run.info()).ended_at
        assert ended is not None
        assert abs(ended.timestamp() - end) < 2

    ground.play(main)
