"""What a run did: its journal, timeline, state, signals, picture and evidence."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from holdfast.client.views.instances import InstanceInfo
from holdfast.client.views.journal import JournalEntry, json_fields
from holdfast.client.views.signals import WaitingSignal
from holdfast.client.views.timeline import item_record
from holdfast.runs.advice import Advice
from holdfast.server.call import FileAnswer, RouteCall
from holdfast.server.fields import Limit
from holdfast.server.pictures import MEDIA, PictureQuery, file_of
from holdfast.server.route import Nothing, Route

First = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class WindowQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A window of a run's past: `limit` of it, from `first` on."""

    first: First = 0
    limit: Limit = 200


class JournalWindow(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a journal. `next` is the `first` of the window behind it; null at the journal's present end."""

    run: str
    generation: int
    events: int  # how many the journal has
    entries: list[JournalEntry]
    next: int | None


class FailedAttempt(msgspec.Struct, frozen=True):
    """An attempt that failed."""

    attempt: int
    error: str


class BegunAgain(msgspec.Struct, frozen=True):
    """An attempt that was begun again, because its worker was lost."""

    attempt: int
    at: datetime


class GateMark(msgspec.Struct, frozen=True):
    """A task or a receipt of an action."""

    kind: str
    id: str
    state: str


class TimelineItem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened, or is under way."""

    kind: str
    name: str
    state: str
    step_state: str | None
    at: datetime
    until: datetime | None
    duration_seconds: float | None
    attempts: int
    position: int | None
    detail: str
    failed_attempts: list[FailedAttempt]
    begun_again: list[BegunAgain]
    gate: list[GateMark]


class TimelineWindow(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a timeline. `next` is the `first` of the window behind it."""

    run: str
    count: int  # items of the whole timeline
    items: list[TimelineItem]
    next: int | None


class Explanation(msgspec.Struct, frozen=True):
    """Why a run is not moving, in words, and as advice with codes."""

    run: str
    explanation: str
    advice: tuple[Advice, ...]


class RunPictureQuery(PictureQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How it is drawn, and when: as it was when its journal had `at` events."""

    at: Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None = None


class EvidenceQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which evidence: `values` has the values, too; `anew` makes it now in any case."""

    values: bool = False
    generation: First | None = None
    anew: bool = False


class JournalCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the journal keeps its laws, its hash chain fits, and its row agrees with it. ``notes`` are laws of newer
    runs that its older rules let it break."""

    run: str
    good: bool
    events: int
    problem: str
    law: str | None
    notes: tuple[str, ...] = ()


async def journal(call: RouteCall[WindowQuery, None]) -> JournalWindow:
    info, query = await call.run.info(), call.query
    found = await call.run.window(query.first, query.limit)
    entries = [msgspec.structs.replace(entry, fields=json_fields(entry)) for entry in found]
    end = query.first + len(entries)
    return JournalWindow(
        run=info.id,
        generation=info.generation,
        events=info.events,
        entries=entries,
        next=end if len(entries) == query.limit and end < info.events else None,
    )


async def timeline(call: RouteCall[WindowQuery, None]) -> TimelineWindow:
    items, query = await call.run.timeline(), call.query
    end = query.first + query.limit
    shown = [msgspec.convert(item_record(item), TimelineItem) for item in items[query.first : end]]
    return TimelineWindow(run=call.run.id, count=len(items), items=shown, next=end if end < len(items) else None)


async def state(call: RouteCall[Nothing, None]) -> InstanceInfo:
    return await call.run.instance()


async def explain(call: RouteCall[Nothing, None]) -> Explanation:
    found = await call.run.details()
    return Explanation(call.run.id, found.explanation, found.advice)


async def signals(call: RouteCall[Nothing, None]) -> list[WaitingSignal]:
    return await call.run.unreceived()


async def diagram(call: RouteCall[RunPictureQuery, None]) -> FileAnswer:
    query = call.query
    picture = await call.run.picture(at=query.at, direction=query.direction, deepest=query.depth)
    return await file_of(call.client, picture, query)


async def evidence(call: RouteCall[EvidenceQuery, None]) -> FileAnswer:
    query = call.query
    found = await call.run.evidence(values=query.values, generation=query.generation, anew=query.anew)
    headers = {
        "X-Holdfast-SHA256": found.sha256,
        "X-Holdfast-Generation": str(found.generation),
        "X-Holdfast-Unsealed": str(found.unsealed),
    }
    return FileAnswer(found.data, "application/octet-stream", f"{call.run.id}.evidence", headers)


async def verify(call: RouteCall[Nothing, None]) -> JournalCheck:
    found = await call.run.verify()
    return JournalCheck(
        run=call.run.id,
        good=found.good,
        events=found.events,
        problem=found.problem,
        law=found.law,
        notes=found.notes,
    )


RUN = "/v1/runs/{run}"

ROUTES = (
    Route(
        method="GET",
        path=f"{RUN}/journal",
        operation="runs.see",
        words="A window of a run's journal, in order. Secrets are masked.",
        handler=journal,
        query=WindowQuery,
        answer=JournalWindow,
    ),
    Route(
        method="GET",
        path=f"{RUN}/timeline",
        operation="runs.see",
        words="The journal folded into one item for each step, child, timer and signal, in the order they began.",
        handler=timeline,
        query=WindowQuery,
        answer=TimelineWindow,
    ),
    Route(
        method="GET",
        path=f"{RUN}/state",
        operation="runs.see",
        words="Where a run of a definition stands: its business state, and apart from that the engine's.",
        handler=state,
        answer=InstanceInfo,
    ),
    Route(
        method="GET",
        path=f"{RUN}/explanation",
        operation="runs.see",
        words="What the run waits for, since when, and what would move it: in words, and as advice with codes.",
        handler=explain,
        answer=Explanation,
    ),
    Route(
        method="GET",
        path=f"{RUN}/signals",
        operation="runs.see",
        words="The signals that the run has not received, in the order in which they came.",
        handler=signals,
        answer=list[WaitingSignal],
    ),
    Route(
        method="GET",
        path=f"{RUN}/diagram",
        operation="runs.see",
        words="The picture of a run as it is, or as it was at a version of its journal.",
        handler=diagram,
        query=RunPictureQuery,
        media=tuple(MEDIA.values()),
    ),
    Route(
        method="GET",
        path=f"{RUN}/verification",
        operation="runs.see",
        words="Check the journal's laws, its hash chain and the stored status.",
        handler=verify,
        answer=JournalCheck,
    ),
    Route(
        method="GET",
        path=f"{RUN}/evidence",
        operation="evidence.see",
        words="Download the file that proves what the run did. `holdfast verify FILE` checks it without any server.",
        handler=evidence,
        query=EvidenceQuery,
        media=("application/octet-stream",),
    ),
)
