"""``doctor``: does the installation work, and does anything need a person?"""

from __future__ import annotations

import asyncio
import platform
import shutil
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from importlib import metadata
from pathlib import Path
from typing import Final

import click
import msgspec

from holdfast.cli import exits, options, output, session
from holdfast.cli.checks import Check
from holdfast.cli.store.logins import examine_logins
from holdfast.cli.store.schemas import schema_numbers, sqlite_path, version_of
from holdfast.cli.store.secrets import examine_secrets
from holdfast.cli.store.servers import examine_server
from holdfast.cli.store.wakeups import examine_wakeups
from holdfast.client.engine import Holdfast
from holdfast.client.filters import run_rows
from holdfast.client.views.times import clock, moment
from holdfast.client.views.workers import off_by
from holdfast.errors import HoldfastError, InvalidPolicy
from holdfast.gate.policy.policy import content, parse
from holdfast.runs.losses import losses_in, words_of
from holdfast.store.protocol import ReceiptQuery, WorkerRow

OLDEST_PYTHON: Final = (3, 11)
LEAST_FREE_BYTES: Final = 200 * 1024 * 1024
LARGEST_LOG_BYTES: Final = 256 * 1024 * 1024
CHECK_SECONDS: Final = 5.0
SHOWN: Final = 20
MOST_COUNTED: Final = 1000
OLDEST_UNSEALED_SECONDS: Final = 600


@click.command()
@options.policy
@options.secrets_table
@options.store
def doctor(policy: str | None, secrets_table: str | None, store: str | None, as_json: bool) -> int:
    """Check Python, the store, settings, workers, runs, the gate, logins, secrets, disk and wake-ups; exit 1 if
    something is wrong."""
    checks = session.run(_examine(session.url_of(store), secrets_table))
    if (wakeups := session.wakeups_of()) is not None:
        checks.append(session.run(examine_wakeups(wakeups)))
    if policy is not None:
        checks.append(_policy(policy))
    good = all(check.good for check in checks)
    if as_json:
        output.emit({"good": good, "checks": [msgspec.to_builtins(check) for check in checks]})
    else:
        for check in checks:
            detail = check.detail.replace("\n", "\n" + " " * 13)
            output.say(_mark(check), output.TableCell(f"{check.name:<10} ", "bold"), detail)
        output.say(_verdict(checks))
    return exits.GOOD if good else exits.NO


def _mark(check: Check) -> output.TableCell:
    if not check.good:
        return output.TableCell("✗ ", "red")
    return output.TableCell("! ", "yellow") if check.warning else output.TableCell("✓ ", "green")


def _verdict(checks: Sequence[Check]) -> str:
    if not all(check.good for check in checks):
        return "something needs attention: see the lines marked ✗"
    warned = any(check.warning for check in checks)
    return "nothing is broken, but see the lines marked !" if warned else "all is well"


async def _examine(url: str, secrets_table: str | None) -> list[Check]:
    checks = [_python(), _driver(url)]
    try:
        checks.append(await _schema(url))
        if url.startswith("postgres"):  # before the store, which waits for a standby that is away
            checks.extend([check async for check in examine_server(url)])
        async with session.opened(url) as app:
            checks.extend([check async for check in _store(app, url)])
            checks.append(await examine_secrets(app, secrets_table))
    except HoldfastError as error:
        checks.append(Check("store", good=False, detail=str(error), facts={"code": error.code}))
    return checks


def _python() -> Check:
    version = platform.python_version()
    holdfast = metadata.version("holdfast")
    good = sys.version_info >= OLDEST_PYTHON
    detail = f"{platform.python_implementation()} {version}, Holdfast {holdfast}"
    return Check("python", good, detail, {"python": version, "holdfast": holdfast})


def _driver(url: str) -> Check:
    if not url.startswith("postgres"):
        import sqlite3

        return Check(
            "driver", good=True, detail=f"SQLite {sqlite3.sqlite_version}", facts={"sqlite": sqlite3.sqlite_version}
        )
    try:
        version = metadata.version("asyncpg")
    except metadata.PackageNotFoundError:
        return Check("driver", good=False, detail="PostgreSQL needs a driver: pip install holdfast[postgres]")
    return Check("driver", good=True, detail=f"asyncpg {version}", facts={"asyncpg": version})


async def _schema(url: str) -> Check:
    present, newest = await schema_numbers(url)
    detail = f"schema {present}"
    if present < newest:
        detail += f", needed {newest}: run `holdfast migrate`"
    elif present > newest:
        mine, theirs = metadata.version("holdfast"), await version_of(url)
        needed = f"Holdfast {theirs}" if theirs not in (None, mine) else f"a newer Holdfast than {mine}"
        detail += f", and this Holdfast knows {newest}: upgrade it, {needed} is needed"
    return Check("schema", present == newest, detail, {"present": present, "newest": newest})


