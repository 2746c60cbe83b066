"""Acts whose outcome is unknown and that no run waits for: people are asked, and their answer closes the receipt."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast import DidNotHappen, Happened, Holdfast, OutcomeUnknown, RunCancelled, RunFailed, action, step, workflow
from holdfast.store import protocol as p
from tests.unit.worker.ground import FREE, Ground, asked, kill, policy_of, receipts, until

DONE: list[str] = []
GO: list[threading.Event] = []


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()
    GO[:] = [threading.Event()]


@action(connector="bank", operation="pay", target="{to}", name="orphan.pay")
async def pay(to: str) -> str:
    DONE.append(f"begin {to}")
    await asyncio.to_thread(GO[0].wait, 60)
    DONE.append(f"paid {to}")
    return to


@action(connector="bank", operation="pay", target="{to}", name="orphan.lost")
async def lost(to: str) -> str:
    DONE.append(f"begin {to}")
    await asyncio.to_thread(GO[0].wait, 60)
    raise OutcomeUnknown("the line broke")


@action(connector="bank", operation="look", target="{to}", writes=False, name="orphan.look")
async def look(to: str) -> str:
    DONE.append(f"begin {to}")
    raise OutcomeUnknown("the line broke")


@step(name="orphan.refund")
async def refund(to: str) -> None:
    DONE.append(f"refund {to}")


@action(connector="bank", operation="set", target="{to}", safe_to_retry=True, retries=1, undo=refund, name="orphan.set")
async def set_safely(to: str) -> str:
    DONE.append(f"begin {to}")
    raise OutcomeUnknown("the line broke")


ACTIONS: dict[str, Any] = {"pay": pay, "lost": lost, "look": look, "set": set_safely}


@workflow(name="orphan.calling")
async def calling(how: str) -> str:
    result: str = await ACTIONS[how]("ann")
    return result


async def row_of_receipt(app: Holdfast) -> p.ReceiptRow:
    (row,) = await receipts(app)
    return row


async def closed(app: Holdfast, state: str) -> p.ReceiptRow:
    """Wait until the one receipt has this state, and nobody is asked about it."""
    while True:
        row = await row_of_receipt(app)
        if row.state == state and row.asked is None and not await app.store.orphaned_receipts(9):
            return row
        await app.changed(0.05)


ANSWERS: dict[str, tuple[str, Any]] = {
    "happened": ("succeeded", "ann"),
    "did_not_happen": ("failed", None),
    "give_up": ("unknown", None),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_run_ends_and_the_question_outlives_it(answer: str, tmp_path: Path) -> None:
    """The worker died in the act and the run was cancelled: it ends at once, a person is asked, and the answer closes
    the receipt. The audit tells one story of it."""
    state, result = ANSWERS[answer]

    async def main(ground: Ground) -> None:
        async with ground.engine(calling, policy=FREE) as app:
            run = await app.start(calling, "pay", id="one", actor="ann")
            await until(app, lambda: DONE == ["begin ann"])
            kill(app)
        GO[0].set()
        async with ground.engine(calling, policy=FREE) as app:
            run = app.run("one")
            await run.cancel("enough")
            with pytest.raises(RunCancelled):
                await run.result(30)
            task = await asked(app, "one")
            assert task.kind == "outcome"
            assert f"holdfast tasks show {task.id}" in await run.explain()
            more = {"result": result} if answer == "happened" else {}
            await getattr(app.tasks, answer)(task.id, by="ben", reason="I looked", **more)
            row = await closed(app, state)
            assert (row.abandoned, row.run) == (answer == "give_up", "one")
            assert "still asked" not in await run.explain()
            if answer == "happened":
                assert (await app.receipts.get(row.id)).result == "ann"
            assert await run.status() == "cancelled"
            found = await app.audit.verify()
            assert [claim.text for claim in found.claims if claim.state == "broken"] == []

    Ground(tmp_path / "store.db").play(main)


def test_an_act_under_way_is_not_asked_about(tmp_path: Path) -> None:
    """Its run is cancelled while its worker does it: the worker will say what became of it."""

    async def main(ground: Ground) -> None:
        async with ground.engine(calling, policy=FREE) as app:
            run = await app.start(calling, "pay", id="one", actor="ann")
            await until(app, lambda: DONE == ["begin ann"])
            await run.cancel("enough")
            with pytest.raises(RunCancelled):
                await run.result(30)
            assert app.worker is not None
            await app.worker._inquirer.round()
            assert await app.store.tasks(p.TaskQuery(None, None, "one"), 9) == []
            GO[0].set()
            await until(app, lambda: DONE == ["begin ann", "paid ann"])
            while (await row_of_receipt(app)).state != "succeeded":
                await app.changed(0.05)
            await app.worker._inquirer.round()
            await closed(app, "succeeded")
            assert await app.store.tasks(p.TaskQuery(None, None, "one"), 9) == []

    Ground(tmp_path / "store.db").play(main)


def test_an_act_that_ends_unknown_after_its_run_is_asked_about(tmp_path: Path) -> None:
    """The worker lives, and does not know either."""

    async def main(ground: Ground) -> None:
        async with ground.engine(calling, policy=FREE) as app:
            run = await app.start(calling, "lost", id="one", actor="ann")
            await until(app, lambda: DONE == ["begin ann"])
            await run.cancel("enough")
            with pytest.raises(RunCancelled):
                await run.result(30)
            GO[0].set()
            while not (await row_of_receipt(app)).closed_at:
                await app.changed(0.05)
            app.hint()
            task = await asked(app, "one")
            await app.tasks.did_not_happen(task.id, by="ben")
            await closed(app, "failed")

    Ground(tmp_path / "store.db").play(main)


def test_a_question_that_was_asked_before_is_the_one_that_stays(ground: Ground) -> None:
    """The run waits for the answer, and is cancelled: the same task is answered after its end."""

    async def main(ground: Ground) -> None:
        GO[0].set()
        async with ground.engine(calling, policy=FREE) as app:
            run = await app.start(calling, "lost", id="one", actor="ann")
            task = await asked(app, "one")
            await run.cancel("enough")
            with pytest.raises(RunCancelled):
                await run.result(30)
            assert (await row_of_receipt(app)).asked == task.id
            assert (await asked(app, "one")).id == task.id
            await app.tasks.happened(task.id, by="ben", result="ann")
            await closed(app, "succeeded")
            assert [each.id for each in await app.store.tasks(p.TaskQuery(None, None, "one"), 9)] == [task.id]

    ground.play(main)


def test_nobody_is_asked_about_reading(ground: Ground) -> None:
    """It changed nothing, whether it was done or not: its receipt says that it failed."""

    async def main(ground: Ground) -> None:
        async with ground.engine(calling, policy=FREE) as app:
            with pytest.raises(RunFailed):
                await (await app.start(calling, "look", id="one", actor="ann")).result(30)
            assert (await row_of_receipt(app)).state == "failed"
            assert await app.store.orphaned_receipts(9) == []

    ground.play(main)


def test_a_person_is_asked_when_the_attempts_of_a_safe_action_are_over(ground: Ground) -> None:
    """It was repeated as often as its author allows, and may have been done: the answer decides, and it is undone."""

    async def main(ground: Ground) -> None:
        async with ground.engine(calling, policy=FREE) as app:
            run = await app.start(calling, "set", id="one", actor="ann")
            task = await asked(app, "one")
            assert DONE == ["begin ann", "begin ann"]
            await run.cancel("enough")
            await app.tasks.happened(task.id, by="ben", result="ann")
            with pytest.raises(RunCancelled):
                await run.result(30)
            assert DONE == ["begin ann", "begin ann", "refund ann"]
            await closed(app, "succeeded")

    ground.play(main)


def test_a_question_is_withdrawn_if_another_run_finds_the_outcome_out(tmp_path: Path) -> None:
    """Another run has the same key, and a person answers there."""

    async def main(ground: Ground) -> None:
        async with ground.engine(keyed, policy=policy_of({})) as app:
            run = await app.start(keyed, id="one", actor="ann")
            await until(app, lambda: DONE == ["begin"])
            kill(app)
        GO[0].set()
        async with ground.engine(keyed, policy=policy_of({})) as app:
            run = app.run("one")
            await run.cancel("enough")
            with pytest.raises(RunCancelled):
                await run.result(30)
            first = await asked(app, "one")
            other = await app.start(keyed, id="two", actor="ann")
            second = await asked(app, "two")
            await app.tasks.happened(second.id, by="ben", result="done")
            assert await other.result(30) == "done"
            app.hint()
            await closed(app, "succeeded")
            assert (await app.tasks.get(first.id)).status == "cancelled"

    Ground(tmp_path / "store.db").play(main)


@action(connector="bank", operation="open", idempotency_key="account:1", name="orphan.keyed")
async def opening() -> str:
    DONE.append("begin")
    await asyncio.to_thread(GO[0].wait, 60)
    return "opened"


@workflow(name="orphan.keyed")
async def keyed() -> str:
    return await opening()


async def look_slowly() -> Any:
    DONE.append("probe")
    await asyncio.to_thread(GO[0].wait, 60)
    return FOUND[0]


FOUND: list[Any] = []


@action(connector="bank", operation="close", probe=look_slowly, name="orphan.probed")
async def probed() -> str:
    DONE.append("begin")
    raise OutcomeUnknown("the line broke")


@workflow(name="orphan.probing")
async def probing() -> str:
    return await probed()


@pytest.mark.parametrize(("found", "state"), [(Happened("closed"), "succeeded"), (DidNotHappen(), "failed")])
def test_a_probe_that_its_run_no_longer_waits_for_closes_the_receipt(found: Any, state: str, tmp_path: Path) -> None:
    """The run is cancelled while the probe looks: it ends, and what the probe finds is recorded."""
    FOUND[:] = [found]

    async def main(ground: Ground) -> None:
        async with ground.engine(probing, policy=FREE) as app:
            run = await app.start(probing, id="one", actor="ann")
            await until(app, lambda: DONE == ["begin", "probe"])
            await run.cancel("enough")
            with pytest.raises(RunCancelled):
                await run.result(30)
            GO[0].set()
            while (await row_of_receipt(app)).state != state:
                await app.changed(0.05)
            app.hint()
            await closed(app, state)
            assert await app.store.tasks(p.TaskQuery(None, "requested", "one"), 9) == []

    Ground(tmp_path / "store.db").play(main)
