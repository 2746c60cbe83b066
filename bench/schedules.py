"""Many schedules due in one minute: how many runs are started in a second, and that each is started once.

The schedules are made first. Then schedulers are begun, and the time is taken until the last tick is started. No worker
serves the workflow, so that the figure is of starting alone: each tick is one act that starts a run, moves the schedule
on and has its note in the audit. Two schedulers share what is due.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from holdfast import Holdfast, WorkerOptions, workflow
from holdfast.audit.notes import note
from holdfast.audit.records import Operated
from holdfast.schedules.schedule import KIND, Schedule, due_at, encode
from holdfast.schedules.timing import SECOND, Cron, moment
from holdfast.store import protocol as p
from holdfast.testing.postgres import server

TENANT = "default"
AT_ONCE = 2_000


@workflow
async def report() -> None:
    """What the schedules start: known here, and served by nobody."""


@workflow
async def other() -> None:
    """What the workers serve."""


ZONES = ("UTC", "Europe/Vienna", "America/New_York", "Asia/Tokyo", "Africa/Cairo", "America/Sao_Paulo", "Asia/Dubai")


def schedules(count: int, now: int) -> Iterator[p.Operate]:
    """Schedules whose tick of this minute is due; the next comes in an hour."""
    minute = now // (60 * SECOND) * 60 * SECOND
    for number in range(count):
        id, line = f"s{number:06}", f"{moment(minute).minute} * * * *"
        timing = Cron(line, ZONES[number % len(ZONES)])
        schedule = Schedule(timing=timing, workflow="report", cursor=minute - 1)
        row = p.ItemRow(TENANT, KIND, id, 1, encode(schedule), "active", due_at(schedule, 0), now)
        record = Operated(now, "schedule_workflow", "bench", details={"schedule": id})
        yield p.Operate(msgspec.structs.replace(note(TENANT, None, record), id=f"made {id}"), (p.PutItem(row),))


async def make(app: Holdfast, count: int) -> None:
    made = schedules(count, app.clock.now())
    while batch := list(islice(made, AT_ONCE)):
        await asyncio.gather(*map(app.committer.commit, batch))


async def measure(url: str, count: int, schedulers: int) -> dict[str, Any]:
    """The seconds that it took, the starts in a second, the time of the process's own CPU for each (its share of the
    machine may be smaller), and what was started twice or not at all."""
    options = WorkerOptions(retention_days=None, evidence=False)
    async with Holdfast(url, worker=False) as app:
        await make(app, count)
        async with AsyncExitStack() as stack:
            begun, busy = time.perf_counter(), time.process_time()
            for _ in range(schedulers):
                await stack.enter_async_context(Holdfast(url, workflows=[other], options=options))
            while await due(app):  # noqa: ASYNC110  # other handles do it
                await asyncio.sleep(0.05)
            seconds, busy = time.perf_counter() - begun, time.process_time() - busy
        runs = sum(each.count for each in await app.counts())
        versions = await versions_of(app)
    return {
        "schedules": count,
        "schedulers": schedulers,
        "seconds": round(seconds, 2),
        "starts_per_second": round(count / seconds),
        "cpu_microseconds_per_start": round(busy / count * 1e6),
        "lost": count - runs,
        "moved_twice": sum(version != 2 for version in versions),
    }


async def due(app: Holdfast) -> bool:
    at = await app.store.next_due_item(KIND)
    return at is not None and at <= app.clock.now()


async def versions_of(app: Holdfast) -> list[int]:
    found: list[int] = []
    after: p.ItemKey | None = None
    while page := await app.store.items(KIND, 1_000, after=after):
        found += [row.version for row in page]
        after = page[-1].key
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--schedulers", type=int, default=1)
    parser.add_argument("--store", choices=["sqlite", "postgres", "both"], default="both")
    given = parser.parse_args()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        if given.store != "postgres":
            url = f"sqlite:///{Path(folder) / 'schedules.db'}"
            figures["sqlite"] = asyncio.run(measure(url, given.count, given.schedulers))
    if given.store != "sqlite":
        with server() as postgres:
            figures["postgres"] = asyncio.run(measure(postgres.url(), given.count, given.schedulers))
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
