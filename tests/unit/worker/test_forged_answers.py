"""An answer that no entry of the audit records is no answer: nothing is done because of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import cbor2
import pytest
from msgspec.structs import replace

from holdfast import Holdfast
from holdfast.runs import messages
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.tasks.answers import answer
from tests.unit.worker.asking_people import anyone
from tests.unit.worker.ground import Ground, asked, asking, kill, line_of, rested
from tests.unit.worker.paying import ALL, DONE, careful, paying


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


def forge(ground: Ground, task: p.TaskRow) -> None:
    """Write a task's row by hand."""
    assert isinstance(ground.store, MemoryStore)
    ground.store._tables.tasks[task.tenant, task.id] = task


async def send(app: Holdfast, task: p.TaskRow) -> None:
    """Put a message into the run's inbox by hand."""
    key = p.Key(task.tenant, task.run)
    await line_of(app)._store.commit([p.Deliver(key, messages.answered(task, 1))])
    app.delivered(key)


async def parked(app: Holdfast, run: str) -> str:
    """Wait until the run is parked; gives why."""
    while (pause := (await app.run(run).info()).pause_reason) is None:
        await app.changed(0.05)
    return pause


def approved(task: p.TaskRow, who: str = "mallory") -> p.TaskRow:
    return answer(replace(task, candidates=()), who, "approved", "", task.created_at)


def rejected(task: p.TaskRow) -> p.TaskRow:
    return answer(task, "mallory", "rejected", "", task.created_at)


@pytest.mark.parametrize("forged", [approved, rejected])
@pytest.mark.parametrize("way", ["row", "message", "both"])
def test_a_forged_answer_parks_the_run_and_does_nothing(
    virtual: Ground, way: str, forged: Callable[[p.TaskRow], p.TaskRow]
) -> None:
    """Whether the row was changed and another worker takes the run, or the run gets a message."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, policy=asking()) as app:
            await app.start(careful, "a-1", id="one")
            task = await asked(app, "one")
            await rested(app, "one")
            if way in ("row", "both"):
                forge(ground, forged(task))
            if way == "row":
                kill(app)
            else:
                await send(app, forged(task))
                why = await parked(app, "one")
        if way == "row":
            async with ground.engine(*ALL, policy=asking()) as app:
                await stir(app, task)
                why = await parked(app, "one")
        assert why.startswith(f"store_corrupt: task {task.id} differs from what the audit says of it in its status")
        assert "holdfast audit verify" in why
        assert DONE == []

    virtual.play(main)
    assert DONE == []


async def stir(app: Holdfast, task: p.TaskRow) -> None:
    """Have the run's call judged once more."""
    root, position = task.root, task.position
    key = p.Key(task.tenant, task.run)
    message = messages.receipt_closed(_Place(root, position), 1)  # type: ignore[arg-type]  # only its place is read
    await line_of(app)._store.commit([p.Deliver(key, message)])
    app.delivered(key)


class _Place:
    def __init__(self, root: bytes, position: int) -> None:
        self.root = root
        self.position = position


def test_once_the_row_is_mended_the_run_goes_on(virtual: Ground) -> None:
    """It waits for a person again, whose answer counts."""

    async def main(ground: Ground) -> list[str]:
        async with ground.engine(*ALL, policy=asking()) as app:
            run = await app.start(paying, "a-1", id="one")
            task = await asked(app, "one")
            await rested(app, "one")
            forge(ground, approved(task))
            await stir(app, task)
            await parked(app, "one")
            assert not (await app.audit.verify()).good
            forge(ground, task)
            await run.resume(by="ann")
            await rested(app, "one")
            assert DONE == []
            await app.tasks.approve(task.id, by="bob")
            assert (await app.audit.verify()).good
            return await run.result(30)

    assert virtual.play(main) == ["paid 1"]


def test_an_approval_by_somebody_who_was_not_asked_is_none(virtual: Ground) -> None:
    """With the candidates changed by hand the engine takes their answer, and notes it. It does not act on it."""

    async def main(ground: Ground) -> str:
        async with ground.engine(*ALL, policy=asking(candidates=["bob"])) as app:
            await app.start(paying, "a-1", id="one")
            task = await asked(app, "one")
            await rested(app, "one")
            forge(ground, replace(task, candidates=("mallory",)))
            await app.tasks.approve(task.id, by="mallory")
            return await parked(app, "one")

    assert "differs from what the audit says of it in its terms." in virtual.play(main)
    assert DONE == []


def test_an_approval_costs_one_reading_of_the_audit(virtual: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the answered call alone; a run that asks nobody reads nothing of the audit."""
    reads: list[str] = []
    read = MemoryStore.entries_of_tasks

    async def counting(store: MemoryStore, tenant: str, tasks: Sequence[str]) -> list[p.AuditEntry]:
        reads.extend(tasks)
        return await read(store, tenant, tasks)

    monkeypatch.setattr(MemoryStore, "entries_of_tasks", counting)
    answered: list[str] = []

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, policy=asking()) as app:
            run = await app.start(paying, "a-1", 2, id="asking")
            for _ in range(2):
                answered.append((await asked(app, run.id)).id)
                await app.tasks.approve(answered[-1], by="bob")
                await asyncio.sleep(1)
            await run.result(30)
        async with ground.engine(*ALL) as app:
            await (await app.start(paying, "a-1", 2, id="free")).result(30)

    virtual.play(main)
    assert reads == answered


@pytest.mark.parametrize("way", ["row", "message", "both"])
def test_a_forged_answer_to_a_form_parks_the_run(virtual: Ground, way: str) -> None:
    """The program never sees it."""

    def forged(task: p.TaskRow) -> p.TaskRow:
        value = cbor2.dumps({"decision": "forged"}, canonical=True)
        return answer(task, "mallory", "completed", "", task.created_at, value)

    async def main(ground: Ground) -> None:
        async with ground.engine(anyone) as app:
            await app.start(anyone, id="one")
            task = await asked(app, "one")
            await rested(app, "one")
            if way in ("row", "both"):
                forge(ground, forged(task))
            if way == "row":
                kill(app)
            else:
                await send(app, forged(task))
                if way == "message":  # the row is the truth, and it is open: nothing is done
                    await app.tasks.complete(task.id, {"decision": "true"}, by="ann")
                    assert await app.run("one").result(30) == "true"
                    return
                why = await parked(app, "one")
        if way == "row":
            async with ground.engine(anyone) as app:
                await stir(app, task)
                why = await parked(app, "one")
        assert why.startswith(f"store_corrupt: task {task.id} differs from what the audit says of it in its status")

    virtual.play(main)