async def _store(app: Holdfast, url: str) -> AsyncIterator[Check]:
    facts = await app.store.facts()
    size = "" if facts.size_bytes is None else f", {facts.size_bytes / 1e6:.1f} MB"
    yield Check("store", good=True, detail=f"{facts.kind} {facts.version}{size}", facts=msgspec.to_builtins(facts))
    if url.startswith("sqlite:"):
        yield _sqlite_settings(sqlite_path(url))
        yield _pages(sqlite_path(url))
        yield _log(sqlite_path(url))
        yield _disk(sqlite_path(url))
    is_copy = url.startswith("sqlite:") and is_unopened(sqlite_path(url))
    yield _of_copy(await _runs(app), is_copy)
    yield _of_copy(await _workers(app, url), is_copy)
    yield await _lost(app)
    yield await _parked(app)
    yield await _tasks(app)
    yield await _receipts(app)
    yield await _audit(app)
    yield await examine_logins(app)


def _of_copy(check: Check, is_copy: bool) -> Check:
    """A copy that no worker has opened has the workers, and the ready runs, of the moment at which it was made."""
    if is_copy and not check.good:
        return Check(check.name, good=True, detail=check.detail, facts=check.facts, warning=True)
    return check


def is_unopened(path: Path) -> bool:
    """Whether no engine has opened the file for writing since ``holdfast backup`` made it: that turns its log on."""
    from holdfast.store.sqlite.connection import connect

    with closing(connect(str(path), readonly=True)) as connection:
        return bool(connection.execute("PRAGMA journal_mode").fetchone()[0] == "delete")


def _pages(path: Path) -> Check:
    """SQLite's own check of the file, for some seconds."""
    from holdfast.store.sqlite.connection import connect, is_interrupt, translated

    until = time.monotonic() + CHECK_SECONDS
    with translated(str(path)), closing(connect(str(path), readonly=True)) as connection:
        (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
        (free,) = connection.execute("PRAGMA freelist_count").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        connection.set_progress_handler(lambda: time.monotonic() > until, 10_000)
        try:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.OperationalError as error:
            if not is_interrupt(error):
                raise
            verdict = None
    facts = {"verdict": verdict, "free_bytes": free * size, "shrinks": mode != 0}
    if verdict not in ("ok", None):
        return Check("pages", good=False, detail=f"the file is damaged ({verdict}): restore a backup", facts=facts)
    checked = "all are sound" if verdict else f"no damage found in {CHECK_SECONDS:.0f} s, and not all were looked at"
    hint = "" if mode else "; stop the workers and run `holdfast compact` once, and the file shrinks by itself"
    return Check("pages", good=True, detail=f"{checked}; {free * size / 1e6:.1f} MB are free{hint}", facts=facts)


def _sqlite_settings(path: Path) -> Check:
    from holdfast.store.sqlite.connection import connect

    with closing(connect(str(path), readonly=True)) as connection:
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
    names = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}
    good = mode in ("wal", "delete") and synchronous >= 2
    detail = f"journal mode {mode}, synchronous {names.get(synchronous, synchronous)}; the clock is this host's own"
    if mode == "delete":
        detail += "; this is a backup that no worker has opened yet: the first one turns its log on"
    return Check("settings", good, detail, {"journal_mode": mode, "synchronous": names.get(synchronous)})


def _log(path: Path) -> Check:
    """The write-ahead log is copied back into the file at every 16 MB, unless a reader still needs the old pages."""
    log = path.with_name(f"{path.name}-wal")
    size = log.stat().st_size if log.exists() else 0
    good = size <= LARGEST_LOG_BYTES
    detail = f"{log.name} has {size / 1e6:.1f} MB"
    if not good:
        detail += (
            ": end readers that take long (an open sqlite3 shell, say); when all workers are stopped once, it is gone"
        )
    return Check("log", good, detail, {"wal_bytes": size})


def _disk(path: Path) -> Check:
    usage = shutil.disk_usage(path.resolve().parent)
    good = usage.free >= LEAST_FREE_BYTES
    detail = f"{usage.free / 1e9:.1f} GB free of {usage.total / 1e9:.1f} GB" + ("" if good else ": free some")
    return Check("disk", good, detail, {"free_bytes": usage.free, "total_bytes": usage.total})


async def _runs(app: Holdfast) -> Check:
    """The number of runs by status, and the ready runs whose workflow no running worker knows."""
    counts = (await app.store.facts()).runs
    detail = ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "none"
    serving = [worker.serves for worker in await app.store.workers()]
    stranded = Counter(
        [
            run.workflow
            async for run in run_rows(app.store, status="queued", limit=1000)
            if not any(serves.takes(run.program_kind, run.workflow) for serves in serving)
        ]
    )
    if stranded:
        names = ", ".join(f"{count} of {name}" for name, count in stranded.most_common(SHOWN))
        detail += f"\nready, and no running worker knows the workflow: {names}"
    return Check("runs", not stranded, detail, {"by_status": counts, "unserved": dict(stranded)})


