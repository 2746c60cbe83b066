"""Databases of earlier versions open, are brought up to date, and all runs in them reach their end."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, RunCancelled, RunFailed, Trigger, WorkerOptions, verify_evidence
from holdfast.errors import RunConflict
from holdfast.store.postgres.connection import driver
from holdfast.testing.postgres import PostgresServer
from tests.journals.stores import programs as g
from tests.journals.stores.kept import FOLDER, POLICY, load_sqlite, script

SCRIPTS = sorted(FOLDER.glob("*.sql"))
OPTIONS = WorkerOptions(retention_days=None, lease_seconds=1.5)


@pytest.fixture(params=SCRIPTS, ids=[path.name.removesuffix(".sql") for path in SCRIPTS])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database, as that version left it."""
    path: Path = request.param
    if ".sqlite." in path.name:
        load_sqlite(path, tmp_path / "kept.db")
        return f"sqlite:///{tmp_path / 'kept.db'}"
    postgres: PostgresServer = request.getfixturevalue("postgres")
    found = postgres.schema_url()
    asyncio.run(_load(found, script(path)))
    return found


async def _load(url: str, script: str) -> None:
    connection = await driver().connect(url)
    try:
        await connection.execute(script)
    finally:
        await connection.close()


def test_there_is_one_of_each_store() -> None:
    kinds = {path.name.split(".")[-2] for path in SCRIPTS}
    assert kinds == {"sqlite", "postgres"}


async def _make_older_triggers(url: str) -> None:
    """As if runs had been started by one trigger with ids of their own, and the oldest of them was a fork."""
    changes = """
        UPDATE runs SET trigger_type = 'höok', trigger_ref = '7' WHERE workflow = 'kept.signalled';
        UPDATE runs SET attributes = '{"forked_from": "x"}' WHERE id = 'large';
    """
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.executescript(changes)
    else:
        await _load(url, changes)


def test_the_oldest_run_of_a_trigger_is_found_in_a_database_of_an_earlier_version(url: str) -> None:
    """Whatever id it was given; a child, and a fork, are not the trigger's."""

    async def main() -> None:
        await _make_older_triggers(url)
        async with Holdfast(url, worker=False) as app:
            runs = [run async for run in app.list(workflow="kept.signalled") if run.id not in ("large", "parent~0")]
            first = min(runs, key=lambda run: (run.created_at, run.id))
            assert len(runs) > 1
            with pytest.raises(RunConflict, match=f"run '{first.id}' of tenant 'default' exists"):
                await app.start("kept.signalled", "other arguments", id="new", trigger=Trigger("höok", "7"))

    asyncio.run(main())


LEFT = {
    "large": "completed",
    "ordered": "completed",
    "booked": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "signal": "waiting",
    "signals": "waiting",
    "timer": "waiting",
    "parent": "waiting",
    "parent~0": "waiting",
    "queued": "waiting",
    "generations": "waiting",
    "approval": "waiting",
    "paused": "paused",
    "parked": "paused",
    "unknown": "running",
    "repeated": "running",
    "undoing": "running",
}
"""The statuses in which the runs were left."""

ENDS = {
    "large": ["x" * g.LARGE],
    "ordered": "paper ordered",
    "booked": "hall",
    "failed": "mended",
    "cancelled": "RunCancelled",
    "signal": ["small", "one"],
    "signals": ["y" * g.LARGE, "z" * g.LARGE, "two"],
    "timer": "awake",
    "parent": ["child", "three"],
    "parent~0": ["child", "three"],
    "queued": "from the queue",
    "generations": 2 + len("four"),
    "approval": "approved desk ordered",
    "paused": ["paused", "five"],
    "parked": "parked",
    "unknown": "seen in the shop",
    "repeated": "stage",
    "undoing": "RunFailed",
}
"""The results of the runs."""


