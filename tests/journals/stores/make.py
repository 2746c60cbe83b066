"""Make the databases of this version, unless they exist: ``python -m tests.journals.stores.make NAME``.

They are copied while a worker is running, as a crash would leave them. Each is a script of SQL in which a long sequence
of one byte is shortened: ``<78*33000>`` means 33000 bytes of value 78. PostgreSQL's is made with ``pg_dump``. The
signing keys were made for these databases and sign nothing else.
"""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from holdfast import Holdfast, RunCancelled, RunFailed, RunHandle, WorkerOptions
from holdfast.programs.function import failures
from holdfast.testing.postgres import server
from tests.journals.stores import programs as g
from tests.journals.stores.kept import FOLDER, POLICY

BEGINNING = 1_700_000_000_000_000
DIED = f"UPDATE workers SET expires_at = {BEGINNING};\n"  # they have expired, at any time of the clock
KNOWN = "UPDATE deliveries SET at = 4000000000000000;\n"  # ids of messages are forgotten after some days
OPTIONS = WorkerOptions(retention_days=None, queues={}, lease_seconds=3600.0)


class PastClock:
    """Real time, shifted some years into the past: all waits are over when a test opens the database."""

    def __init__(self) -> None:
        self._began = time.monotonic_ns()

    def now(self) -> int:
        return BEGINNING + (time.monotonic_ns() - self._began) // 1000


def engine(url: str, clock: PastClock) -> Holdfast:
    return Holdfast(url, options=OPTIONS, clock=clock, policy=POLICY.name)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await holds():  # noqa: ASYNC110  # what is waited for is in a database
            await asyncio.sleep(0.02)


async def reach(app: Holdfast, run: str, *statuses: str) -> None:
    async def there() -> bool:
        return await app.run(run).status() in statuses

    await until(there)


async def end(app: Holdfast, run: str) -> None:
    try:
        await app.run(run).result()
    except (RunFailed, RunCancelled):
        return


async def fill_ended(app: Holdfast) -> None:
    """Runs that are over, with receipts, blobs and evidence."""
    g.BROKEN.add("mended")
    await app.start(g.signalled, "x" * g.LARGE, signals=0, id="large")
    await app.start(g.ordering, "paper", id="ordered", actor="ann", workspace="north")
    await app.start(g.booking, "hall", id="booked")
    await app.start(g.failing, id="failed")
    await app.start(g.slept, id="cancelled")
    await app.start(g.ordering, "ink", id="elsewhere", tenant="other")
    await app.run("cancelled").cancel("not needed", by="ann")
    for run in ("large", "ordered", "booked", "failed", "cancelled"):
        await end(app, run)
    await app.run("elsewhere", tenant="other").result()
    for governed in (app.run("ordered"), app.run("booked"), app.run("elsewhere", tenant="other")):
        await until(partial(has_evidence, governed))


async def has_evidence(run: RunHandle[Any]) -> bool:
    return bool((await run.info()).evidence_sha256)


async def fill_waiting(app: Holdfast) -> None:
    """Runs that wait for something."""
    await app.start(g.signalled, "small", id="signal")
    await app.start(g.signalled, "y" * g.LARGE, signals=2, id="signals")
    await app.run("signals").signal("go", "z" * g.LARGE, id="the first")
    await app.start(g.slept, id="timer")
    await app.start(g.parent, id="parent")
    await app.start(g.queueing, id="queued")
    await app.start(g.signalled, "paused", id="paused")
    await app.start(g.counting, 0, id="generations")
    await app.start(g.changing, id="parked")
    await app.start(g.ordering, "approved desk", "w" * g.LARGE, id="approval")
    for run in ("signal", "signals", "timer", "parent", "parent~0", "queued", "paused", "generations", "parked"):
        await reach(app, run, "waiting")
    await app.run("paused").pause("for a while", by="ann")
    app.definitions.add(g.CLAIM)
    await app.start("kept.claim", {"no": "7"}, id="claimed")

    async def asked() -> bool:
        return {"approval", "claimed"} == {task.run async for task in app.tasks.list()}

    await until(asked)


async def fill_busy(app: Holdfast) -> None:
    """Runs in the middle of something, and the one that is parked."""
    g.HANGS.update(("lamp", "stage", "release 12B"))
    g.CHANGED.add("kept.changing")
    await app.run("parked").signal("go", "parked")
    await reach(app, "parked", "paused")
    await app.start(g.ordering, "lamp", id="unknown")
    await app.start(g.booking, "stage", id="repeated")
    await app.start(g.travelling, id="undoing")
    await asyncio.sleep(1)  # three acts have begun, and the audit is sealed


async def fill(url: str, dump: Callable[[], str]) -> str:
    clock = PastClock()
    async with engine(url, clock) as app:
        await fill_ended(app)
        await fill_waiting(app)
    app = engine(url, clock)
    await app.open()
    try:
        await fill_busy(app)
        return await asyncio.to_thread(dump)
    finally:
        await app.close(0)


def shortened(script: str) -> str:
    """The same with long sequences of one byte shortened."""
    return re.sub(r"([0-9a-fA-F]{2})\1{199,}", lambda m: f"<{m[1]}*{len(m[0]) // 2}>", script)


def sqlite_script(path: Path) -> str:
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(":memory:")) as copy:
        source.backup(copy)
        pragmas = [
            f"PRAGMA {name} = {copy.execute(f'PRAGMA {name}').fetchone()[0]};"
            for name in ("user_version", "application_id")
        ]
        return "\n".join([*copy.iterdump(), *pragmas, ""])


def postgres_script(url: str) -> str:
    dump = ["pg_dump", "--inserts", "--no-owner", "--no-privileges", "--no-comments", "--schema=public", url]
    script = subprocess.run(dump, check=True, capture_output=True, text=True).stdout
    lines = [
        line for line in script.splitlines() if line and not line.startswith(("--", "SET ", "\\", "CREATE SCHEMA"))
    ]
    lines = [line for line in lines if "pg_catalog.set_config" not in line]
    return "\n".join(lines).replace("public.", "") + "\n"


def main(name: str) -> None:
    failures.TRACE_LIMIT = 1  # traces and the policy's source would name the folders of this machine
    os.chdir(FOLDER)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kept.db"
        write(f"{name}.sqlite.sql", asyncio.run(fill(f"sqlite:///{path}", lambda: sqlite_script(path))))
    with server(own=True, fast=True) as postgres:
        url = postgres.url()
        write(f"{name}.postgres.sql", asyncio.run(fill(url, lambda: postgres_script(url))))


def write(name: str, script: str) -> None:
    path = FOLDER / name
    if path.exists():
        sys.exit(f"{path} is there already: kept databases are never overwritten")
    path.write_text(shortened(script) + DIED + KNOWN, encoding="utf-8")
    for done in (g.HANGS, g.BROKEN, g.CHANGED):
        done.clear()


if __name__ == "__main__":
    main(sys.argv[1])
