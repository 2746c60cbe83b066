"""``holdfast machines``: look at machines and send them events; govern and check them, prove cells, import charts."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli import exits, options, output
from holdfast.cli import session as sessions
from holdfast.cli.groups import ListingGroup
from holdfast.cli.machines.charts import import_chart
from holdfast.cli.machines.manifests import COMMANDS
from holdfast.cli.machines.options import of_machines, on_machines
from holdfast.cli.machines.replay import export, replay
from holdfast.cli.machines.verification import prove, verify
from holdfast.cli.pages import note_rest, read_pages
from holdfast.client.engine import Holdfast
from holdfast.client.machines.sender import SentEvent
from holdfast.client.views.cells import (
    DeadLetterInfo,
    MachineInfo,
    dead_letter_record,
    machine_record,
    plain_data,
    shown_key,
)
from holdfast.client.views.cursors import Page
from holdfast.client.views.times import clock
from holdfast.client.views.values import compact, plain


@click.group(cls=ListingGroup)
def machines() -> None:
    """List machines, send them events, redeliver those that no cell could handle; govern machines by manifests, check
    them, prove cells, import charts. Without a command: the list."""


@machines.command("list")
@of_machines
def list_machines(app: str, tenant: str, store: str | None, as_json: bool) -> None:
    """List the machines of APP, with a tenant's cells by status."""

    async def work(engine: Holdfast) -> list[MachineInfo]:
        return [each async for each in engine.machines.list(tenant=tenant)]

    found = on_machines(app, store, work)
    if as_json:
        for info in found:
            output.emit(machine_record(info))
    elif not found:
        output.note(f"{app} has no machines.")
    else:
        rows: list[list[output.Part]] = [
            [each.name, str(each.version), f"{each.begun}/{each.lanes}", _cells(each), _note(each)] for each in found
        ]
        output.table(["machine", "version", "lanes", "cells", "note"], rows)


def _cells(info: MachineInfo) -> str:
    return ", ".join(f"{count:,} {status}" for status, count in sorted(info.cells.items())) or "none"


def _note(info: MachineInfo) -> str:
    notes = [f"{len(info.paused)} of its lanes paused"] if info.paused else []
    notes += [f"{info.moving} of its lanes are being handed their cells"] if info.moving else []
    return ", ".join(notes)


def _split(info: MachineInfo) -> list[list[output.Part]]:
    """How far a split is."""
    rows: list[list[output.Part]] = []
    if info.moving:
        left = f"{info.unmoved:,} cells are not handed over yet"
        rows.append(["split", f"{info.moving} of the {info.lanes} lanes do not have all of their cells: {left}"])
    if info.forwarding:
        rows.append(["forwarding", f"{info.forwarding} lanes that were split wait for effects of cells they had"])
    return rows


