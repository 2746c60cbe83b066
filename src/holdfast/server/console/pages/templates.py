"""Templates: what a tenant may start, in which state each is, and its instances."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.datastructures import FormData

from holdfast.server.call import RouteCall
from holdfast.server.console.page import ConsoleForm, ConsolePage, Context, Done
from holdfast.server.console.pages.run_forms import json_of
from holdfast.server.console.reasons import reason_of

SHOWN: Final = 30


async def load(call: RouteCall[Any, None]) -> Context:
    return {"templates": [each async for each in call.client.templates.list(tenant=call.tenant)]}


async def load_template(call: RouteCall[Any, None]) -> Context:
    template = await call.client.templates.show(call.path["template"], tenant=call.tenant)
    runs = await call.client.page(tenant=call.tenant, attributes={"template": template.id}, limit=SHOWN)
    return {"template": template, "runs": runs.items, "more": runs.next is not None}


async def start(call: RouteCall[Any, None], typed: FormData) -> Done:
    given, id = json_of(str(typed.get("input", ""))), str(typed.get("id", "")).strip()
    handle = await call.client.templates.start(
        call.path["template"], given, id=id or None, tenant=call.tenant, by=call.by
    )
    return Done(path=("runs", handle.id), words="It is durable: it survives any crash from here on.")


async def activate(call: RouteCall[Any, None], _: FormData) -> Done:
    await call.client.templates.activate(call.path["template"], tenant=call.tenant, by=call.by)
    return _here(call, "It can be started.")


async def pause(call: RouteCall[Any, None], typed: FormData) -> Done:
    await call.client.templates.pause(call.path["template"], reason=reason_of(typed), tenant=call.tenant, by=call.by)
    return _here(call, "Nothing is started of it until it is resumed.")


async def resume(call: RouteCall[Any, None], _: FormData) -> Done:
    await call.client.templates.resume(call.path["template"], tenant=call.tenant, by=call.by)
    return _here(call, "It can be started again.")


async def archive(call: RouteCall[Any, None], typed: FormData) -> Done:
    await call.client.templates.archive(call.path["template"], reason=reason_of(typed), tenant=call.tenant, by=call.by)
    return _here(call, "It is archived: its instances go on, and nothing is started of it any more.")


def _here(call: RouteCall[Any, None], words: str) -> Done:
    return Done(path=("templates", call.path["template"]), words=words)


TEMPLATE = ConsolePage(
    path="/templates/{template}",
    operation="templates.see",
    words="A template: its state, what it runs, and its instances.",
    load=load_template,
    template="template.html",
    data="/v1/templates/{template}",
)

_Act = Callable[[RouteCall[Any, None], FormData], Awaitable[Done]]


def _form(name: str, words: str, act: _Act, operation: str = "templates.change") -> ConsoleForm:
    path = f"/templates/{{template}}/{name}"
    return ConsoleForm(path=path, operation=operation, words=words, act=act, page=TEMPLATE)


PAGES = (
    ConsolePage(
        path="/templates",
        operation="templates.see",
        words="What can be started here, and in which state it is.",
        load=load,
        template="templates.html",
        data="/v1/templates",
    ),
    TEMPLATE,
)
FORMS = (
    _form("start", "Start an instance.", start, "templates.start"),
    _form("activate", "Let it be started.", activate),
    _form("pause", "Let nothing be started of it for a while.", pause),
    _form("resume", "Let it be started again.", resume),
    _form("archive", "Let nothing be started of it any more.", archive),
)
