"""The filler: a store with a great many runs, made of a few real ones.

An engine makes one run of each kind, with its journal and its task. All others are copies of their rows, with other
ids, names, people and times, written by the fastest way that the store has. A copy can be listed, counted and shown; it
is never executed, and its journal has the hashes of the run that it was copied from.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from holdfast import Holdfast, ask, receive, workflow
from holdfast.store import protocol as p
from holdfast.store.postgres.connection import driver

OWN, OTHER = "acme", "bolt"
SPAN = 29 * 86_400 * 1_000_000
"""The runs were started in this time, evenly. A worker would delete those that ended more than 30 days ago."""

AT_ONCE = 20_000
TABLES = ("runs", "segments", "tasks")

Row = dict[str, Any]


class Answer(msgspec.Struct):
    good: bool


@workflow(name="bench.done")
async def done(number: int) -> int:
    return number


@workflow(name="bench.fails")
async def fails() -> int:
    raise ValueError("it fails")


@workflow(name="bench.waits")
async def waits() -> int:
    return int(await receive("go", int))


@workflow(name="bench.asks")
async def asks() -> bool:
    return (await ask("Is it good?", Answer, groups=["claims"])).good


WORKFLOWS = [done, fails, waits, asks]


class Pattern(NamedTuple):
    """A real run: its row, its segments and its tasks."""

    run: Row
    segments: list[Row]
    tasks: list[Row]


async def make_patterns(url: str) -> None:
    """One real run of each kind, and the people who look at them."""
    async with Holdfast(url, workflows=WORKFLOWS) as app:
        for tenant in (OWN, OTHER):
            await app.tenants.create(tenant)
        await app.users.create("ann", level=4, groups=["claims"], tenant=OWN)
        await app.users.create("zoe", level=2, groups=["leads"], tenant=OWN)
        ids = {}
        for each in WORKFLOWS:
            given = (1,) if each is done else ()
            ids[each.name] = await app.start(each.name, *given, tenant=OWN, id=each.name, actor="ann")
        stopped = await app.start(waits, tenant=OWN, id="bench.cancelled", actor="ann")
        await asyncio.gather(ids["bench.done"].result(), ids["bench.fails"].result(), return_exceptions=True)
        await asyncio.gather(*(run.settled(30) for run in (ids["bench.waits"], ids["bench.asks"], stopped)))
        await stopped.cancel("enough", by="ann")
        await asyncio.gather(stopped.result(), return_exceptions=True)


def copies(patterns: dict[str, Pattern], count: int, now: int) -> Iterator[tuple[str, Row]]:
    """The rows of so many runs, oldest first, each with its table."""
    for number in range(count):
        kind = _kind(number)
        pattern = patterns[kind.removesuffix(" parked")]
        created = now - SPAN + number * SPAN // count
        tenant = OTHER if number % 10 == 9 else OWN
        id = f"{created:014x}-{number:07x}"
        parent = "bench.done" if number % 100 == 77 else None
        if parent is not None:
            tenant, id = OWN, f"{parent}~{number}"
        moved = pattern.run["updated_at"] - pattern.run["created_at"]
        run = {
            **pattern.run,
            "tenant": tenant,
            "id": id,
            "parent": parent,
            "parent_position": None if parent is None else number,
            "created_at": created,
            "updated_at": created + moved,
            "begun_at": created,
            "ended_at": None if pattern.run["ended_at"] is None else created + moved,
            **_names(number, kind),
        }
        if kind.endswith("parked"):
            run["pause"] = "its code does not fit its journal"
        yield "runs", run
        for segment in pattern.segments:
            yield "segments", {**segment, "tenant": tenant, "run": id, "at": created}
        for task in pattern.tasks:
            yield "tasks", _task(task, tenant, id, number, created)


def _kind(number: int) -> str:
    """Of a thousand runs: ten ask somebody, ten wait, thirty have failed, five are cancelled, one is parked."""
    place = number % 1000
    if place < 10:
        return "bench.asks"
    if place < 20:
        return "bench.waits"
    if place < 50:
        return "bench.fails"
    if place < 55:
        return "bench.cancelled"
    return "bench.waits parked" if place == 55 else "bench.done"


def _names(number: int, kind: str) -> Row:
    """Names that many runs have, and in each column one that few have."""
    is_rare = number % 50_000
    common = "claims.settle" if number % 2 else f"claims.part{number % 19}"
    return {
        "workflow": "claims.rare" if is_rare == 107 else common if kind == "bench.done" else kind.split()[0],
        "workspace": "legal" if is_rare == 111 else ("", "eu", "us")[number % 3],
        "actor": "rose" if is_rare == 113 else None if number % 3 == 0 else f"user{number % 50}",
        "reference": f"C-{number}" if number % 10 == 3 else None,
        "attributes": f'{{"ticket":"T-{number}"}}' if number % 10 == 4 else "{}",
    }


def _task(task: Row, tenant: str, run: str, number: int, created: int) -> Row:
    """One task in a thousand is for another group than the rest."""
    groups = ("leads",) if number // 1000 % 1000 == 999 else ("claims",)
    body = msgspec.json.decode(task["body"], type=p.TaskRow)
    id = f"task-{number:07x}"
    copy = msgspec.structs.replace(body, tenant=tenant, id=id, run=run, created_at=created, groups=groups)
    text = msgspec.json.encode(copy).decode()
    return {**task, "tenant": tenant, "id": id, "run": run, "created_at": created, "body": text}


# -- stores ----------------------------------------------------------------------------------------------------------


def fill(url: str, count: int) -> float:
    """Fill an empty store with so many runs; gives the seconds that it took."""
    began = time.perf_counter()
    asyncio.run(make_patterns(url))
    if url.startswith("sqlite"):
        _fill_sqlite(url.removeprefix("sqlite:///"), count)
    else:
        asyncio.run(_fill_postgres(url, count))
    return time.perf_counter() - began


def _patterns(rows: dict[str, list[Row]]) -> dict[str, Pattern]:
    return {
        run["id"]: Pattern(
            run, *([each for each in rows[table] if each["run"] == run["id"]] for table in ("segments", "tasks"))
        )
        for run in rows["runs"]
    }


def _fill_sqlite(path: str, count: int) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -1000000")
        connection.row_factory = sqlite3.Row
        rows = {table: [dict(row) for row in connection.execute(f"SELECT * FROM {table}")] for table in TABLES}
        made = copies(_patterns(rows), count, time.time_ns() // 1000)
        while batch := list(islice(made, AT_ONCE)):
            connection.execute("BEGIN")
            for table in TABLES:
                if found := [tuple(row.values()) for name, row in batch if name == table]:
                    places = ", ".join("?" * len(found[0]))
                    names = ", ".join(rows[table][0])
                    connection.executemany(f"INSERT INTO {table} ({names}) VALUES ({places})", found)
            connection.execute("COMMIT")
        connection.execute(
            "INSERT OR IGNORE INTO run_attributes SELECT runs.tenant, each.key, each.value, created_at, runs.id"
            " FROM runs, json_each(attributes) AS each WHERE attributes <> '{}'"
        )
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


async def _fill_postgres(url: str, count: int) -> None:
    connection = await driver().connect(url)
    try:
        rows = {table: [dict(row) for row in await connection.fetch(f"SELECT * FROM {table}")] for table in TABLES}
        made = copies(_patterns(rows), count, time.time_ns() // 1000)
        while batch := list(islice(made, AT_ONCE)):
            for table in TABLES:
                found = [tuple(row.values()) for name, row in batch if name == table]
                await connection.copy_records_to_table(table, records=found, columns=list(rows[table][0]))
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()
