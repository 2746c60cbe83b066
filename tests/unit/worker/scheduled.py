"""Workflows and helpers of the scheduler's tests."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Sequence

from holdfast import Holdfast, workflow
from holdfast.audit import records as r
from holdfast.audit.collector import entries_of
from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.schedules.timing import moment
from holdfast.store import protocol as p


@workflow
async def quick_report(region: str = "eu") -> str:
    return region


@workflow
async def long_report(seconds: float = 100.0) -> float:
    await asyncio.sleep(seconds)
    return seconds


async def runs_of(app: Holdfast, schedule: str) -> list[p.Run]:
    """The runs that a schedule has started, oldest first."""
    rows = await app.store.find(p.Query(tenant=DEFAULT_TENANT), 10_000)
    return sorted((row for row in rows if row.key.run.startswith(f"{schedule}@")), key=lambda row: row.key.run)


async def ticks_of(app: Holdfast, schedule: str) -> list[str]:
    """The ticks of its runs, as times of day."""
    return [row.key.run.rpartition("T")[2] for row in await runs_of(app, schedule)]


async def acts_of(store: p.Store, schedule: str) -> list[r.Operated]:
    """What the audit has about a schedule, in order."""
    records = [r.decode(entry.body) async for entry in entries_of(store, p.AuditQuery(DEFAULT_TENANT))]
    return [each for each in records if isinstance(each, r.Operated) and each.details.get("schedule") == schedule]


def words_of(acts: Sequence[r.Operated]) -> list[str]:
    return [each.act for each in acts]


def time_of(app: Holdfast) -> datetime.datetime:
    return moment(app.clock.now())
