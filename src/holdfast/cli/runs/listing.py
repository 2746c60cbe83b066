"""``list``: which runs there are."""

from __future__ import annotations

import time
from typing import Any

import click

from holdfast.cli import options, output, session
from holdfast.cli.filters import Filters, filtered
from holdfast.client.engine import Holdfast
from holdfast.client.filters import RUNS
from holdfast.client.views import records
from holdfast.client.views.cursors import write_cursor
from holdfast.client.views.times import clock, span
from holdfast.store.protocol import Run


@click.command("list")
@click.option("--limit", type=click.IntRange(min=0), default=100, show_default=True, help="At most so many; 0 for all.")
@click.option("--after", metavar="CURSOR", help="Go on where an earlier list ended: it names the cursor.")
@click.option("--count", is_flag=True, help="Only say how many there are, by tenant and status.")
@filtered
@options.store
def list_runs(limit: int, after: str | None, count: bool, store: str | None, as_json: bool, **filters: Any) -> None:
    """List runs, newest first."""
    chosen = Filters(**filters)
    if count:
        _count(chosen, store, as_json)
        return

    async def work(app: Holdfast) -> list[Run]:
        rows = []
        async for row in chosen.find(app, limit or None, after):
            rows.append(row)
            if as_json:
                output.emit(records.run_record(row))
        return rows

    rows = session.on_store(session.url_of(store), work)
    if as_json:
        return
    if not rows:
        output.note("no runs match.")
        return
    _write(rows, show_tenant=chosen.tenant is None and any(row.key.tenant != "default" for row in rows))
    if limit and len(rows) == limit:
        behind = write_cursor(RUNS, rows[-1].cursor)
        output.note(f"these are the newest {limit}; --limit 0 shows all, --after {behind} the next.")


def _count(chosen: Filters, store: str | None, as_json: bool) -> None:
    if chosen.narrow:
        raise click.UsageError("--count counts all runs of a tenant: give --tenant, and no other filter.")
    found = session.on_store(session.url_of(store), lambda app: app.counts(tenant=chosen.tenant))
    if as_json:
        for each in found:
            output.emit({"tenant": each.tenant, "status": each.status, "count": each.count})
    elif not found:
        output.note("there are no runs.")
    else:
        rows: list[list[output.Part]] = [
            [each.tenant, output.status_cell(each.status), str(each.count)] for each in found
        ]
        output.table(["tenant", "status", "count"], rows)


def _write(rows: list[Run], *, show_tenant: bool) -> None:
    headers = [*(["tenant"] if show_tenant else []), "id", "workflow", "status", "created", "duration", "note"]
    now = time.time_ns() // 1000
    output.table(headers, [_row(row, show_tenant, now) for row in rows])


def _row(row: Run, show_tenant: bool, now: int) -> list[output.Part]:
    return [
        *([row.key.tenant] if show_tenant else []),
        row.key.run,
        row.workflow,
        output.status_cell(row.status),
        clock(row.created_at),
        span((row.ended_at or now) - row.created_at),
        output.one_line(row.error or row.pause),
    ]
