"""Events per second through machines, end to end: ``make bench-machines``.

    python bench/machines.py [--cells 10000 1000000] [--events 20000] [--store sqlite|postgres|both]

The store has so many cells before anything is measured: a real engine makes one, and the others are copies of its row.
Then events for random ones of them are sent, each durable when ``emit`` returns, so many senders at a time, while a
worker in the same process handles them. The clock runs from the first ``emit`` until the last event is handled. Each
event changes the state of its cell; with ``--effects`` each asks for a step, too, whose receipt is handled like an
event and counts as one. Opening is measured until the first event is handled on a store that was closed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from holdfast import Cell, Holdfast, Settled, WorkerOptions, machine, step
from holdfast.cells.cell import decode_cell, encode_cell
from holdfast.errors import LaneFull
from holdfast.journal.cbor import canonical
from holdfast.programs.machine.schemas import schema
from holdfast.runs.lanes import is_lane, lane_id, lane_of
from holdfast.store import protocol as p
from holdfast.store.postgres.connection import driver
from holdfast.testing.postgres import server

SENDERS = 1_000
AT_ONCE = 20_000
TENANT = "default"
OPTIONS = WorkerOptions(retention_days=None, evidence=False)


@dataclass
@schema("bench/Counted@1")
class Counted:
    key: str
    amount: int


@dataclass
@schema("bench/Asked@1")
class Asked:
    key: str
    amount: int


@dataclass
@schema("bench/Count@1")
class Count:
    total: int = 0
    events: int = 0


@step(name="bench.double")
async def double(amount: int) -> int:
    return 2 * amount


@machine(key="key", effects=[double], name="bench.counter")
def counter(state: Count | None, event: Counted | Asked | Settled, cell: Cell) -> Count | None:
    """Counts what it is told; an ``Asked`` is doubled by a step first."""
    now = state or Count()
    if isinstance(event, Counted):
        return Count(now.total + event.amount, now.events + 1)
    if isinstance(event, Asked):
        cell.do(double, event.amount)
        return Count(now.total, now.events + 1)
    return Count(now.total, now.events + 1)


# -- many cells --------------------------------------------------------------------------------------------------------


async def pattern(url: str) -> p.CellRow:
    """A real cell."""
    async with Holdfast(url, options=OPTIONS) as app:
        await send(app, [Counted("pattern", 1)], 1)
        (row,) = await app.store.find_cells(p.CellQuery(TENANT, counter.name), 1)
    return row


def copies(row: p.CellRow, count: int) -> Iterator[p.CellRow]:
    record = decode_cell(row.record)
    for number in range(count):
        key = canonical(f"k{number}")
        own = encode_cell(msgspec.structs.replace(record, key=key))
        yield row._replace(key=key, lane=lane_id(counter.name, lane_of(key, counter.lanes)), record=own)


async def fill(url: str, count: int) -> None:
    row = await pattern(url)
    rows = copies(row, count)
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            while some := list(islice(rows, AT_ONCE)):
                connection.executemany("INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", some)
            connection.commit()
        return
    connection = await driver().connect(url)
    try:
        while some := list(islice(rows, AT_ONCE)):
            await connection.copy_records_to_table("cells", records=some)
        await connection.execute("ANALYZE cells")
    finally:
        await connection.close()


# -- the measure -------------------------------------------------------------------------------------------------------


async def send(app: Holdfast, events: list[Any], senders: int) -> None:
    """Send them all, and wait until they and all that they lead to are handled."""
    waiting = iter(events)

    async def sender() -> None:
        for event in waiting:
            while not await taken(event):  # noqa: ASYNC110  # the lane is full
                await asyncio.sleep(0.05)

    async def taken(event: Any) -> bool:
        try:
            await app.emit(event)
        except LaneFull:
            return False
        return True

    await asyncio.gather(*(sender() for _ in range(senders)))
    while await under_way(app):  # noqa: ASYNC110  # the worker does it
        await asyncio.sleep(0.01)


async def under_way(app: Holdfast) -> bool:
    runs = await app.store.find(p.Query(TENANT), 1_000)
    return any(is_lane(run.key.run) and (run.arrived > run.consumed or run.status == "running") for run in runs)


async def measure(url: str, cells: int, events: int, effects: bool) -> dict[str, Any]:
    await fill(url, cells)
    chance = random.Random(1)
    kind = Asked if effects else Counted
    given: list[Any] = [kind(f"k{chance.randrange(cells)}", number) for number in range(events)]
    opening = time.perf_counter()
    async with Holdfast(url, options=OPTIONS) as app:
        await send(app, [Counted("k0", 1)], 1)
        opening = time.perf_counter() - opening
        await send(app, [Counted(f"k{chance.randrange(cells)}", 1) for _ in range(500)], SENDERS)  # every lane is warm
        began, busy = time.perf_counter(), time.process_time()
        await send(app, given, SENDERS)
        seconds, busy = time.perf_counter() - began, time.process_time() - busy
        lost = await _lost(app, cells, events + 501, effects) if cells <= 20_000 else None
    handled = events * (2 if effects else 1)
    figures = {
        "cells": cells,
        "events": handled,
        "seconds": round(seconds, 2),
        "events_per_second": round(handled / seconds),
        "cpu_microseconds_per_event": round(busy / handled * 1e6),
        "opening_seconds": round(opening, 3),
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    return figures if lost is None else {**figures, "lost": lost}


async def _lost(app: Holdfast, cells: int, sent: int, effects: bool) -> int:
    """How many events left no trace in the states."""
    expected = sent + cells + (sent - 501 if effects else 0)
    seen = 0
    after: p.CellCursor | None = None
    while page := await app.store.find_cells(p.CellQuery(TENANT, counter.name), 1_000, after):
        for row in page:
            if row.key == canonical("pattern"):
                continue
            state = decode_cell(row.record).state
            assert state is not None
            seen += counter.state.decode(state).events
        after = p.CellCursor(page[-1].lane, page[-1].key)
    return expected - seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cells", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--effects", action="store_true", help="each event asks for a step")
    parser.add_argument("--store", choices=["sqlite", "postgres", "both"], default="both")
    given = parser.parse_args()
    figures: dict[str, list[Any]] = {}
    for cells in given.cells:
        if given.store != "postgres":
            with tempfile.TemporaryDirectory() as folder:
                url = f"sqlite:///{Path(folder) / 'machines.db'}"
                found = asyncio.run(measure(url, cells, given.events, given.effects))
                figures.setdefault("sqlite", []).append(found)
        if given.store != "sqlite":
            with server() as postgres:
                found = asyncio.run(measure(postgres.url(), cells, given.events, given.effects))
                figures.setdefault("postgres", []).append(found)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