def test_a_database_of_an_earlier_version_goes_on(url: str) -> None:
    """Every wait ends; acts that had begun are begun again or asked about; the kept data are complete."""

    async def main() -> None:
        async with Holdfast(url, worker=False) as app:
            await _is_whole(app)
            assert {run: await app.run(run).status() for run in LEFT} == LEFT
        async with Holdfast(url, options=OPTIONS, policy=POLICY) as app, asyncio.timeout(60):
            await _answer(app)
            await _goes_on_with_its_definition(app)
            assert {run: await _end(app, run) for run in ENDS} == ENDS
            await _uses_what_was_kept(app)
        async with Holdfast(url, worker=False) as app:
            await _is_whole(app)
            await _forgets_what_is_over(app)

    asyncio.run(main())


async def _is_whole(app: Holdfast) -> None:
    """Journals, rows, receipts, tasks and the chain are consistent, and evidence is trusted by its key."""
    for tenant in ("default", "other"):
        assert (await app.audit.verify(tenant=tenant)).good
    for run in ENDS:
        assert (await app.run(run).verify()).good
    keys = await app.audit.public_keys()
    for run, tenant in (("ordered", "default"), ("booked", "default"), ("elsewhere", "other")):
        evidence = await app.run(run, tenant=tenant).evidence()
        assert verify_evidence(evidence.data, trusted=keys).trusted


async def _answer(app: Holdfast) -> None:
    """Give each run what it waits for."""
    await app.run("signal").signal("go", "one")
    await app.run("signals").signal("go", "a repetition, which is not delivered", id="the first")
    await app.run("signals").signal("go", "two")
    await app.run("parent~0").signal("go", "three")
    await app.run("generations").signal("go", "four")
    await app.run("paused").resume(by="ann")
    await app.run("paused").signal("go", "five")
    await app.run("parked").resume(by="ann")
    await app.run("failed").retry(by="ann")
    await app.tasks.approve(await _asked(app, "approval"), by="eve")
    await app.tasks.happened(await _asked(app, "unknown"), by="eve", result="seen in the shop")


async def _goes_on_with_its_definition(app: Holdfast) -> None:
    """A run of a definition, where that version had them: with its next turn it has its reference."""
    if not [run async for run in app.list(tenant="default", workflow="kept.claim")]:
        return
    run = app.run("claimed")
    assert (await run.info()).reference in (None, "C-7")  # rows of schema 15 had none
    assert (await run.instance()).reference == "C-7"
    await app.tasks.complete(await _asked(app, "claimed"), {}, by="eve")
    assert await run.result(30) == ["7", "C-7"]
    assert [each.id async for each in app.list(reference="C-7")] == ["claimed"]
    published = await app.definitions.publish(g.CLAIM, by="eve")
    assert [each async for each in app.definitions.list()] == [published]


async def _asked(app: Holdfast, run: str) -> str:
    while True:
        async for task in app.tasks.list(run=run):
            return task.id
        await app.changed(0.05)


async def _end(app: Holdfast, run: str) -> Any:
    try:
        return await app.run(run).result(30)
    except (RunFailed, RunCancelled) as error:
        return type(error).__name__


async def _uses_what_was_kept(app: Holdfast) -> None:
    """An idempotency key still gives its result, and an id its run."""
    assert await (await app.start(g.booking, "hall", id="booked again")).result(30) == "hall"
    assert [receipt.run async for receipt in app.receipts.list(run="booked again")] == []
    assert await (await app.start(g.ordering, "paper", id="ordered")).result(30) == "paper ordered"
    undone = [line async for line in app.run("undoing").journal()]
    assert sum("kept.release" in repr(line) for line in undone) == 2


async def _forgets_what_is_over(app: Holdfast) -> None:
    """The blobs of deleted runs are deleted, and a receipt keeps its own."""
    while await app.store.prune(2**60, 100):
        pass
    (booked,) = [receipt async for receipt in app.receipts.list(run="booked")]
    assert booked.result == "hall" + "." * g.LARGE
    # The blobs of two bookings; and that of an order whose evidence is not made yet.
    assert (await app.store.facts()).blobs <= 3
