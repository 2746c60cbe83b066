"""``list``: which runs there are."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from holdfast.cli import options, output, session
from holdfast.cli.filters import Filters, filtered
from holdfast.cli.pages import note_rest, read_pages
from holdfast.client.engine import Holdfast
from holdfast.client.views.cursors import Page
from holdfast.client.views.runs import RunInfo, run_record
from holdfast.client.views.times import clock, present, span


@click.command("list")
@options.limit
@options.after
@click.option("--count", is_flag=True, help="Only say how many there are, by tenant and status.")
@filtered
@options.store
def list_runs(limit: int, after: str | None, count: bool, store: str | None, as_json: bool, **filters: Any) -> None:
    """List runs, newest first."""
    chosen = Filters(**filters)
    if count:
        _count(chosen, store, as_json)
        return

    def each(run: RunInfo) -> None:
        if as_json:
            output.emit(run_record(run))

    async def work(app: Holdfast) -> Page[RunInfo]:
        return await read_pages(
            lambda size, place: app.page(limit=size, after=place, **chosen.by_name()), limit, after, each
        )

    page = session.on_store(session.url_of(store), work)
    if as_json:
        return
    if not page.items:
        output.note("no runs match.")
        return
    _write(page.items, show_tenant=chosen.tenant is None and any(run.tenant != "default" for run in page.items))
    note_rest(page, limit, "the newest")


def _count(chosen: Filters, store: str | None, as_json: bool) -> None:
    if chosen.narrow:
        raise click.UsageError("--count counts all runs of a tenant: give --tenant, and no other filter.")
    counts = session.on_store(session.url_of(store), lambda app: app.counts(tenant=chosen.tenant))
    if as_json:
        for each in counts:
            output.emit({"tenant": each.tenant, "status": each.status, "count": each.count})
    elif not counts:
        output.note("there are no runs.")
    else:
        rows: list[list[output.Part]] = [
            [each.tenant, output.status_cell(each.status), str(each.count)] for each in counts
        ]
        output.table(["tenant", "status", "count"], rows)


def _write(runs: list[RunInfo], *, show_tenant: bool) -> None:
    show_reference = any(run.reference is not None for run in runs)
    first = [*(["tenant"] if show_tenant else []), "id", *(["reference"] if show_reference else [])]
    now = present()
    rows = [[*_identity(run, show_tenant, show_reference), *_row(run, now)] for run in runs]
    output.table([*first, "workflow", "status", "created", "duration", "note"], rows)


def _identity(run: RunInfo, show_tenant: bool, show_reference: bool) -> list[output.Part]:
    return [*([run.tenant] if show_tenant else []), run.id, *([run.reference or ""] if show_reference else [])]


def _row(run: RunInfo, now: datetime) -> list[output.Part]:
    return [
        run.workflow,
        output.status_cell(run.status),
        clock(run.created_at),
        span((run.ended_at or now) - run.created_at),
        output.one_line(run.error or run.pause_reason),
    ]
