"""One run: why it is not moving, what it did, and what can be done about it."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from starlette.responses import Response

from holdfast.errors import HoldfastError
from holdfast.server.call import RouteCall
from holdfast.server.console.page import ConsolePage, Context
from holdfast.server.console.pictures import sentence, shown_picture
from holdfast.server.console.templating import Paths, status_of
from holdfast.server.pictures import PictureQuery
from holdfast.store.protocol import ENDED

WINDOW: Final = 100
MOST_REPLAYED: Final = 5000
"""Of a longer journal, what must be read whole is read when it is asked for."""

CHILDREN: Final = 20

Sequence = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class RunQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which part of the timeline: from ``first`` on, or as the run was when its journal had ``at`` events.

    ``fork`` is the place that the form for a fork names.
    """

    first: Sequence | None = None
    at: Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None = None
    fork: Sequence | None = None


class RunPicture(PictureQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How it is drawn, and when. ``whole`` draws a picture of any size; ``v`` lets browsers tell versions apart."""

    at: Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None = None
    whole: bool = False
    v: Annotated[str, msgspec.Meta(max_length=40)] = ""


async def load(call: RouteCall[RunQuery, None]) -> Context:
    details, query = await call.run.details(), call.query
    run = details.run
    at = None if query.at is None or query.at >= run.events else query.at
    first, limit = query.first, WINDOW
    if at is not None:
        first = max(0, at - WINDOW)
        limit = at - first
    window = await call.run.timeline_window(first, limit)
    is_short = run.events <= MOST_REPLAYED
    begun = window.rows[0] if window.first == 0 and window.rows else None
    children = await call.client.page(tenant=call.tenant, parent=run.id, limit=CHILDREN)
    receives = [wait.name for wait in run.waits if wait.kind == "receive"]
    return {
        "details": details,
        "status": status_of(run),
        "run": run,
        "at": at,
        "window": window,
        "width": WINDOW,
        "arguments": begun.given if begun is not None else await _arguments(call),
        "children": children.items,
        "more_children": children.next is not None,
        "state": await _state(call) if is_short and run.program_kind == "definition" else None,
        "signals": await call.run.unreceived() if is_short and run.status not in ENDED else [],
        "receives": receives,
        "fork": query.fork,
        "is_drawn": is_short,
        "has_ended": run.status in ENDED,
        "events": Paths(call.request.scope.get("root_path", ""))("v1", "events", "runs", run.id),
    }


async def _arguments(call: RouteCall[Any, None]) -> Any:
    entries = await call.run.window(0, 1)
    return entries[0].fields.get("input") if entries else None


async def _state(call: RouteCall[Any, None]) -> Any:
    """The business state of a definition's run; its problem in words where that cannot be read."""
    try:
        return (await call.run.instance()).state
    except HoldfastError as error:
        return str(error)


async def picture(call: RouteCall[RunPicture, None]) -> Response:
    query = call.query
    try:
        found = await call.run.picture(at=query.at, direction=query.direction, deepest=query.depth)
        return await shown_picture(call.client, found, query, whole=query.whole)
    except HoldfastError as error:
        return sentence(f"It cannot be drawn: {str(error).splitlines()[0]}")


RUN = ConsolePage(
    path="/runs/{run}",
    operation="runs.see",
    words="Why a run is not moving, what it did, and what can be done about it.",
    load=load,
    template="run.html",
    data="/v1/runs/{run}",
    query=RunQuery,
)

PAGES = (
    RUN,
    ConsolePage(
        path="/runs/{run}/diagram",
        operation="runs.see",
        words="The run as a picture.",
        load=picture,
        template="",
        data="/v1/runs/{run}/diagram",
        query=RunPicture,
    ),
)
