"""``cells list``, ``show``, ``tail``, ``trace``, ``diagnose`` and ``release``."""

from __future__ import annotations

import datetime
from typing import Any

import click

from holdfast.cells.cell import STATUSES
from holdfast.cli import options, output, session
from holdfast.cli.machines.options import cell_of, of_machines, on_machines, one_cell
from holdfast.cli.pages import note_rest, read_pages
from holdfast.client.engine import Holdfast
from holdfast.client.machines.cell_handle import TRACE_ITEMS
from holdfast.client.views.cells import (
    CellDiagnosis,
    CellInfo,
    CellTrace,
    TraceItem,
    cell_record,
    diagnosis_record,
    plain_data,
    shown_key,
    trace_item_record,
    trace_record,
)
from holdfast.client.views.cursors import Page
from holdfast.client.views.times import clock, iso
from holdfast.client.views.values import compact, plain, quoted


@click.group()
def cells() -> None:
    """Look at the cells of a machine: which there are, what they did, why they do not move; and release parked ones."""


@cells.command("list")
@click.argument("machine")
@click.option("--status", type=click.Choice(STATUSES), help="Only cells of this status.")
@click.option(
    "--where",
    "fields",
    type=options.Pair(),
    multiple=True,
    metavar="FIELD=VALUE",
    help="Only with this value in a field of the state, as stage=paid or address.zip=8010; may be repeated.",
)
@click.option("--active-since", type=options.Moment(), metavar="TIME", help="Only active since: a time, or 2h.")
@options.limit
@options.after
@of_machines
def list_cells(
    machine: str,
    status: Any,
    fields: tuple[tuple[str, str], ...],
    active_since: datetime.datetime | None,
    limit: int,
    after: str | None,
    app: str,
    tenant: str,
    store: str | None,
    as_json: bool,
) -> None:
    """List the cells of MACHINE, by lane and key."""
    state = {name: options.value_of(value) for name, value in fields}

    def each(cell: CellInfo[Any]) -> None:
        if as_json:
            output.emit(cell_record(cell))

    async def work(engine: Holdfast) -> Page[CellInfo[Any]]:
        async def read(size: int, place: str | None) -> Page[CellInfo[Any]]:
            return await engine.machines.cells_page(
                machine, limit=size, after=place, tenant=tenant, status=status, state=state, active_since=active_since
            )

        return await read_pages(read, limit, after, each)

    page = on_machines(app, store, work)
    if as_json:
        return
    if not page.items:
        output.note("no cells match.")
        return
    output.table(["key", "status", "active", "state", "note"], [_row(each) for each in page.items])
    note_rest(page, limit, "the first")


def _row(info: CellInfo[Any]) -> list[output.Part]:
    waits = ", ".join(each.effect for each in info.intents)
    why = info.reason or (f"waits for {waits}" if waits else "")
    state = compact(plain_data(info.state))
    return [_key(info.key), output.status_cell(info.status), clock(info.last_active), state, output.one_line(why)]


def _key(key: Any) -> str:
    return "" if key is None else shown_key(plain_data(key))


@cells.command()
@one_cell
def show(machine: str, key: str | None, app: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Show the cell of MACHINE that has KEY: its state and status, what it waits for, its timers."""

    async def work(engine: Holdfast) -> CellInfo[Any]:
        return await cell_of(engine, machine, key, tenant).show()

    info = on_machines(app, store, work)
    if as_json:
        output.emit(cell_record(info))
        return
    rows: list[list[output.Part]] = [
        ["machine", info.machine],
        ["key", _key(info.key)],
        ["tenant", info.tenant],
        ["status", output.status_cell(info.status)],
        ["reason", info.reason],
        ["state", compact(plain_data(info.state))],
        ["problem", info.problem],
        ["active", clock(info.last_active)],
        ["events", f"{info.events} handled" + (f", {info.held} held" if info.held else "")],
        ["lane", info.lane],
        ["code", f"version {info.machine_version}, {info.machine_hash}"],
    ]
    rows += [["waits for", f"{each.effect} ({each.intent})"] for each in info.intents]
    rows += [["timer", f"{clock(each.at)} {each.schema}"] for each in info.timers]
    output.table([], [row for row in rows if row[1]])


@cells.command()
@click.option(
    "--from",
    "first",
    type=click.IntRange(min=0),
    metavar="SEQ",
    help="Begin at this entry of its lane's journal. [now]",
)
@one_cell
def tail(
    machine: str, key: str | None, first: int | None, app: str, tenant: str, store: str | None, as_json: bool
) -> None:
    """Follow what happens to a cell, until it is interrupted."""

    async def work(engine: Holdfast) -> None:
        async for item in cell_of(engine, machine, key, tenant).tail(first=first):
            _write_item(item, as_json)

    on_machines(app, store, work)


@cells.command()
@click.option("--limit", type=click.IntRange(min=1), default=TRACE_ITEMS, show_default=True, help="The last so many.")
@one_cell
def trace(machine: str, key: str | None, limit: int, app: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Print the timeline of a cell: what it heard, asked for, got and emitted, oldest first."""

    async def work(engine: Holdfast) -> CellTrace:
        return await cell_of(engine, machine, key, tenant).trace(limit=limit)

    found = on_machines(app, store, work)
    if as_json:
        output.emit(trace_record(found))
        return
    if not found.items:
        output.note("nothing is known of this cell.")
    for item in found.items:
        _write_item(item, as_json)


def _write_item(item: TraceItem, as_json: bool) -> None:
    if as_json:
        output.emit(trace_item_record(item))
        return
    name = "" if item.name == item.kind else item.name
    parts = [name, item.status, "" if item.value is None else quoted(plain(item.value)), output.one_line(item.reason)]
    at = output.TableCell(f"{item.position:>5}  {iso(item.time)}  ", "dim")
    output.say(at, f"{item.kind:<10}  {'  '.join(part for part in parts if part)}".rstrip())


@cells.command()
@one_cell
def diagnose(machine: str, key: str | None, app: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Say why a cell does not move, and what would move it."""

    async def work(engine: Holdfast) -> CellDiagnosis:
        return await cell_of(engine, machine, key, tenant).diagnose()

    found = on_machines(app, store, work)
    if as_json:
        output.emit(diagnosis_record(found))
        return
    for cause in found.causes:
        output.say(f"{cause.sentence} `{cause.command}`" if cause.command else cause.sentence)


@cells.command()
@click.option("--drop", is_flag=True, help="Leave the event out that parked it, for good.")
@options.steered_by
@options.why
@one_cell
def release(
    machine: str,
    key: str | None,
    drop: bool,
    who: str,
    reason: str,
    app: str,
    tenant: str,
    store: str | None,
    as_json: bool,
) -> None:
    """Let a parked cell go on: what is held for it is handled, the event that parked it first."""

    async def work(engine: Holdfast) -> None:
        act = cell_of(engine, machine, key, tenant).release(drop=drop, by=who, reason=reason)
        await session.patiently(engine, act)

    on_machines(app, store, work)
    if as_json:
        output.emit({"machine": machine, "key": key, "tenant": tenant, "action": "drop" if drop else "release"})
    else:
        output.say(f"the cell goes on{', without the event that parked it' if drop else ''}")
