"""Schedules: the next times, what became of the last ones, and starting out of turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from starlette.datastructures import FormData

from holdfast.client.views.values import read_plain
from holdfast.errors import InvalidRequest
from holdfast.schedules.schedule import OVERLAPS
from holdfast.server.call import RouteCall
from holdfast.server.console.page import ConsoleForm, ConsolePage, Context, Done, ShownInstead
from holdfast.server.console.start_forms import startable
from holdfast.server.console.typed import json_of, number_of, reason_of, text_of, time_of

OVERLAP_WORDS = {
    "skip": "skip the new one",
    "queue_one": "start one when it has ended",
    "queue_all": "start all when it has ended",
    "cancel_other": "cancel the other",
    "allow": "start it all the same",
}


async def load(call: RouteCall[Any, None]) -> Context:
    found = [each async for each in call.client.schedules.list(tenant=call.tenant)]
    templates = [each.id async for each in call.client.templates.list(tenant=call.tenant, status="active")]
    return {
        "schedules": found,
        "paused": sum(1 for each in found if each.status == "paused"),
        "names": await startable(call),
        "templates": templates,
        "overlaps": {name: OVERLAP_WORDS[name] for name in OVERLAPS},
    }


async def load_schedule(call: RouteCall[Any, None]) -> Context:
    id, schedules = call.path["schedule"], call.client.schedules
    return {
        "schedule": await schedules.show(id, tenant=call.tenant),
        "sentences": await schedules.explain(id, tenant=call.tenant),
        "advice": await schedules.advice(id, tenant=call.tenant),
    }


async def create(call: RouteCall[Any, None], typed: FormData) -> Done:
    kind, _, name = text_of(typed, "starts").partition(":")
    if not name:
        raise InvalidRequest("choose what it starts: a workflow or a template.")
    overlap: Any = text_of(typed, "overlap") or "skip"
    made = await call.client.schedules.create(
        text_of(typed, "id"),
        name if kind == "workflow" else None,
        template=name if kind == "template" else None,
        input=read_plain(json_of(typed, "input")),
        cron=text_of(typed, "cron") or None,
        timezone=text_of(typed, "timezone") or None,
        every=number_of(typed, "every", "every so many seconds"),
        at=time_of(typed, "at"),
        overlap=overlap,
        **_why(call, typed),
    )
    return Done(path=("schedules", made.id), words="It starts by itself from now on.")


async def run_now(call: RouteCall[Any, None], typed: FormData) -> Done:
    run = await call.client.schedules.run_now(call.path["schedule"], **_why(call, typed))
    return Done(path=("runs", run), words="It was started now. The times to come stay as they are.")


async def pause(call: RouteCall[Any, None], typed: FormData) -> Done:
    await call.client.schedules.pause(call.path["schedule"], **_why(call, typed))
    return _here(call, "It starts nothing until it is resumed.")


async def resume(call: RouteCall[Any, None], typed: FormData) -> Done:
    await call.client.schedules.resume(call.path["schedule"], **_why(call, typed))
    return _here(call, "It goes on, from now.")


async def delete(call: RouteCall[Any, None], typed: FormData) -> Done:
    await call.client.schedules.delete(call.path["schedule"], **_why(call, typed))
    return Done(path=("schedules",), words=f"{call.path['schedule']} starts nothing any more.")


async def backfill(call: RouteCall[Any, None], typed: FormData) -> Done | ShownInstead:
    since, until, why = _needed(typed, "since"), _needed(typed, "until"), _why(call, typed)
    is_confirmed = typed.get("confirmed") == "yes"
    schedules, id = call.client.schedules, call.path["schedule"]
    info = await schedules.backfill(id, since, until, dry_run=not is_confirmed, **why)
    if not is_confirmed:
        context = {"id": id, "info": info, "since": since, "until": until, "reason": why["reason"]}
        return ShownInstead(template="backfill.html", context=context)
    return _here(call, "The runs of these times were started.")


def _needed(typed: FormData, name: str) -> datetime:
    found = time_of(typed, name)
    if found is None:
        raise InvalidRequest(f"{name} is a time, such as 2026-01-31T06:00.")
    return found


def _why(call: RouteCall[Any, None], typed: FormData) -> dict[str, Any]:
    return {"tenant": call.tenant, "by": call.by, "reason": reason_of(typed)}


def _here(call: RouteCall[Any, None], words: str) -> Done:
    return Done(path=("schedules", call.path["schedule"]), words=words)


SCHEDULES = ConsolePage(
    path="/schedules",
    operation="schedules.see",
    words="What starts by itself, and when next.",
    load=load,
    template="schedules.html",
    data="/v1/schedules",
)
SCHEDULE = ConsolePage(
    path="/schedules/{schedule}",
    operation="schedules.see",
    words="A schedule: what it does, its next times, and what became of the last ones.",
    load=load_schedule,
    template="schedule.html",
    data="/v1/schedules/{schedule}",
)

_Act = Callable[[RouteCall[Any, None], FormData], Awaitable[Done | ShownInstead]]


def _form(name: str, words: str, act: _Act) -> ConsoleForm:
    path = f"/schedules/{{schedule}}/{name}"
    return ConsoleForm(path=path, operation="schedules.change", words=words, act=act, page=SCHEDULE)


PAGES = (SCHEDULES, SCHEDULE)
FORMS = (
    ConsoleForm(path="/schedules", operation="schedules.change", words="Make a schedule.", act=create, page=SCHEDULES),
    _form("run", "Start its run now.", run_now),
    _form("pause", "Start nothing until it is resumed.", pause),
    _form("resume", "Go on, from now.", resume),
    _form("backfill", "Start the runs of times in the past, after a dry run.", backfill),
    _form("delete", "Start nothing any more.", delete),
)