@machines.command()
@click.argument("machine")
@of_machines
def show(machine: str, app: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Show the machine MACHINE: what it hears and asks for, its lanes, and a tenant's cells by status."""

    async def work(engine: Holdfast) -> MachineInfo:
        return await engine.machines.show(machine, tenant=tenant)

    info = on_machines(app, store, work)
    if as_json:
        output.emit(machine_record(info))
        return
    rows: list[list[output.Part]] = [
        ["machine", info.name],
        ["tenant", info.tenant],
        ["version", str(info.version)],
        ["hash", info.hash],
        ["hears", ", ".join(info.events)],
        ["effects", ", ".join(info.effects)],
        ["emits", ", ".join(info.emits)],
        ["lanes", f"{info.begun} of {info.lanes} have begun"],
        ["cells", _cells(info)],
    ]
    rows += _split(info)
    rows += [[f"paused {lane}", reason] for lane, reason in info.paused.items()]
    output.table([], [row for row in rows if row[1]])


@machines.command()
@click.argument("schema")
@click.argument("event")
@click.option("--id", metavar="ID", help="The event's own id: sent again with it, it is taken in once.")
@options.steered_by
@of_machines
def send(
    schema: str, event: str, id: str | None, who: str, app: str, tenant: str, store: str | None, as_json: bool
) -> int:
    """Bring the event EVENT, which is JSON, to the machines that hear SCHEMA. Exit 1 where none does."""
    data = options.object_of(event, "EVENT", '{"order_id": "o1", "cents": 500}')

    async def work(engine: Holdfast) -> SentEvent:
        sent = engine.machines.send_data(schema, data, id=id, tenant=tenant, by=who)
        return await sessions.patiently(engine, sent)

    found = on_machines(app, store, work)
    places = [{"machine": each.machine, "lane": each.lane, "position": each.position} for each in found.places]
    if as_json:
        head: dict[str, Any] = {"schema": found.schema, "id": found.id, "tenant": found.tenant}
        output.emit({**head, "repeated": found.repeated, "heard": found.heard, "places": places})
    else:
        heard = ", ".join(each.machine for each in found.places)
        again = ", which was sent before" if found.repeated else ""
        output.say(f"event {found.id}{again} is heard by {heard}" if heard else f"nobody hears {found.schema}")
    return exits.GOOD if found.heard else exits.NO


@machines.command("dead-letters")
@options.limit
@options.after
@of_machines
def dead_letters(limit: int, after: str | None, app: str, tenant: str, store: str | None, as_json: bool) -> None:
    """List the events that no cell could handle, each with the reason."""

    def each(letter: DeadLetterInfo) -> None:
        if as_json:
            output.emit(dead_letter_record(letter))

    async def work(engine: Holdfast) -> Page[DeadLetterInfo]:
        return await read_pages(
            lambda size, place: engine.machines.dead_letters_page(limit=size, after=place, tenant=tenant),
            limit,
            after,
            each,
        )

    page = on_machines(app, store, work)
    if as_json:
        return
    if not page.items:
        output.note("there are no dead letters.")
        return
    output.table(["letter", "schema", "key", "when", "why", "event"], [_letter(each) for each in page.items])
    note_rest(page, limit, "the first")


def _letter(info: DeadLetterInfo) -> list[output.Part]:
    key = "" if info.key is None else shown_key(plain_data(info.key))
    return [info.id, info.schema, key, clock(info.at), info.reason, compact(plain(info.value))]


@machines.command()
@click.argument("letter")
@options.steered_by
@options.why
@of_machines
def redeliver(letter: str, who: str, reason: str, app: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Deliver the dead letter LETTER again: to the cell that it was meant for, or to all that hear it by now."""

    async def work(engine: Holdfast) -> None:
        await sessions.patiently(engine, engine.machines.redeliver(letter, tenant=tenant, by=who, reason=reason))

    on_machines(app, store, work)
    if as_json:
        output.emit({"letter": letter, "tenant": tenant, "action": "redeliver"})
    else:
        output.say(f"dead letter {letter} is delivered again")


@machines.command()
@click.argument("machine")
@click.option(
    "--lanes", type=int, required=True, metavar="N", help="Into how many lanes: a multiple of the present number."
)
@options.steered_by
@options.why
@of_machines
def split(
    machine: str, lanes: int, who: str, reason: str, app: str, tenant: str, store: str | None, as_json: bool
) -> None:
    """Divide a tenant's cells of the machine MACHINE among more lanes, while events come and are handled.

    Each lane is split into the same number of new ones. The cells are handed over by workers: `machines show` tells how
    far that is.
    """

    async def work(engine: Holdfast) -> MachineInfo:
        splitting = engine.machines.split(machine, lanes, tenant=tenant, by=who, reason=reason)
        return await sessions.patiently(engine, splitting)

    info = on_machines(app, store, work)
    if as_json:
        output.emit(machine_record(info))
    else:
        output.say(f"machine {machine} has {info.lanes} lanes from now on; workers hand its cells over")


for command in (import_chart, verify, prove, export, replay, *COMMANDS):
    machines.add_command(command)
