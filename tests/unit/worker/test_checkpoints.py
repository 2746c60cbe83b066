"""Workers write checkpoints with the turn, go on from them, and can do without."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import cbor2
import pytest
from msgspec.structs import replace

from holdfast import Holdfast, WorkerOptions, receive, workflow
from holdfast.journal import cbor
from holdfast.store import protocol as p
from holdfast.store.memory.store import MemoryStore
from tests.laws.programs import perform
from tests.strands import Script, Strands, strands

OPTIONS = WorkerOptions(checkpoint_events=10, warm_limit=0, queues={})
STEPS = [["undoable", f"s{number}", 0] for number in range(8)]
SCRIPT = Script([[*STEPS, ["receive", "go"], ["step", "last", 0]]])


@workflow(name="checkpoints.plain")
async def plain() -> str:
    for number in range(8):
        await perform(f"p{number}", 0)
    return str(await receive("go"))


@pytest.fixture(autouse=True)
def nothing_restored() -> None:
    Strands.restored.clear()


def app_on(store: MemoryStore) -> Holdfast:
    return Holdfast(store.twin(), options=OPTIONS, workflows=[strands, plain])


async def at_rest(app: Holdfast, *ids: str) -> None:
    while True:
        rows = await app.store.get([p.Key("default", id) for id in ids])
        if len(rows) == len(ids) and all(run.standing == "waiting" and run.owner is None for run in rows):
            return
        await asyncio.sleep(0.005)


async def waiting(store: MemoryStore, *ids: str) -> None:
    """Runs that have done their steps and wait, with no worker."""
    async with app_on(store) as app:
        for id in ids:
            await app.start(strands, SCRIPT, id=id)
        await at_rest(app, *ids)


async def finish(store: MemoryStore, *ids: str) -> list[object]:
    """Another worker takes them over."""
    async with app_on(store) as app:
        handles = [app.run(id) for id in ids]
        for handle in handles:
            await handle.signal("go", "now")
        return [await asyncio.wait_for(handle.result(), 60) for handle in handles]


def checkpoints(store: MemoryStore) -> dict[p.Key, p.CheckpointRow]:
    return store._tables.checkpoints


async def opened() -> MemoryStore:
    store = MemoryStore()
    await store.open()
    return store


def test_a_run_is_taken_over_from_its_checkpoint_and_the_tail() -> None:
    """And its checkpoint is gone when it has ended."""

    async def whole() -> None:
        store = await opened()
        await waiting(store, "one")
        key = p.Key("default", "one")
        loaded = (await store.load([key]))[key]
        assert loaded.checkpoint is not None
        assert sum(segment.count for segment in loaded.segments) < 10
        (result,) = await finish(store, "one")
        assert "last" in str(result)
        assert len(Strands.restored) >= 1
        assert checkpoints(store) == {}

    asyncio.run(whole())


def test_a_function_has_none() -> None:
    """However long it is."""

    async def whole() -> None:
        store = await opened()
        async with app_on(store) as app:
            handle = await app.start(plain, id="one")
            await at_rest(app, "one")
            assert checkpoints(store) == {}
            await handle.signal("go", "now")
            assert await handle.result() == "now"

    asyncio.run(whole())


def other_format(row: p.CheckpointRow) -> p.CheckpointRow:
    _, digest, content = cbor2.loads(row.data)
    return replace(row, data=cbor.canonical(["holdfast checkpoint/99", digest, content]))


def other_byte(row: p.CheckpointRow) -> p.CheckpointRow:
    return replace(row, data=row.data[:-1] + bytes([row.data[-1] ^ 1]))


SPOILT: dict[str, Callable[[p.CheckpointRow], p.CheckpointRow]] = {
    "its format is 'holdfast checkpoint/99'": other_format,
    "it is damaged": other_byte,
    "it belongs to another journal": lambda row: replace(row, head=b"h" * 32),
}


@pytest.mark.parametrize("reason", SPOILT)
def test_one_that_cannot_be_used_costs_a_replay_and_nothing_else(reason: str, caplog: pytest.LogCaptureFixture) -> None:
    """The worker says so once, whatever the number of runs."""

    async def whole() -> None:
        store = await opened()
        await waiting(store, "one", "two")
        for key, row in checkpoints(store).items():
            checkpoints(store)[key] = SPOILT[reason](row)
        with caplog.at_level(logging.WARNING, "holdfast.worker"):
            results = await finish(store, "one", "two")
        assert all("last" in str(result) for result in results)

    asyncio.run(whole())
    assert not Strands.restored
    complaints = [record.getMessage() for record in caplog.records if "checkpoint" in record.getMessage()]
    assert len(complaints) == 1
    assert reason in complaints[0]


@pytest.mark.parametrize("changed", ["code", "format"])
def test_other_code_does_not_go_on_from_it(
    changed: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What code with another digest, or another format of its own, made of the journal may be something else."""

    async def whole() -> None:
        store = await opened()
        await waiting(store, "one")
        if changed == "code":
            monkeypatch.setattr(strands, "digest", "other")
        else:
            monkeypatch.setattr("tests.strands.FORMAT", 2)
        (result,) = await finish(store, "one")
        assert "last" in str(result)

    asyncio.run(whole())
    assert "is not used" in caplog.text


def test_all_checkpoints_may_be_deleted() -> None:
    """They are only a cache."""

    async def whole() -> None:
        store = await opened()
        await waiting(store, "one", "two")
        checkpoints(store).clear()
        results = await finish(store, "one", "two")
        assert all("last" in str(result) for result in results)

    asyncio.run(whole())
    assert not Strands.restored
