"""The work of a run grows with what it does, and not with the square of it. Operations are counted, not times."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, RunFailed, WorkerOptions, action, ask, continue_as_new, step, workflow
from holdfast.audit.check import receipts
from holdfast.audit.check.receipts import Accounted, check_receipts
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.store.sqlite.sql import GATE
from holdfast.store.sqlite.store import SqliteStore
from tests.operations import Count, counted_lines
from tests.scope import one_stays
from tests.unit.worker.asking_people import Review
from tests.unit.worker.ground import Ground, asking, kill, policy_of, until

SMALL = 40
LARGE = 160
TIMES = LARGE // SMALL
OPTIONS = WorkerOptions(retention_days=None, evidence=False)


@action(connector="outside", operation="act", name="growth.act")
async def act(number: int) -> int:
    return number


@step(name="growth.deed")
async def deed(number: int) -> int:
    DEEDS.append(number)
    return number


DEEDS: list[int] = []


@workflow(name="growth.wide")
async def wide(count: int) -> int:
    return sum(await asyncio.gather(*[act(number) for number in range(count)]))


@workflow(name="growth.forms")
async def forms(count: int) -> int:
    return len(await asyncio.gather(*[ask(f"form {number}", Review, groups=["g"]) for number in range(count)]))


@workflow(name="growth.form_after_form")
async def form_after_form(count: int) -> int:
    await ask(f"form {count}", Review, groups=["g"])
    if count > 1:
        continue_as_new(count - 1)
    return 0


@workflow(name="growth.act_after_act")
async def act_after_act(count: int) -> int:
    await act(count)
    if count > 1:
        continue_as_new(count - 1)
    return 0


@contextmanager
def entries_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[Count]:
    """Count the entries of the audit that are read, without those that the sealer reads."""
    count = Count()
    read: Callable[..., list[tuple[Any, ...]]] = SqliteStore._read

    def counting(store: SqliteStore, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        rows = read(store, sql, values)
        if "FROM audit" in sql and sql != GATE["unsealed"]:
            count.total += len(rows)
        return rows

    with monkeypatch.context() as patched:
        patched.setattr(SqliteStore, "_read", counting)
        yield count


async def open_tasks(app: Holdfast, run: str, count: int) -> list[str]:
    """Wait for the open tasks of a run; there are so many."""
    while len(found := [task.id async for task in app.tasks.list(run=run)]) < count:
        await app.changed(0.05)
    return found


async def complete(app: Holdfast, run: str, tasks: Sequence[str]) -> None:
    """Answer forms, each once the run has the answer before."""
    assert app.worker is not None
    held = app.worker.advancer.held
    for task in tasks:
        await app.tasks.complete(task, {"decision": "yes"}, by="ann", groups=["g"])
        await until(app, lambda: app.run(run).key not in held)


@pytest.mark.parametrize("way", one_stays(["together", "by generation"]))
def test_an_answer_to_a_form_reads_the_entries_of_its_task_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """However many forms the run has asked, at once or in its earlier generations."""

    async def answer(count: int) -> int:
        async with Holdfast(f"sqlite:///{tmp_path / str(count)}.db", options=OPTIONS) as app:
            with entries_read(monkeypatch) as read:
                if way == "together":
                    run = await app.start(forms, count, id="asking")
                    await complete(app, run.id, await open_tasks(app, run.id, count))
                else:
                    run = await app.start(form_after_form, count, id="asking")
                    for _ in range(count):
                        await complete(app, run.id, await open_tasks(app, run.id, 1))
                await run.result(30)
            return read.total

    small, large = asyncio.run(answer(SMALL)), asyncio.run(answer(LARGE))
    assert small >= 2 * SMALL, "each answer is held against its entries"
    assert large <= 1.2 * TIMES * small


@pytest.mark.parametrize("way", ["together", "by generation"])
def test_an_approval_reads_the_entries_of_its_task_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """However many acts the run waits to do, at once or in its earlier generations."""

    async def approve(count: int) -> int:
        policy = asking("low", candidates=["ann"])
        async with Holdfast(f"sqlite:///{tmp_path / str(count)}.db", policy=policy, options=OPTIONS) as app:
            assert app.worker is not None
            held = app.worker.advancer.held
            with entries_read(monkeypatch) as read:
                run = await app.start(wide if way == "together" else act_after_act, count, id="asking")
                for _ in range(1 if way == "together" else count):
                    for task in await open_tasks(app, run.id, count if way == "together" else 1):
                        await app.tasks.approve(task, by="ann")
                        await until(app, lambda: run.key not in held)
                await run.result(30)
            return read.total

    small, large = asyncio.run(approve(SMALL)), asyncio.run(approve(LARGE))
    assert small >= SMALL, "each approval is held against its entries"
    assert large <= 1.2 * TIMES * small


def test_acts_that_end_together_are_closed_each_at_the_same_cost(virtual: Ground) -> None:
    """A turn closes the receipts of all acts that have ended: none is compared with the others."""

    async def act_widely(ground: Ground, count: int) -> int:
        async with ground.engine(wide, policy=policy_of({}), options=OPTIONS) as app:
            with counted_lines("gate/run_calls.py") as lines:
                assert await (await app.start(wide, count)).result(30) == sum(range(count))
            return lines.total

    small = virtual.play(lambda ground: act_widely(ground, SMALL))
    large = virtual.play(lambda ground: act_widely(ground, LARGE))
    assert large <= 1.2 * TIMES * small


SAGA = {
    "holdfast": "definition/1",
    "name": "growing",
    "version": 1,
    "start": {"type": "object", "properties": {"items": {"type": "array", "items": {"type": "integer"}}}},
    "steps": [
        {
            "each": {
                "repeat": {"over": "=start.items", "item": "x"},
                "do": [
                    {
                        "deed": {
                            "step": "growth.deed",
                            "with": {"number": "=x"},
                            "undo": {"step": "growth.deed", "with": {"number": "=x"}},
                        }
                    }
                ],
            }
        },
        {"fail": {"raise": "ENOUGH"}},
    ],
}


def test_the_checkpoints_of_a_long_saga_are_written_by_its_length(
    virtual: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint of a saga has all deeds that are to be undone: the longer it is, the more events come before the
    next. The run is undone whole by a worker that has nothing but a checkpoint and what came since."""
    written: list[int] = []
    commit = MemoryStore.commit

    async def weighed(store: MemoryStore, batch: Sequence[p.Change]) -> list[p.Answer]:
        written.extend(len(each.checkpoint) for each in batch if isinstance(each, p.Advance) and each.checkpoint)
        return await commit(store, batch)

    monkeypatch.setattr(MemoryStore, "commit", weighed)

    async def play(ground: Ground, count: int) -> tuple[int, int]:
        written.clear()
        DEEDS.clear()
        deeds = [*range(count), *reversed(range(count))]
        async with ground.engine(definitions=[SAGA]) as app:
            run = await app.start("growing", {"items": list(range(count))})
            while len(DEEDS) < 1.5 * count:
                await app.changed(0.05)
            kill(app)
        async with ground.engine(definitions=[SAGA]) as app:
            with pytest.raises(RunFailed):
                await app.run(run.id).result()
        assert [*dict.fromkeys(DEEDS[:count]), *dict.fromkeys(DEEDS[count:])] == deeds
        return sum(written), len(written)

    (small, _), (large, times) = (virtual.play(lambda ground, n=n: play(ground, n)) for n in (200, 800))
    assert times > 5
    assert large <= 1.5 * 4 * small


