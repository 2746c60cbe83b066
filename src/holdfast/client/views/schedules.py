"""A schedule as people and programs see it, and as ``--json`` writes it. The keys are stable: scripts read them."""

from __future__ import annotations

import datetime
from typing import Any, Final

import msgspec

from holdfast.client.schedules.launcher import arguments_of
from holdfast.client.views.times import iso, moment, span
from holdfast.errors import HoldfastError
from holdfast.schedules.cron import zone_named
from holdfast.schedules.schedule import (
    CatchUp,
    Outcome,
    Overlap,
    Schedule,
    Status,
    decode,
    due_at,
    offset_of,
    zone_of,
)
from holdfast.schedules.timing import Cron, Interval, Once, Timing, last_tick, next_tick
from holdfast.store.protocol import ItemRow

SHOWN: Final = 10


class TickInfo(msgspec.Struct, frozen=True):
    """A time of a schedule. ``local`` is what clocks of its zone show then; ``clock_change`` tells where they were
    changed since the time before."""

    at: datetime.datetime
    local: str
    clock_change: str | None = None


class OutcomeInfo(msgspec.Struct, frozen=True):
    """What became of a tick, or of ``count`` ticks from ``tick`` to ``last``; the count is None where it is not known.

    ``what`` is started, found, waits, skipped, missed, refused or ended.
    """

    what: str
    tick: datetime.datetime
    at: datetime.datetime
    reason: str
    run: str | None
    last: datetime.datetime | None
    count: int | None


class ScheduleInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule at one moment."""

    id: str
    tenant: str
    status: Status
    workflow: str | None
    template: str | None
    timing: str  # in words
    cron: str | None
    timezone: str
    every_seconds: float | None
    at: datetime.datetime | None
    arguments: tuple[Any, ...]
    named_arguments: dict[str, Any]
    overlap: Overlap
    catch_up: CatchUp
    catch_up_window_seconds: float | None
    jitter_seconds: float
    workspace: str
    priority: int
    attributes: dict[str, str]
    owner: str | None
    made_at: datetime.datetime
    changed_at: datetime.datetime
    version: int
    due_at: datetime.datetime | None  # when the next tick is started, jitter included
    waiting: tuple[datetime.datetime, ...]  # ticks that wait for a run, or for the template
    last_run: str | None
    paused_reason: str | None
    over: str | None
    last: tuple[OutcomeInfo, ...]
    previous: tuple[TickInfo, ...]
    next: tuple[TickInfo, ...]
    problem: str | None  # why it cannot be followed on this computer


def schedule_info(row: ItemRow, now: int) -> ScheduleInfo:
    """The view of an item."""
    schedule = decode(row.body, row.id)
    args, kwargs = arguments_of(schedule)
    timing = schedule.timing
    ticks, problem = _ticks(schedule, now)
    offset = offset_of(row.tenant, row.id, schedule)
    return ScheduleInfo(
        id=row.id,
        tenant=row.tenant,
        status=schedule.status,
        workflow=schedule.workflow or None,
        template=schedule.template or None,
        timing=timing_words(timing),
        cron=timing.line if isinstance(timing, Cron) else None,
        timezone=zone_of(schedule),
        every_seconds=timing.every / 1e6 if isinstance(timing, Interval) else None,
        at=moment(timing.at) if isinstance(timing, Once) else None,
        arguments=args,
        named_arguments=kwargs,
        overlap=schedule.overlap,
        catch_up=schedule.catch_up,
        catch_up_window_seconds=None if schedule.window is None else schedule.window / 1e6,
        jitter_seconds=schedule.jitter / 1e6,
        workspace=schedule.workspace,
        priority=schedule.priority,
        attributes=dict(schedule.attributes),
        owner=schedule.owner,
        made_at=moment(schedule.made_at),
        changed_at=moment(row.changed_at),
        version=row.version,
        due_at=None if problem else moment(due_at(schedule, offset)),
        waiting=tuple(map(moment, schedule.queue)),
        last_run=schedule.last_run,
        paused_reason=schedule.paused,
        over=schedule.over,
        last=tuple(map(_outcome, schedule.recent)),
        previous=ticks[0],
        next=ticks[1],
        problem=problem,
    )


def schedule_json(info: ScheduleInfo) -> dict[str, Any]:
    """As ``--json`` writes it."""
    return {name: _plain(getattr(info, name)) for name in info.__struct_fields__}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return iso(value)
    if isinstance(value, TickInfo | OutcomeInfo):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    return value if value is None or isinstance(value, str | int | float | bool) else repr(value)


def timing_words(timing: Timing) -> str:
    """When it starts something, in words."""
    match timing:
        case Cron():
            return f"{timing.line} ({timing.timezone})"
        case Interval():
            return f"every {span(datetime.timedelta(microseconds=timing.every))}"
        case Once():
            return f"once, at {moment(timing.at):%Y-%m-%d %H:%M:%S UTC}"


def _outcome(outcome: Outcome) -> OutcomeInfo:
    return OutcomeInfo(
        outcome.what,
        moment(outcome.tick),
        moment(outcome.at),
        outcome.reason,
        outcome.run,
        moment(outcome.last),
        outcome.count,
    )


def _ticks(schedule: Schedule, now: int) -> tuple[tuple[tuple[TickInfo, ...], tuple[TickInfo, ...]], str | None]:
    """The last and the next times, and why they cannot be told."""
    try:
        zone = zone_named(zone_of(schedule))
        before = _backwards(schedule.timing, schedule.made_at, now)
        after = [] if schedule.status in ("deleted", "done") else _forwards(schedule.timing, max(now, schedule.cursor))
        found = marked([*before, *after], zone)
    except HoldfastError as error:
        return ((), ()), str(error)
    return (found[: len(before)], found[len(before) :]), None


def _backwards(timing: Timing, since: int, until: int) -> list[int]:
    found: list[int] = []
    while len(found) < SHOWN and (tick := last_tick(timing, since, until)) is not None:
        found.insert(0, tick)
        until = tick - 1
    return found


def _forwards(timing: Timing, after: int) -> list[int]:
    found: list[int] = []
    while len(found) < SHOWN and (tick := next_tick(timing, after)) is not None:
        found.append(tick)
        after = tick
    return found


def marked(ticks: list[int], zone: datetime.tzinfo) -> tuple[TickInfo, ...]:
    """Times on the clocks of a zone, marked where the clocks were changed between two of them."""
    found: list[TickInfo] = []
    last: datetime.timedelta | None = None
    for tick in ticks:
        local = moment(tick).astimezone(zone)
        offset = local.utcoffset() or datetime.timedelta()
        change = None
        if last is not None and offset != last:
            way = "forward" if offset > last else "back"
            change = f"clocks were set {way} by {span(abs(offset - last))}"
        found.append(TickInfo(moment(tick), local.strftime("%Y-%m-%d %H:%M:%S %z"), change))
        last = offset
    return tuple(found)
