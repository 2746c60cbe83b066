"""Schedulers share very much work, and nothing waits for a worker that does not do its share."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from holdfast import Holdfast, workflow
from holdfast.client.operators import operator_note
from holdfast.schedules.schedule import KIND, Schedule, due_at, encode
from holdfast.schedules.timing import Once
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.worker.roles import scheduler
from holdfast.worker.roles.share import LOOK_SECONDS, Share


@workflow(name="shared.nothing")
async def nothing() -> None:
    pass


def rows(count: int) -> list[p.ItemRow]:
    return [p.ItemRow("acme", KIND, f"s{number}", 1, b"", due_at=1) for number in range(count)]


async def registered(store: p.Store, *workers: str) -> None:
    for worker in workers:
        await store.register(p.WorkerRow(worker, "here", 1, (), (), 0, 0), 3600)


def test_every_schedule_is_in_one_share() -> None:
    """Of about the same size. A worker that has gone leaves its share to the others."""

    async def main() -> None:
        store = MemoryStore()
        await store.open()
        await registered(store, "a", "b", "c")
        due = rows(300)
        shares = [await Share(store, worker).of(due, 0.0) for worker in "abc"]
        assert sorted(row.id for share in shares for row in share) == sorted(row.id for row in due)
        assert all(70 < len(share) < 130 for share in shares)
        one = Share(store, "a")
        assert await one.of(due, 0.0) == shares[0]
        await store.unregister("b", 0)
        await store.unregister("c", 0)
        assert await one.of(due, LOOK_SECONDS - 1) == shares[0]
        assert await one.of(due, LOOK_SECONDS) == due
        assert await Share(store, "unknown").of(due, 0.0) == due

    asyncio.run(main())


def test_who_finds_nothing_to_do_takes_whatever_is_due() -> None:
    """Until there was something to do again."""

    async def main() -> None:
        store = MemoryStore()
        await store.open()
        await registered(store, "a", "b")
        due, share = rows(100), Share(store, "a")
        mine = await share.of(due, 0.0)
        share.made(0)
        assert await share.of(due, 0.0) == due
        share.made(3)
        assert await share.of(due, 0.0) == mine
        others = [row for row in due if row not in mine]
        assert await share.of(others, 0.0) == others

    asyncio.run(main())


async def test_the_share_of_a_worker_without_a_scheduler_is_done_by_another(
    holdfast_app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, count = holdfast_app, 100
    monkeypatch.setattr(scheduler, "BATCH", 20)
    await registered(app.store, "other")
    now = app.clock.now()
    schedule = Schedule(timing=Once(now + 1), workflow="shared.nothing", cursor=now)
    for number in range(count):
        row = p.ItemRow("default", KIND, f"s{number}", 1, encode(schedule), "active", due_at(schedule, 0), now)
        note = msgspec.structs.replace(operator_note(app, "default", "made", "ann", None), id=f"made {number}")
        await app.store.commit([p.Operate(note, (p.PutItem(row),))])
    await asyncio.sleep(60)
    assert sum(each.count for each in await app.counts()) == count
