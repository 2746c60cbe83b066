"""Streams of events: a run, a list of runs, and your own tasks.

A stream sends what is there, and then what changes. Every event is judged anew: whoever may not look any more gets no
further one. A stream of a list sends the page as it is; a stream of a run the entries of its journal.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Hashable
from hashlib import blake2b
from typing import Annotated, Any, Final

import msgspec
from starlette.responses import Response

from holdfast.client.people.permission import operating
from holdfast.client.views.cursors import Page
from holdfast.client.views.journal import JournalEntry, json_fields
from holdfast.client.views.runs import RunInfo, run_info
from holdfast.client.views.tasks import TaskInfo
from holdfast.errors import MalformedRequest
from holdfast.server.answers import writer_of
from holdfast.server.call import Events, RouteCall
from holdfast.server.fields import Limit
from holdfast.server.route import EVENTS, LAST_EVENT_ID, Nothing, Route
from holdfast.server.run_filters import RunFilter
from holdfast.server.streams.watcher import Subscription
from holdfast.server.streams.wire import BEGIN, PING, event
from holdfast.store import protocol as p

PING_SECONDS: Final = 15.0
READ_ENTRIES: Final = 200

_entry = writer_of(JournalEntry)
_run = writer_of(RunInfo)
_runs = writer_of(Page[RunInfo])
_tasks = writer_of(Page[TaskInfo])


class RunEventsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the stream begins: at this sequence of the journal; without it, at its present end."""

    first: Annotated[int, msgspec.Meta(ge=0, le=2**53)] | None = None


class ListEventsQuery(RunFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which runs; the newest `limit` of them are watched."""

    limit: Limit = 50


async def run_events(call: RouteCall[RunEventsQuery, None]) -> Events | Response:
    info = await call.run.info()
    place = _place(call.header("Last-Event-ID"))
    if place is None:
        first = call.query.first
        place = info.generation, info.events if first is None else first
    elif info.status in p.ENDED and place[0] == info.generation and place[1] >= info.events:
        return Response(status_code=204)  # a browser that gets this does not connect again
    return Events(_run_stream(call, p.Key(info.tenant, info.id), *place))


def _place(id: str | None) -> tuple[int, int] | None:
    """The generation, and the sequence behind the last event that was received."""
    if id is None:
        return None
    generation, mark, sequence = id.partition(".")
    if not (mark and generation.isdecimal() and sequence.isdecimal() and len(id) < 40):
        raise MalformedRequest(
            "Last-Event-ID is none of this stream", [("header/Last-Event-ID", "it is no id of ours")]
        )
    return int(generation), int(sequence) + 1


async def _run_stream(
    call: RouteCall[Any, Any], key: p.Key, generation: int, first: int
) -> AsyncGenerator[bytes, None]:
    async with call.watcher.run(key, call.acting.key) as subscription:
        yield BEGIN
        async for row in changes(call, subscription):
            if row is None:
                yield PING
                continue
            if row.generation != generation:
                generation, first = row.generation, 0
                yield event("generation", msgspec.json.encode({"generation": generation}))
            while entries := await _entries(call, first):
                for entry in entries:
                    yield event("entry", _entry(entry), f"{generation}.{entry.sequence}")
                first = entries[-1].sequence + 1
            yield event("run", _run(run_info(row)))
            if row.standing in p.ENDED:
                yield event("end", b"{}")
                return


async def _entries(call: RouteCall[Any, Any], first: int) -> list[JournalEntry]:
    """Some further entries of the journal, if whoever reads the stream may still see them."""
    found = await call.run.window(first, READ_ENTRIES)
    return [msgspec.structs.replace(entry, fields=json_fields(entry)) for entry in found]


async def list_events(call: RouteCall[ListEventsQuery, None]) -> Events:
    query, tenant = call.query, await _tenant(call)
    filters = query.filters(tenant)
    engine = call.engine

    async def read() -> tuple[Hashable, Page[RunInfo]]:
        page = await engine.page(limit=query.limit, **filters)
        return _digest(
            tuple((run.id, run.generation, run.events, run.updated_at, run.status) for run in page.items)
        ), page

    key = "runs", tenant, msgspec.json.encode(query)
    return Events(_list_stream(call, key, read, "runs", _runs, "runs.see"))


async def task_events(call: RouteCall[Nothing, None]) -> Events:
    tenant, client = await _tenant(call), call.client
    who = client.person_of(call.by)

    async def read() -> tuple[Hashable, Page[TaskInfo]]:
        page = await call.engine.tasks.inbox(by=who, tenant=tenant, limit=100)
        return _digest(tuple((task.id, task.version) for task in page.items)), page

    return Events(_list_stream(call, ("tasks", tenant, who), read, "tasks", _tasks, "tasks.see"))


async def _tenant(call: RouteCall[Any, Any]) -> str:
    caller = await call.client.whoami()
    return call.client.tenant_of(call.tenant) if caller is None else caller.tenant


def _digest(state: Hashable) -> str:
    return blake2b(repr(state).encode(), digest_size=12).hexdigest()


async def _list_stream(
    call: RouteCall[Any, Any], key: Hashable, read: Any, kind: str, write: Any, operation: str
) -> AsyncGenerator[bytes, None]:
    seen = call.header("Last-Event-ID")
    async with call.watcher.listing(key, read, call.acting.key) as subscription:
        yield BEGIN
        async for page in changes(call, subscription):
            if page is None:
                yield PING
            elif subscription.mark != seen:
                seen = str(subscription.mark)
                async with operating(call.client, operation, call.tenant):
                    data = subscription.written(page, write)
                yield event(kind, data, seen)


async def changes(call: RouteCall[Any, Any], subscription: Subscription) -> AsyncIterator[Any]:
    """The states of a subject as they come, and None every now and then; until the stream is to end."""
    deadline = call.now() + call.settings.stream_seconds
    while call.now() < deadline:
        try:
            changed, value = await subscription.next(PING_SECONDS)
        except StopAsyncIteration:
            return
        yield value if changed else None


ROUTES = (
    Route(
        method="GET",
        path="/v1/events/runs",
        operation="runs.see",
        words="A list of runs as it changes. Each event `runs` has the whole page; equal pages have equal ids.",
        handler=list_events,
        query=ListEventsQuery,
        headers=(LAST_EVENT_ID,),
        media=(EVENTS,),
    ),
    Route(
        method="GET",
        path="/v1/events/runs/{run}",
        operation="runs.see",
        words="A run as it goes on: `entry` for each new entry of its journal, `run` for its row, `generation` where a "
        "new journal begins, `end` when it has ended.",
        handler=run_events,
        query=RunEventsQuery,
        headers=(LAST_EVENT_ID,),
        media=(EVENTS,),
    ),
    Route(
        method="GET",
        path="/v1/events/inbox",
        operation="tasks.see",
        words="The open tasks that you may answer, as they change. Each event `tasks` has the whole page.",
        handler=task_events,
        headers=(LAST_EVENT_ID,),
        media=(EVENTS,),
    ),
)
