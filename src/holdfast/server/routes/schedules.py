"""Schedules: what starts by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.client.schedules.backfill import BackfillInfo
from holdfast.client.views.cursors import Page
from holdfast.client.views.schedules import ScheduleInfo
from holdfast.client.views.values import read_plain
from holdfast.runs.advice import Advice
from holdfast.schedules.schedule import CatchUp, Overlap
from holdfast.schedules.schedule import Status as ScheduleStatus
from holdfast.server.call import RouteCall
from holdfast.server.fields import Name, PageQuery, Reason, ReasonBody, Text, Time, Value
from holdfast.server.route import Nothing, Route

Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e10, description="In seconds.")]


class ScheduleQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which schedules; without a `status` all but the deleted ones."""

    status: ScheduleStatus | None = None


class ScheduleBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a schedule starts, and when: `cron` with a `timezone`, `every` so many seconds, or once `at` a time."""

    workflow: Name | None = None
    template: Name | None = None
    input: Value | UnsetType = UNSET
    cron: Text | None = None
    timezone: Text | None = None
    every: Seconds | None = None
    at: Time | None = None
    overlap: Overlap | UnsetType = UNSET
    catch_up: CatchUp | UnsetType = UNSET
    catch_up_window: Seconds | UnsetType | None = UNSET
    jitter: Seconds | UnsetType = UNSET
    workspace: Text | UnsetType = UNSET
    priority: Annotated[int, msgspec.Meta(gt=-(2**31), lt=2**31)] | UnsetType = UNSET
    attributes: dict[str, Text] | UnsetType = UNSET
    reason: Reason = ""


class NewSchedule(ScheduleBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule to be made."""

    id: Name
    paused: bool = False


class BackfillBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The times whose runs are started, both included."""

    since: Time
    until: Time
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100
    dry_run: bool = False
    reason: Reason = ""


class ScheduledRun(msgspec.Struct, frozen=True):
    """The run that was started."""

    run: str


class ScheduleExplanation(msgspec.Struct, frozen=True):
    """What a schedule does, why it did or did not start something, what comes next: a sentence each; and as advice with
    codes why nothing starts at this moment."""

    id: str
    sentences: Sequence[str]
    advice: Sequence[Advice]


async def list_schedules(call: RouteCall[ScheduleQuery, None]) -> Page[ScheduleInfo]:
    query = call.query
    return await call.client.schedules.page(
        status=query.status, limit=query.limit, after=query.after, tenant=call.tenant
    )


async def create(call: RouteCall[Nothing, NewSchedule]) -> ScheduleInfo:
    said = _said(call)
    if said["input"] is UNSET:
        said["input"] = None
    return await call.client.schedules.create(call.body.id, paused=call.body.paused, **said)


async def show(call: RouteCall[Nothing, None]) -> ScheduleInfo:
    return await call.client.schedules.show(call.path["schedule"], tenant=call.tenant)


async def explain(call: RouteCall[Nothing, None]) -> ScheduleExplanation:
    id, schedules = call.path["schedule"], call.client.schedules
    sentences = await schedules.explain(id, tenant=call.tenant)
    return ScheduleExplanation(id, sentences, await schedules.advice(id, tenant=call.tenant))


async def change(call: RouteCall[Nothing, ScheduleBody]) -> ScheduleInfo:
    return await call.client.schedules.change(call.path["schedule"], **_said(call))


async def pause(call: RouteCall[Nothing, ReasonBody]) -> ScheduleInfo:
    return await call.client.schedules.pause(call.path["schedule"], **_why(call))


async def resume(call: RouteCall[Nothing, ReasonBody]) -> ScheduleInfo:
    return await call.client.schedules.resume(call.path["schedule"], **_why(call))


async def delete(call: RouteCall[Nothing, ReasonBody]) -> ScheduleInfo:
    return await call.client.schedules.delete(call.path["schedule"], **_why(call))


async def run_now(call: RouteCall[Nothing, ReasonBody]) -> ScheduledRun:
    return ScheduledRun(await call.client.schedules.run_now(call.path["schedule"], **_why(call)))


async def backfill(call: RouteCall[Nothing, BackfillBody]) -> BackfillInfo:
    body = call.body
    return await call.client.schedules.backfill(
        call.path["schedule"], body.since, body.until, limit=body.limit, dry_run=body.dry_run, **_why(call)
    )


def _why(call: RouteCall[Nothing, Any]) -> dict[str, Any]:
    return {"tenant": call.tenant, "by": call.by, "reason": call.body.reason}


def _said(call: RouteCall[Nothing, Any]) -> dict[str, Any]:
    """What the body says of a schedule, as the client takes it."""
    body: ScheduleBody = call.body
    names = ("overlap", "catch_up", "catch_up_window", "jitter", "workspace", "priority", "attributes")
    settings = {name: value for name in names if (value := getattr(body, name)) is not UNSET}
    return {
        "workflow": body.workflow,
        "template": body.template,
        "input": body.input if body.input is UNSET else read_plain(body.input),
        "cron": body.cron,
        "timezone": body.timezone,
        "every": body.every,
        "at": body.at,
        **settings,
        **_why(call),
    }


SCHEDULE = "/v1/schedules/{schedule}"


def _change(path: str, words: str, handler: Any, answer: Any = ScheduleInfo, body: Any = ReasonBody) -> Route:
    return Route(
        method="POST",
        path=f"{SCHEDULE}/{path}",
        operation="schedules.change",
        words=words,
        handler=handler,
        body=body,
        answer=answer,
    )


ROUTES = (
    Route(
        method="GET",
        path="/v1/schedules",
        operation="schedules.see",
        words="List the tenant's schedules, with their next times and last results.",
        handler=list_schedules,
        query=ScheduleQuery,
        answer=Page[ScheduleInfo],
    ),
    Route(
        method="POST",
        path="/v1/schedules",
        operation="schedules.change",
        words="Make a schedule. A time that is over is due at once.",
        handler=create,
        body=NewSchedule,
        answer=ScheduleInfo,
        status=201,
    ),
    Route(
        method="GET",
        path=SCHEDULE,
        operation="schedules.see",
        words="Show a schedule.",
        handler=show,
        answer=ScheduleInfo,
    ),
    Route(
        method="GET",
        path=f"{SCHEDULE}/explanation",
        operation="schedules.see",
        words="Why a schedule did or did not start something, and what comes next.",
        handler=explain,
        answer=ScheduleExplanation,
    ),
    Route(
        method="PATCH",
        path=SCHEDULE,
        operation="schedules.change",
        words="Change what is given; the rest stays.",
        handler=change,
        body=ScheduleBody,
        answer=ScheduleInfo,
    ),
    _change("pause", "Start nothing until it is resumed.", pause),
    _change("resume", "Go on, from now.", resume),
    _change("delete", "End a schedule for good. Its runs go on.", delete),
    _change("run", "Start its run now, whatever is under way.", run_now, ScheduledRun),
    _change(
        "backfill",
        "Start the runs of all its times from one time to another; `dry_run` only counts them.",
        backfill,
        BackfillInfo,
        BackfillBody,
    ),
)
