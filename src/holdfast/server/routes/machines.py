"""Machines, their cells, and the events that no cell could handle.

A cell is named by its machine and its key. A key that is no text is written as JSON; a machine without keys has one
cell, which is written `-`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Annotated, Any

import msgspec

from holdfast.cells.cell import CellStatus
from holdfast.client.machines.cell_handle import CellFollower, CellHandle
from holdfast.client.machines.sender import SentEvent
from holdfast.client.views.cells import (
    CellDiagnosis,
    CellInfo,
    CellTrace,
    DeadLetterInfo,
    IntentInfo,
    MachineInfo,
    TimerInfo,
    TraceItem,
    plain_data,
)
from holdfast.client.views.cursors import Page
from holdfast.errors import MalformedRequest
from holdfast.runs.advice import AdviceCode
from holdfast.server.answers import writer_of
from holdfast.server.call import Events, RouteCall
from holdfast.server.fields import Limit, Name, PageQuery, Reason, ReasonBody, Text, Time, Value
from holdfast.server.route import EVENTS, LAST_EVENT_ID, Nothing, Route
from holdfast.server.routes.events import changes
from holdfast.server.run_filters import Pair
from holdfast.server.streams.wire import BEGIN, PING, event

_item = writer_of(TraceItem)


class CellListQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which cells of which machine. A page may be short, even empty: `next` says whether there are more."""

    machine: Name
    status: CellStatus | None = None
    where: Annotated[
        list[Pair],
        msgspec.Meta(max_length=20, description="FIELD=VALUE of the state; JSON, or a text. May be repeated."),
    ] = msgspec.field(default_factory=list)
    active_since: Time | None = None


class TraceQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of the timeline: its last items."""

    limit: Limit = 500


class TailQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the stream begins: at this entry of the journal of the cell's lane; without it, at its present end."""

    first: Annotated[int, msgspec.Meta(ge=0, le=2**53)] | None = None


class ReleaseBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a cell goes on: with `drop` the event that parked it is left out, for good."""

    drop: bool = False
    reason: Reason = ""


class SplitBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Into how many lanes a machine's cells are divided: a multiple of the present number."""

    lanes: Annotated[int, msgspec.Meta(ge=2)]
    reason: Reason = ""


class EventBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An event for machines. Sent again with its `id` it is taken in once."""

    schema: Text
    event: Value
    id: Name | None = None


class CellView(msgspec.Struct, frozen=True, kw_only=True):
    """One cell. ``state`` is plain data; ``problem`` says why the code here cannot read it. ``events`` counts what it
    has handled, ``held`` what came while it was parked."""

    machine: str
    tenant: str
    key: Any
    lane: str
    status: CellStatus
    reason: str
    state: Any
    problem: str
    intents: list[IntentInfo]
    timers: list[TimerInfo]
    last_active: datetime
    events: int
    held: int
    machine_version: int
    machine_hash: str


class ReleasedCell(msgspec.Struct, frozen=True):
    """A cell that goes on as soon as a worker hears of it."""

    machine: str
    key: Any
    dropped: bool


class RedeliveredLetter(msgspec.Struct, frozen=True):
    """A dead letter that is delivered again."""

    letter: str


def cell_of(call: RouteCall[Any, Any]) -> CellHandle[Any]:
    """The cell that the path names. Raises InvalidRequest where there is no such machine, or it has no such keys."""
    machines, key = call.client.machines, call.path["key"]
    machine = machines.named(call.path["machine"])
    found = None if not machine.is_keyed and key == "-" else machines.read_key(machine, key)
    return machines.cell(machine, found, tenant=call.tenant)


def view_of(info: CellInfo[Any]) -> CellView:
    """A cell with its state as plain data."""
    fields = {name: getattr(info, name) for name in CellView.__struct_fields__}
    lists = {"intents": list(info.intents), "timers": list(info.timers)}
    return CellView(**{**fields, **lists, "key": plain_data(info.key), "state": plain_data(info.state)})


async def list_machines(call: RouteCall[Nothing, None]) -> list[MachineInfo]:
    return [each async for each in call.client.machines.list(tenant=call.tenant)]


async def send_event(call: RouteCall[Nothing, EventBody]) -> SentEvent:
    body = call.body
    return await call.client.machines.send_data(body.schema, body.event, id=body.id, tenant=call.tenant, by=call.by)


async def list_cells(call: RouteCall[CellListQuery, None]) -> Page[CellView]:
    query = call.query
    page: Page[CellInfo[Any]] = await call.client.machines.cells_page(
        query.machine,
        limit=query.limit,
        after=query.after,
        tenant=call.tenant,
        status=query.status,
        state=conditions_of(query.where),
        active_since=query.active_since,
    )
    return Page([view_of(each) for each in page.items], page.next)


def conditions_of(pairs: list[str]) -> dict[str, Any]:
    """Fields of a state and what they must be: JSON where it is JSON, else a text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found


async def show_cell(call: RouteCall[Nothing, None]) -> CellView:
    return view_of(await cell_of(call).show())


async def trace_cell(call: RouteCall[TraceQuery, None]) -> CellTrace:
    cell = cell_of(call)
    found = await cell.trace(limit=call.query.limit)
    if not found.items:
        await cell.show()  # a cell of which nothing is known is not found
    return msgspec.structs.replace(found, key=plain_data(found.key))


async def diagnose_cell(call: RouteCall[Nothing, None]) -> CellDiagnosis:
    cell = cell_of(call)
    found = await cell.diagnose()
    if any(each.code == AdviceCode.MISSING for each in found.causes):
        await cell.show()
    return msgspec.structs.replace(found, key=plain_data(found.key))


