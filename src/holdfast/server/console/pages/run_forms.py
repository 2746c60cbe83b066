"""What people do to a run: each act asks for a reason, which the audit keeps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.datastructures import FormData

from holdfast.client.runs.retries import RetryChoice
from holdfast.client.views.values import read_plain
from holdfast.errors import InvalidRequest
from holdfast.server.call import RouteCall
from holdfast.server.console.page import ConsoleForm, Done, ShownInstead
from holdfast.server.console.pages.run import RUN
from holdfast.server.console.typed import json_of, number_of, reason_of, text_of


async def cancel(call: RouteCall[Any, None], typed: FormData) -> Done:
    await call.run.cancel(reason_of(typed), by=call.by, leave_children=typed.get("leave_children") == "yes")
    return _here(call, "It was asked to stop: its cleanup runs first.")


async def pause(call: RouteCall[Any, None], typed: FormData) -> Done:
    await call.run.pause(reason_of(typed), by=call.by)
    return _here(call, "It pauses once the steps that it has begun are done.")


async def resume(call: RouteCall[Any, None], typed: FormData) -> Done:
    await call.run.resume(by=call.by, reason=reason_of(typed))
    return _here(call, "It goes on.")


async def signal(call: RouteCall[Any, None], typed: FormData) -> Done:
    name, value = text_of(typed, "name"), read_plain(json_of(typed, "value"))
    await call.run.signal(name, value, by=call.by, reason=reason_of(typed))
    return _here(call, f"Signal {name} was sent.")


async def retry(call: RouteCall[Any, None], typed: FormData) -> Done | ShownInstead:
    reason = reason_of(typed)
    is_confirmed = typed.get("confirmed") == "yes"
    chosen = RetryChoice(
        again=_names(typed, "again"),
        keep=_names(typed, "keep"),
        new=typed.get("new") == "yes",
        tree=typed.get("tree") == "yes",
    )
    plan = await call.run.plan_retry(**chosen)
    if not is_confirmed:
        context = {"run": await call.run.info(), "plan": plan, "reason": reason, "chosen": chosen}
        return ShownInstead(template="retry.html", context=context)
    await call.run.retry(by=call.by, reason=reason, **chosen)
    return _here(call, f"It goes on from its failure; {', '.join(plan.again) or 'nothing'} is done again.")


async def fork(call: RouteCall[Any, None], typed: FormData) -> Done:
    place, id = number_of(typed, "sequence", "the place in the timeline"), text_of(typed, "id")
    if place is None:
        raise InvalidRequest("say from which place of the timeline on.")
    fresh = await call.run.fork(place, id=id or None, by=call.by, reason=reason_of(typed))
    return Done(path=("runs", fresh.id), words=f"This is a new run. It goes on from place {place} of {call.run.id}.")


def _names(typed: FormData, field: str) -> list[str]:
    return [name for each in text_of(typed, field).split(",") if (name := each.strip())]


def _here(call: RouteCall[Any, None], words: str) -> Done:
    return Done(path=("runs", call.run.id), words=words)


def _form(
    name: str, words: str, act: Callable[[RouteCall[Any, None], FormData], Awaitable[Done | ShownInstead]]
) -> ConsoleForm:
    return ConsoleForm(path=f"/runs/{{run}}/{name}", operation=f"runs.{name}", words=words, act=act, page=RUN)


FORMS = (
    _form("cancel", "Ask a run to stop.", cancel),
    _form("pause", "Stop a run until it is resumed.", pause),
    _form("resume", "Let a paused or parked run go on.", resume),
    _form("signal", "Send a signal to a run.", signal),
    _form("retry", "Let a failed run go on from its failure, after a dry run.", retry),
    _form("fork", "Make a new run of a prefix of this one.", fork),
)
