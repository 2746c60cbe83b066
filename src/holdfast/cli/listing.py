"""``list``: which runs there are."""

from __future__ import annotations

import datetime
import time
from typing import Any, get_args

import click

from holdfast.cli import options, output, records, session
from holdfast.client.engine import Holdfast
from holdfast.store.protocol import Run, Status


@click.command("list")
@click.option("--status", type=click.Choice(get_args(Status)), help="Only runs of this status.")
@click.option("--workflow", metavar="NAME", help="Only runs of this workflow.")
@click.option(
    "--attribute", "attributes", type=options.Pair(), multiple=True, metavar="K=V", help="Only with this attribute."
)
@click.option("--parent", metavar="RUN", help="Only the children of this run.")
@click.option(
    "--since", type=options.Moment(), metavar="TIME", help="Only created after: a time, or 2h for 2 hours ago."
)
@click.option("--until", type=options.Moment(), metavar="TIME", help="Only created before.")
@click.option("--limit", type=click.IntRange(min=0), default=100, show_default=True, help="At most so many; 0 for all.")
@options.any_tenant
@options.store
def list_runs(
    status: Status | None,
    workflow: str | None,
    attributes: tuple[tuple[str, str], ...],
    parent: str | None,
    since: datetime.datetime | None,
    until: datetime.datetime | None,
    limit: int,
    tenant: str | None,
    store: str | None,
    as_json: bool,
) -> None:
    """List runs, newest first."""

    async def work(app: Holdfast) -> list[Run]:
        query: dict[str, Any] = {"tenant": tenant, "status": status, "workflow": workflow, "parent": parent}
        found = app.list(
            **query, attributes=dict(attributes), created_after=since, created_before=until, limit=limit or None
        )
        rows = []
        async for row in found:
            if as_json:
                output.emit(records.run_record(row))
            else:
                rows.append(row)
        return rows

    rows = session.on_store(session.url_of(store), work)
    if as_json:
        return
    if not rows:
        output.note("no runs match.")
        return
    _write(rows, show_tenant=tenant is None and any(row.key.tenant != "default" for row in rows))
    if limit and len(rows) == limit:
        output.note(f"these are the newest {limit}; --limit 0 shows all.")


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
        output.clock(row.created_at),
        output.span((row.ended_at or now) - row.created_at),
        output.one_line(row.error or row.pause),
    ]
