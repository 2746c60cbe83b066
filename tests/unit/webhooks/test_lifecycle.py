"""What runs and tasks do is told: noted by the worker in the commit that does it, and only where somebody is told."""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec
import pytest

from holdfast import Holdfast, WorkerOptions, ask, continue_as_new, receive, workflow
from holdfast.audit import records as r
from holdfast.audit.collector import entries_of
from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.store import protocol as p
from holdfast.webhooks.occurrences import WORKER
from holdfast.worker import lifecycle
from tests.unit.transports.server import Server

OPTIONS = WorkerOptions(retention_days=None)


class Review(msgspec.Struct):
    good: bool = True


@workflow(name="told.good")
async def good() -> str:
    return "done"


@workflow(name="told.bad")
async def bad() -> str:
    raise ValueError("a secret of the run")


@workflow(name="told.waits")
async def waits() -> str:
    return await receive("go", str)


@workflow(name="told.asks")
async def asks() -> bool:
    return (await ask("Is it good?", Review, candidates=["ann"])).good


@workflow(name="told.twice")
async def twice(left: int = 1) -> str:
    if left:
        continue_as_new(left - 1)
    return "done"


WORKFLOWS = [good, bad, waits, asks, twice]


async def seen_by(receiver: Server, wanted: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
    """Wait until what is wanted has come, and give all that has."""
    found: Counter[tuple[str, str]] = Counter()
    async with asyncio.timeout(60):
        while not wanted <= found:
            await asyncio.sleep(0.02)  # the receiver is a server in another thread
            found = Counter((each.json["type"], each.json["data"]["run"]) for each in receiver.seen)
    return found


def test_the_life_of_runs_and_tasks_is_told_whole_and_without_values(receiver: Server) -> None:
    """Each start, end and task once; a generation that continues is no end; a fork is a start."""

    async def main() -> None:
        async with Holdfast("memory://", workflows=WORKFLOWS, options=OPTIONS) as app:
            await app.subscriptions.create("ops", receiver.url, ["*"], by="ann")
            await app.worker._follower.look()  # type: ignore[union-attr]  # other workers know it within ten seconds
            for id, started in (("G", good), ("B", bad), ("W", waits), ("A", asks), ("T", twice)):
                await app.start(started, id=id)
            await app.run("W").settled(timeout=60)
            await app.run("W").pause(by="ann")
            await app.run("W").resume(by="ann")
            await app.run("W").cancel(by="ann")
            await app.run("A").settled(timeout=60)
            task = await anext(app.tasks.list(status="requested"))
            await app.tasks.claim(task.id, by="ann")
            await app.tasks.complete(task.id, {"good": True}, by="ann")
            for id in "GTA":
                await app.run(id).result(timeout=60)
            await app.run("B").settled(timeout=60)
            await app.run("B").retry(by="ann")
            wanted = Counter({(f"run.{event}", id): 1 for event, ids in {
                "started": "GBWAT", "completed": "GTA", "cancelled": "W", "paused": "W", "resumed": "W", "retried": "B",
            }.items() for id in ids})  # fmt: skip
            wanted.update({("run.failed", "B"): 2, ("task.opened", "A"): 1})
            wanted.update({("task.claimed", "A"): 1, ("task.completed", "A"): 1})
            assert await seen_by(receiver, wanted) == wanted
            texts = b"".join(request.body for request in receiver.seen)
            assert b"a secret of the run" not in texts
            assert b"Is it good" not in texts
            failed = next(request.json for request in receiver.seen if request.json["type"] == "run.failed")
            assert failed["data"]["error"] == "builtins:ValueError"
            fork = await app.run("G").fork(1, by="ann")
            wanted.update({("run.started", fork.id): 1, ("run.completed", fork.id): 1})
            assert await seen_by(receiver, wanted) == wanted

    asyncio.run(main())


async def noted(app: Holdfast, tenant: str = DEFAULT_TENANT) -> list[str]:
    found = [r.decode(entry.body) async for entry in entries_of(app.store, p.AuditQuery(tenant))]
    return [each.act for each in found if isinstance(each, r.Operated) and each.who == WORKER]


def test_a_parked_run_is_told_of(receiver: Server) -> None:
    """Its note is in the commit that parks it."""

    @workflow(name="told.parked")
    async def parked() -> None:
        await asyncio.get_running_loop().create_future()

    async def main() -> None:
        async with Holdfast("memory://", workflows=[parked], options=OPTIONS) as app:
            await app.subscriptions.create("ops", receiver.url, ["run.parked"], by="ann")
            await app.worker._follower.look()  # type: ignore[union-attr]
            await app.start(parked, id="P")
            found = await seen_by(receiver, Counter({("run.parked", "P"): 1}))
            assert found == {("run.parked", "P"): 1}

    asyncio.run(main())


def test_nothing_is_noted_where_nobody_is_told() -> None:
    """Neither without a subscription, nor for another tenant's, nor for one that hears of tasks alone."""

    async def main() -> None:
        async with Holdfast("memory://", workflows=WORKFLOWS, options=OPTIONS) as app:
            await app.subscriptions.create("tasks", "https://a.example/", ["task.*"], by="ann")
            await app.subscriptions.create("runs", "https://a.example/", ["run.retried"], tenant="else", by="ann")
            await app.worker._follower.look()  # type: ignore[union-attr]
            await (await app.start(good)).result(timeout=60)
            assert await noted(app) == []
            await (await app.start(good, tenant="else")).result(timeout=60)
            assert await noted(app, "else") == ["run.started", "run.completed"]

    asyncio.run(main())


def test_a_worker_that_could_not_look_for_long_notes_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may not know of a new subscription: what it does not know it does not leave out."""

    async def main() -> None:
        async with Holdfast("memory://", workflows=WORKFLOWS, options=OPTIONS) as app:
            worker = app.worker
            assert worker is not None
            monkeypatch.setattr(lifecycle, "FRESH_SECONDS", -1.0)
            await worker._follower.look()
            await (await app.start(good)).result(timeout=60)
            assert await noted(app) == ["run.started", "run.completed"]

    asyncio.run(main())


def test_evidence_and_verification_know_nothing_of_it() -> None:
    """The notes are the tenant's: a governed run's evidence is as it would be without them."""

    async def main() -> None:
        async with Holdfast("memory://", workflows=WORKFLOWS, options=OPTIONS) as app:
            await app.subscriptions.create("ops", "https://a.example/", ["run.*"], by="ann")
            await app.worker._follower.look()  # type: ignore[union-attr]
            await (await app.start(good, id="G")).result(timeout=60)
            rows = await app.store.entries(p.AuditQuery(DEFAULT_TENANT, run="G"), 100)
            assert [row for row in rows if b"run.completed" in row.body] == []
            assert (await app.audit.verify()).good

    asyncio.run(main())
