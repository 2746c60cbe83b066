"""``schedules pause``, ``resume``, ``run-now``, ``backfill`` and ``delete``."""

from __future__ import annotations

import datetime
from collections.abc import Awaitable, Callable

import click

from holdfast.cli import options, output, session
from holdfast.cli.schedules.options import Time, one_schedule
from holdfast.client.engine import Holdfast
from holdfast.client.schedules.app_schedules import BACKFILL_LIMIT
from holdfast.client.schedules.backfill import BackfillInfo
from holdfast.client.views.schedules import ScheduleInfo, schedule_json
from holdfast.client.views.times import clock, iso


@click.command()
@options.steered_by
@options.why
@one_schedule
def pause(id: str, who: str, reason: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Start nothing of the schedule ID until it is resumed."""
    _steer(lambda app: app.schedules.pause(id, tenant=tenant, by=who, reason=reason), store, "pause", as_json)


@click.command()
@options.steered_by
@options.why
@one_schedule
def resume(id: str, who: str, reason: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Let the schedule ID go on, from now. Ticks of the time of the pause are skipped."""
    _steer(lambda app: app.schedules.resume(id, tenant=tenant, by=who, reason=reason), store, "resume", as_json)


@click.command()
@options.steered_by
@options.why
@one_schedule
def delete(id: str, who: str, reason: str, tenant: str, store: str | None, as_json: bool) -> None:
    """End the schedule ID for good. Its runs go on, and the audit keeps its history."""
    _steer(lambda app: app.schedules.delete(id, tenant=tenant, by=who, reason=reason), store, "delete", as_json)


def _steer(act: Callable[[Holdfast], Awaitable[ScheduleInfo]], store: str | None, action: str, as_json: bool) -> None:
    async def work(app: Holdfast) -> ScheduleInfo:
        return await session.patiently(app, act(app))

    info = session.on_store(session.url_of(store), work)
    if as_json:
        output.emit({**schedule_json(info), "action": action})
    else:
        due = "" if info.due_at is None else f"; the next tick is {clock(info.due_at)}"
        output.say(f"schedule {info.id} is {info.status}{due}")


@click.command("run-now")
@options.steered_by
@options.why
@one_schedule
def run_now(id: str, who: str, reason: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Start a run of the schedule ID now, whatever is under way. Its ticks stay as they are."""

    async def work(app: Holdfast) -> str:
        return await session.patiently(app, app.schedules.run_now(id, tenant=tenant, by=who, reason=reason))

    run = session.on_store(session.url_of(store), work)
    if as_json:
        output.emit({"schedule": id, "run": run, "action": "run_now"})
    else:
        output.say(f"run {run} started")


@click.command()
@click.option("--from", "since", type=Time(), required=True, help="The first time, as 2027-03-01T00:00:00Z.")
@click.option("--to", "until", type=Time(), help="The last time. [now]")
@click.option("--limit", type=click.IntRange(1), default=BACKFILL_LIMIT, show_default=True, help="At most so many.")
@options.dry_run
@options.steered_by
@options.why
@one_schedule
def backfill(
    id: str,
    since: datetime.datetime,
    until: datetime.datetime | None,
    limit: int,
    dry_run: bool,
    who: str,
    reason: str,
    tenant: str,
    store: str | None,
    as_json: bool,
) -> None:
    """Start the runs of ticks of the schedule ID that lie in the past, without those that were started before."""
    end = datetime.datetime.now(datetime.UTC) if until is None else until

    async def work(app: Holdfast) -> BackfillInfo:
        return await app.schedules.backfill(
            id, since, end, limit=limit, dry_run=dry_run, tenant=tenant, by=who, reason=reason
        )

    found = session.on_store(session.url_of(store), work)
    if as_json:
        record = {"schedule": id, "since": iso(found.since), "until": iso(found.until), "count": found.count}
        counts = {"started": found.started, "existed": found.existed, "dry_run": found.dry_run}
        output.emit({**record, **counts, "action": "backfill"})
    else:
        verb = "would be started" if dry_run else "are started"
        output.say(f"{found.count} ticks: {found.started} {verb}, {found.existed} were started before")