async def governed(ground: Ground, count: int) -> None:
    """One run with so many acts, all at one moment, its end sealed and its evidence made."""
    options = WorkerOptions(retention_days=None)
    async with ground.engine(wide, policy=policy_of({}), options=options) as app:
        await (await app.start(wide, count, id="one")).result(30)
        while await ground.store.unsealed(1) or (await ground.store.get([p.Key("default", "one")]))[0].evidence is None:
            await app.changed(0.05)


def test_verifying_a_run_reads_each_entry_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each page of receipts, although all its entries are of the same moment."""
    small, large = 300, 1200

    async def verify(ground: Ground, count: int) -> int:
        await governed(ground, count)
        with entries_read(monkeypatch) as read:
            assert (await check_receipts(ground.store, "default")) == Accounted(count, None)
        return read.total

    totals = [Ground(tmp_path / f"{n}.db").play(lambda ground, n=n: verify(ground, n)) for n in (small, large)]
    assert totals[0] >= 2 * small
    assert totals[1] <= 1.2 * (large / small) * totals[0]


@pytest.mark.long
def test_verifying_takes_the_same_memory_for_an_audit_of_any_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Receipts are confirmed some at a time, large evidence is read in parts, and a journal is walked in pages."""
    monkeypatch.setattr(receipts, "ASIDE", 200)

    async def verify(ground: Ground, count: int) -> int:
        await governed(ground, count)
        async with ground.engine(wide) as app:
            tracemalloc.start()
            try:
                assert (await app.audit.verify()).good
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

    peaks = [Ground(tmp_path / f"{n}.db").play(lambda ground, n=n: verify(ground, n)) for n in (1000, 3000)]
    assert peaks[1] <= 1.6 * peaks[0], "only the first turn of the run, which is one segment, is longer"
