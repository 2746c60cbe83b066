"""Advice: each stall has a code and a way out, which the sentences are written from."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace

from holdfast import Holdfast, RetryPolicy, action, receive, step, workflow
from holdfast.client.runs.explanation import explain
from holdfast.client.runs.parking import ENDINGS, what_ends
from holdfast.people.permissions import LEAST
from holdfast.programs.machine.handle import Cell
from holdfast.programs.machine.machine import machine
from holdfast.programs.machine.occurrences import Settled
from holdfast.programs.machine.schemas import schema
from holdfast.runs.advice import MEANINGS, Advice, AdviceCode
from holdfast.runs.lanes import lane_id
from holdfast.store import protocol as p
from tests.unit.client.machines.shop import Placed, handled, order
from tests.unit.worker.ground import OPTIONS, Ground, asking, kill, rested

FAR: Final = "advice-far"


@step(name="advice.far", queue=FAR, retry=RetryPolicy(max_attempts=2, initial=60.0, maximum=60.0, jitter=0.0))
async def far() -> None:
    raise OSError("no")


@workflow(name="advice.reaching")
async def reaching() -> None:
    await far()


@workflow(name="advice.sleeping")
async def sleeping() -> None:
    await asyncio.sleep(60)


@action(connector="bank", operation="pay", name="advice.pay")
async def pay(name: str) -> str:
    return name


@workflow(name="advice.paying")
async def paying() -> str:
    return await pay("ann")


@step(name="advice.long")
async def long() -> None:
    await asyncio.sleep(3600)


@workflow(name="advice.busy")
async def busy() -> None:
    await asyncio.gather(pay("ann"), long())


@workflow(name="advice.child")
async def child() -> None:
    try:
        await receive("go")
    finally:
        await receive("cleaned")


@workflow(name="advice.family")
async def family(children: int) -> None:
    await asyncio.gather(*(child() for _ in range(children)))


def codes(advice: Any) -> list[AdviceCode]:
    return [each.code for each in advice]


async def asked(app: Holdfast) -> str:
    """The id of the one open task."""
    while not (tasks := [task.id async for task in app.tasks.list()]):
        await app.changed(1)
    return tasks[0]


def test_every_code_means_something_that_can_be_done() -> None:
    """What somebody does has a command, and an operation that is in the table of who may do what."""
    for code in AdviceCode:
        found = MEANINGS[code]
        assert bool(found.command) == (found.sort == "act")
        assert bool(found.operation) == bool(found.call)
        assert not found.operation or found.operation in LEAST


@pytest.mark.parametrize(
    ("reason", "code", "command"),
    [
        ("paused by request: lunch", "resume", "holdfast resume one"),
        ("no step 'x' is here: deploy code that has it", "mend_code", "holdfast resume one"),
        ("retry_diverged: pay was done before", "choose_result", "holdfast retry one --again NAME"),
        ("poison: 4 times in a row", "find_crash", "holdfast resume one"),
        ("store_corrupt: a hash", "verify", "holdfast verify one"),
        ("its journal in the store cannot be read (x)", "verify", "holdfast verify one"),
        ("manifest: no worker has it", "fit_manifest", "holdfast worker APP"),
        ("a manifest is being applied: proposal p-1", "finish_manifest", "holdfast machines apply p-1"),
    ],
)
def test_a_pause_has_a_code_by_its_reason_and_the_command_is_in_the_sentence(
    virtual: Ground, reason: str, code: str, command: str
) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(sleeping, worker=False) as app:
            await app.start(sleeping, id="one")
            (row,) = await app.store.get([p.Key("default", "one")])
            found = await explain(app.store, replace(row, pause=reason), row.updated_at)
            (advice,) = found.advice
            assert (advice.code, advice.command) == (code, command)
            assert f"`{command}`" in found.text
            assert found.text == advice.sentence

    assert {what_ends(beginning) for beginning in ENDINGS} <= set(AdviceCode)
    virtual.play(main)


def test_a_step_that_is_to_be_tried_again_on_a_queue_that_nobody_serves_says_so(virtual: Ground) -> None:
    """Its time passes, and no worker takes it."""

    async def main(ground: Ground) -> None:
        serving = msgspec.structs.replace(OPTIONS, queues={FAR: 1})
        async with ground.engine(reaching, options=serving) as app:
            run = await app.start(reaching, id="one")
            while codes(await run.advice())[:1] != [AdviceCode.WAIT_ATTEMPT]:
                await app.changed(1)
            kill(app)
            async with ground.engine(reaching, options=msgspec.structs.replace(OPTIONS, queues={})) as other:
                await asyncio.sleep(120)
                (advice,) = await other.run("one").advice()
                assert (advice.code, advice.thing) == (AdviceCode.SERVE_QUEUE, FAR)
                assert advice.command == f"holdfast worker APP --queues {FAR}=1"

    virtual.play(main)


def test_a_time_that_has_come_is_missed_by_workers_that_do_not_have_the_code(virtual: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(sleeping) as app:
            await app.start(sleeping, id="one")
            await rested(app, "one")
            kill(app)
        async with ground.engine(paying, without=(sleeping.name,)) as other:
            await asyncio.sleep(120)
            (row,) = await other.store.get([p.Key("default", "one")])
            found = await explain(other.store, row, ground.clock.now())
            if row.ready_at is None:
                assert codes(found.advice) == [AdviceCode.SERVE_CODE, AdviceCode.WAIT_TIME]
            assert AdviceCode.SERVE_CODE in codes(found.advice)

    virtual.play(main)


def test_an_approval_whose_time_is_over_waits_for_a_worker_and_not_for_a_person(virtual: Ground) -> None:
    """An answer would be refused."""

    async def main(ground: Ground) -> None:
        async with ground.engine(paying, policy=asking(expires_in="1h")) as app:
            run = await app.start(paying, id="one")
            id = await asked(app)
            await rested(app, "one")
            (advice,) = await run.advice()
            assert (advice.code, advice.thing) == (AdviceCode.APPROVE, id)
            kill(app)
        async with ground.engine(worker=False) as reader:
            await asyncio.sleep(2 * 3600)
            found = await reader.run("one").advice()
            assert codes(found) == [AdviceCode.START_WORKER, AdviceCode.WAIT_WORKER]

    virtual.play(main)


def test_what_people_are_asked_is_said_while_a_worker_is_at_something_else(virtual: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(busy, policy=asking()) as app:
            run = await app.start(busy, id="one")
            id = await asked(app)
            first, second = await run.advice()
            assert (first.code, second.code, second.thing) == (AdviceCode.AT_WORK, AdviceCode.APPROVE, id)
            assert f"`holdfast approve {id} --as NAME`" in await run.explain()

    virtual.play(main)


def test_a_task_that_nobody_may_answer_ends_with_its_run(virtual: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(paying, policy=asking("high", candidates=["ann"])) as app:
            run = await app.start(paying, id="one", actor="ann")
            id = await asked(app)
            await rested(app, "one")
            (advice,) = await run.advice()
            assert (advice.code, advice.thing, advice.more) == (AdviceCode.CANCEL_RUN, "one", id)
            assert advice.command == "holdfast cancel one"

    virtual.play(main)


def test_a_run_of_many_children_may_be_let_end_without_them(virtual: Ground) -> None:
    """Its row shows the first twenty waits, and never leaves this one out."""

    async def main(ground: Ground) -> None:
        async with ground.engine(family, child) as app:
            run = await app.start(family, 30, id="one")
            await rested(app, "one")
            await run.cancel()
            while not (await rested(app, "one")).cancelling:
                await app.changed(1)
            found = await run.advice()
            assert [each.thing for each in found if each.code == AdviceCode.LEAVE_CHILDREN] == ["one"]
            assert codes(found).count(AdviceCode.FOLLOW_CHILD) == 20
            assert {each.run for each in found} - {""} == {"one~0", "one~1", "one~2"}

    virtual.play(main)


def test_a_child_that_is_not_there_is_told_from_one_that_has_ended(virtual: Ground) -> None:
    """The first never reports; the end of the other is on its way."""

    async def main(ground: Ground) -> None:
        async with ground.engine(family, child) as app:
            await app.start(family, 1, id="one")
            row = await rested(app, "one")
            assert row.waiting is not None
            await app.run("one~0").signal("go")
            await app.run("one~0").signal("cleaned")
            await app.run("one").result(60)
            for named, code in {"one~0": AdviceCode.WAIT_CALL, "one~9": AdviceCode.VERIFY}.items():
                waiting = row.waiting.replace('"one~0"', f'"{named}"')
                found = await explain(app.store, replace(row, waiting=waiting), ground.clock.now())
                assert codes(found.advice) == [code]

    virtual.play(main)


def test_a_lane_waits_for_events_and_nobody_is_told_to_signal_it(virtual: Ground) -> None:
    """Signals to lanes are refused."""

    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            app.machine_kind.machines = {order.name: order}
            await handled(app, await app.emit(Placed("o1", 5, "fee")), "o1")
            lane = lane_id(order.name, app.cell(order, "o1").lane)
            await rested(app, lane)
            (advice,) = await app.run(lane).advice()
            assert (advice.code, advice.command) == (AdviceCode.AWAITS_EVENT, "")

    virtual.play(main)


@schema("advice/Sent@1")
@dataclass
class Sent:
    key: str
    after: float = 0.0


@machine(key="key", effects=[far], name="advice.machine", lanes=1)
def sending(state: str | None, event: Sent | Settled, cell: Cell) -> str | None:
    if isinstance(event, Sent) and event.after:
        cell.send(Sent(cell.key), after=timedelta(seconds=event.after))
    elif isinstance(event, Sent):
        cell.do(far)
    return "sent"


def test_a_cell_names_the_queue_that_nobody_serves_and_the_worker_that_its_timer_misses(virtual: Ground) -> None:
    async def main(ground: Ground) -> None:
        without = msgspec.structs.replace(OPTIONS, queues={})
        async with ground.engine(options=without) as app:
            app.machine_kind.machines = {sending.name: sending}
            await app.emit(Sent("a"))
            await app.emit(Sent("b", 60.0))
            await asyncio.sleep(10)
            (advice,) = (await app.cell(sending, "a").diagnose()).causes
            assert (advice.code, advice.thing) == (AdviceCode.SERVE_QUEUE, FAR)
            (advice,) = (await app.cell(sending, "b").diagnose()).causes
            assert advice.code == AdviceCode.WAIT_TIME
            kill(app)
        async with ground.engine(worker=False) as reader:
            reader.machine_kind.machines = {sending.name: sending}
            await asyncio.sleep(120)
            found = (await reader.cell(sending, "b").diagnose()).causes
            assert codes(found) == [AdviceCode.START_WORKER, AdviceCode.WAIT_TIME]

    virtual.play(main)


def test_advice_is_written_as_json() -> None:
    """With its code as text."""
    found = Advice(code=AdviceCode.RESUME, sentence="It is paused.", thing="one", command="holdfast resume one")
    assert msgspec.to_builtins(found)["code"] == "resume"