async def release_cell(call: RouteCall[Nothing, ReleaseBody]) -> ReleasedCell:
    cell, body = cell_of(call), call.body
    await cell.release(drop=body.drop, by=call.by, reason=body.reason)
    return ReleasedCell(call.path["machine"], plain_data(cell.key), body.drop)


async def follow_cell(call: RouteCall[TailQuery, None]) -> Events:
    cell, last = cell_of(call), call.header("Last-Event-ID")
    if last is not None and not (last.isascii() and last.isdecimal() and len(last) < 16):
        raise MalformedRequest(
            "Last-Event-ID is none of this stream", [("header/Last-Event-ID", "it is no id of ours")]
        )
    await cell.show()
    place = CellFollower(call.query.first if last is None else int(last))
    if place.at is None:
        await cell.read_on(place)  # what happens from now on is in the stream, however late it is read
    return Events(_stream(call, cell, place))


async def _stream(call: RouteCall[Any, Any], cell: CellHandle[Any], place: CellFollower) -> AsyncGenerator[bytes, None]:
    async with call.watcher.run(await cell.present_lane(), call.acting.key) as subscription:
        yield BEGIN
        async for row in changes(call, subscription):
            if row is None:
                yield PING  # the cell may have gone to another lane since, which nobody watches here
            items = await cell.read_on(place)
            for number, item in enumerate(items, 1):
                # Only the last of them has an id: a stream that is lost goes on behind whole turns.
                yield event("item", _item(item), str(place.at) if number == len(items) else None)


async def split_machine(call: RouteCall[Nothing, SplitBody]) -> MachineInfo:
    body = call.body
    return await call.client.machines.split(
        call.path["machine"], body.lanes, tenant=call.tenant, by=call.by, reason=body.reason
    )


async def list_dead_letters(call: RouteCall[PageQuery, None]) -> Page[DeadLetterInfo]:
    query = call.query
    page = await call.client.machines.dead_letters_page(limit=query.limit, after=query.after, tenant=call.tenant)
    return Page([msgspec.structs.replace(each, key=plain_data(each.key)) for each in page.items], page.next)


async def redeliver(call: RouteCall[Nothing, ReasonBody]) -> RedeliveredLetter:
    letter = call.path["letter"]
    await call.client.machines.redeliver(letter, tenant=call.tenant, by=call.by, reason=call.body.reason)
    return RedeliveredLetter(letter)


CELL = "/v1/cells/{machine}/{key}"

ROUTES = (
    Route(
        method="GET",
        path="/v1/machines",
        operation="machines.see",
        words="List the machines that the server's code has, with the tenant's cells by status, and the lanes.",
        handler=list_machines,
        answer=list[MachineInfo],
    ),
    Route(
        method="POST",
        path="/v1/machines/events",
        operation="events.emit",
        words="Bring an event to the machines that hear it, by the name of its schema. Durable when this answers.",
        handler=send_event,
        body=EventBody,
        answer=SentEvent,
        status=201,
    ),
    Route(
        method="POST",
        path="/v1/machines/{machine}/split",
        operation="machines.split",
        words="Divide a machine's cells among more lanes, while events come. Workers hand the cells over.",
        handler=split_machine,
        body=SplitBody,
        answer=MachineInfo,
    ),
    Route(
        method="GET",
        path="/v1/cells",
        operation="machines.see",
        words="List the cells of a machine, by status, fields of the state, and activity.",
        handler=list_cells,
        query=CellListQuery,
        answer=Page[CellView],
    ),
    Route(
        method="GET",
        path=CELL,
        operation="machines.see",
        words="Show a cell. A key that is no text is JSON; the only cell of a machine without keys is `-`.",
        handler=show_cell,
        answer=CellView,
    ),
    Route(
        method="GET",
        path=f"{CELL}/trace",
        operation="machines.see",
        words="The timeline of a cell: what it heard, asked for, got and emitted. Secrets are masked.",
        handler=trace_cell,
        query=TraceQuery,
        answer=CellTrace,
    ),
    Route(
        method="GET",
        path=f"{CELL}/diagnosis",
        operation="machines.see",
        words="Why a cell does not move: each cause as a word, a sentence, and the command that would move it.",
        handler=diagnose_cell,
        answer=CellDiagnosis,
    ),
    Route(
        method="GET",
        path="/v1/events/cells/{machine}/{key}",
        operation="machines.see",
        words="A stream of what happens to a cell: `item` for each new item of its timeline.",
        handler=follow_cell,
        query=TailQuery,
        headers=(LAST_EVENT_ID,),
        media=(EVENTS,),
    ),
    Route(
        method="POST",
        path=f"{CELL}/release",
        operation="machines.release",
        words="Let a parked cell go on: what is held for it is handled. With `drop` the event that parked it is not.",
        handler=release_cell,
        body=ReleaseBody,
        answer=ReleasedCell,
    ),
    Route(
        method="GET",
        path="/v1/dead-letters",
        operation="machines.see",
        words="List the events that no cell could handle, each with the reason.",
        handler=list_dead_letters,
        query=PageQuery,
        answer=Page[DeadLetterInfo],
    ),
    Route(
        method="POST",
        path="/v1/dead-letters/{letter}/redelivery",
        operation="machines.redeliver",
        words="Deliver a dead letter again, once: to the cell that it was meant for, or to all that hear it by now.",
        handler=redeliver,
        body=ReasonBody,
        answer=RedeliveredLetter,
    ),
)
