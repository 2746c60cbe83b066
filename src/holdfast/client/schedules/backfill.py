"""Backfill: the runs of ticks that lie in the past, each with the id that its tick always has."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.audit.collector import entries_in
from holdfast.audit.records import UNREADABLE, Operated, decode
from holdfast.client.schedules.launcher import ScheduleLauncher
from holdfast.errors import EngineError, InvalidRequest, ScheduleConflict
from holdfast.schedules.notes import ACTS, outcome_note, tick_note
from holdfast.schedules.schedule import Outcome, Schedule, run_id
from holdfast.schedules.timing import count_ticks, microseconds, moment, next_tick
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

AT_ONCE: Final = 200
OPERATED: Final = str(Operated.__struct_config__.tag)


class BackfillInfo(msgspec.Struct, frozen=True):
    """What a backfill did, or would do: of ``count`` ticks so many are ``started`` by it, and so many were before."""

    schedule: str
    since: datetime.datetime
    until: datetime.datetime
    count: int
    started: int
    existed: int
    dry_run: bool = False


async def backfill(
    app: Holdfast,
    launcher: ScheduleLauncher,
    key: p.ItemKey,
    schedule: Schedule,
    template: p.ItemRow | None,
    range: tuple[datetime.datetime, datetime.datetime],
    *,
    limit: int,
    dry_run: bool,
    conditions: Sequence[p.ExpectItem],
    by: str | None,
    reason: str,
) -> BackfillInfo:
    """See ``Schedules.backfill``."""
    since, until = map(microseconds, range)
    if until > await app.store.now() or since > until:
        raise InvalidRequest(
            "a backfill is over a time in the past, its earlier end first: what comes is started by itself"
        )
    count = count_ticks(schedule.timing, since - 1, until)
    if count is None or count > limit:
        many = "too many to be counted" if count is None else str(count)
        raise InvalidRequest(
            f"schedule {key.id!r} has {many} ticks in this time, and the limit is {limit}: "
            "make the time shorter, or the limit higher"
        )
    started = existed = 0
    for page in _pages(schedule, since - 1, until):
        if dry_run:
            there = await _count_started(app, [p.Key(key.tenant, run_id(key.id, tick)) for tick in page])
        else:
            there = await _start(app, launcher, key, schedule, template, page, conditions, by, reason)
        existed += there
        started += len(page) - there
    return BackfillInfo(key.id, moment(since), moment(until), count, started, existed, dry_run)


def _pages(schedule: Schedule, after: int, until: int) -> Iterator[list[int]]:
    page: list[int] = []
    while (tick := next_tick(schedule.timing, after)) is not None and tick <= until:
        page.append(tick)
        after = tick
        if len(page) == AT_ONCE:
            yield page
            page = []
    if page:
        yield page


async def _count_started(app: Holdfast, runs: Sequence[p.Key]) -> int:
    """How many of these are there, or were started and have been deleted since: of those the audit has the note."""
    there = {row.key.run for row in await app.store.get(runs)}
    gone = [p.Span(run, kind=OPERATED) for run in runs if run.run not in there]
    if gone:
        async for entry in entries_in(app.store, gone):
            try:
                record = decode(entry.body)
            except UNREADABLE:
                continue
            if entry.run is not None and isinstance(record, Operated) and record.act == ACTS["started"]:
                there.add(entry.run)
    return len(there)


async def _start(
    app: Holdfast,
    launcher: ScheduleLauncher,
    key: p.ItemKey,
    schedule: Schedule,
    template: p.ItemRow | None,
    ticks: Sequence[int],
    conditions: Sequence[p.ExpectItem],
    by: str | None,
    reason: str,
) -> int:
    """Start the runs of these ticks; gives how many were started before."""
    acts: list[p.Operate] = []
    for tick in ticks:
        now = app.clock.now()
        birth = await launcher.birth(key, schedule, template, tick, now, by)
        outcome = Outcome("started", tick, now, reason or "backfill", birth.key.run)
        note = outcome_note(key, schedule, outcome, now, tick_note(key.id, tick), by or "")
        acts.append(p.Operate(note, (*conditions, birth.start(now))))
    existed = 0
    for answer in await asyncio.gather(*map(app.committer.commit, acts)):
        match answer:
            case p.Exists() | p.Retired() | p.Repeated():
                existed += 1
            case p.Fenced():
                raise ScheduleConflict(
                    "what the backfill was judged by has changed meanwhile: try it again, nothing is started twice."
                )
            case p.OperatedOn():
                pass
            case _:
                raise EngineError(f"a backfill of schedule {key.id} was answered {answer!r}")
    return existed