async def _workers(app: Holdfast, url: str) -> Check:
    workers = await app.store.workers()
    now = await app.store.now()  # leases go by the store's clock
    dead = [worker for worker in workers if await asyncio.to_thread(_is_dead, worker, url, now)]
    detail = f"{len(workers) - len(dead)} running"
    for worker in dead:
        detail += f"\n{worker.id} (process {worker.pid} on {worker.host}) is dead; the next worker takes over its runs"
    off = [worker for worker in workers if worker not in dead and worker.clock_ahead]
    for worker in off:
        detail += f"\n{worker.id} on {worker.host} starts nothing by a schedule: {off_by(worker.clock_ahead)}"
    lacking = [worker for worker in workers if worker not in dead and worker.unavailable]
    for worker in lacking:
        for definition in worker.unavailable:
            detail += f"\n{worker.id} on {worker.host} cannot start a definition that it was given: {definition}"
    facts = {
        "running": [worker.id for worker in workers if worker not in dead],
        "unavailable": {worker.id: msgspec.to_builtins(worker.unavailable) for worker in lacking},
        "dead": [worker.id for worker in dead],
        "clocks_off": [worker.id for worker in off],
    }
    return Check("workers", not dead and not off, detail, facts, warning=bool(lacking))


def _is_dead(worker: WorkerRow, url: str, now: int) -> bool:
    if worker.expires_at < now:
        return True
    if not url.startswith("sqlite:"):
        return False
    from holdfast.store.sqlite.presence import is_dead

    return is_dead(str(sqlite_path(url)), worker.id)


async def _lost(app: Holdfast) -> Check:
    """Changes that were acknowledged before a failover and are not here."""
    found = await losses_in(app.store, app.clock.now())
    detail = "nothing that was acknowledged is known to be lost"
    if found:
        detail = f"{len(found)} acknowledged changes were lost by a failover: see `holdfast lost`, and repeat them"
    for loss in found[:SHOWN]:
        detail += f"\n{loss.place}. {words_of(loss)}"
    return Check("lost", not found, detail, {"count": len(found), "changes": [loss.place for loss in found[:SHOWN]]})


async def _parked(app: Holdfast) -> Check:
    """Runs that the engine parked, because they cannot continue or because that would do harm."""
    found = [run async for run in run_rows(app.store, status="paused", parked=True)]
    detail = f"{len(found)} runs are parked" if found else "no run is parked"
    for run in found[:SHOWN]:
        detail += f"\n{run.key.run} ({run.workflow}): {output.one_line(run.pause)}"
    runs = [{"id": run.key.run, "tenant": run.key.tenant, "reason": run.pause} for run in found[:SHOWN]]
    return Check("parked", not found, detail, {"count": len(found), "runs": runs})


async def _tasks(app: Holdfast) -> Check:
    """An approval may wait for long; an act of unknown outcome should not."""
    found = [task async for task in app.tasks.list(limit=MOST_COUNTED)]
    unclear = [task for task in found if task.kind == "outcome"]
    detail = f"{_count(found)} wait for people" if found else "nobody is asked anything"
    if unclear:
        detail += f"\n{len(unclear)} ask what became of an act: see `holdfast tasks`"
    return Check("tasks", not unclear, detail, {"open": len(found), "outcomes": len(unclear)})


async def _receipts(app: Holdfast) -> Check:
    """A person gave up those that stay unknown: they are counted, and no problem of the installation."""
    found = await app.store.receipts(ReceiptQuery(state="unknown"), MOST_COUNTED)
    return Check("receipts", good=True, detail=f"{_count(found)} of unknown outcome", facts={"unknown": len(found)})


async def _audit(app: Holdfast) -> Check:
    """A running worker seals entries within seconds: old ones show that it cannot."""
    found = await app.store.unsealed(MOST_COUNTED)
    oldest = min((entry.at for entry in found), default=time.time_ns() // 1000)
    late = (time.time() - oldest / 1e6) > OLDEST_UNSEALED_SECONDS and bool(await app.store.workers())
    detail = f"{_count(found)} entries are not sealed yet"
    if late:
        detail += f", the oldest since {clock(moment(oldest))}: do the workers have HOLDFAST_KEY_PASSPHRASE?"
    return Check("audit", not late, detail, {"unsealed": len(found)})


def _policy(file: str) -> Check:
    try:
        policy = parse(content(file), file)
    except InvalidPolicy as error:
        return Check("policy", good=False, detail=str(error), facts={"file": file})
    return Check(
        "policy",
        good=True,
        detail=f"{len(policy.rules)} rules, {policy.hash}",
        facts={"file": file, "hash": policy.hash},
    )


def _count(found: Sequence[object]) -> str:
    return f"{MOST_COUNTED} or more" if len(found) == MOST_COUNTED else str(len(found))
