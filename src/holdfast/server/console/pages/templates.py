"""Templates: what a tenant may start, in which state each is, and its instances."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from starlette.datastructures import FormData

from holdfast.server.call import RouteCall
from holdfast.server.console.fields import fields_of, filled_fields, read_answer
from holdfast.server.console.page import ConsoleForm, ConsolePage, Context, Done
from holdfast.server.console.start_forms import schema_of, startable
from holdfast.server.console.typed import json_of, number_of, reason_of, text_of
from holdfast.server.fields import After
from holdfast.templates.template import TRIGGERS, EventRoute, TemplateCaps

SHOWN: Final = 30


async def load(call: RouteCall[Any, None]) -> Context:
    found = [each async for each in call.client.templates.list(tenant=call.tenant)]
    return {"templates": found, "names": await startable(call), "triggers": TRIGGERS}


class InstancesShown(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which of a template's instances its page shows."""

    after: After | None = None


async def load_template(call: RouteCall[InstancesShown, None]) -> Context:
    template = await call.client.templates.show(call.path["template"], tenant=call.tenant)
    chosen = {"template": template.id}
    runs = await call.client.page(tenant=call.tenant, attributes=chosen, limit=SHOWN, after=call.query.after)
    schema = await _schema(call, template.program.name)
    return {
        "template": template,
        "runs": runs.items,
        "next": runs.next,
        "is_first": call.query.after is None,
        "fields": None if schema is None else filled_fields(fields_of(schema), template.input),
        "names": await startable(call),
        "triggers": TRIGGERS,
    }


async def _schema(call: RouteCall[Any, None], program: str) -> dict[str, Any] | None:
    """The schema of an instance's input, where it is an object that can be asked for field by field."""
    schema, _ = await schema_of(call, program)
    return schema if schema is not None and schema.get("properties") else None


async def start(call: RouteCall[Any, None], typed: FormData) -> Done:
    template = await call.client.templates.show(call.path["template"], tenant=call.tenant)
    schema = await _schema(call, template.program.name)
    given = json_of(typed, "input") if schema is None else await read_answer(fields_of(schema), typed, "answer")
    id = text_of(typed, "id")
    handle = await call.client.templates.start(template.id, given, id=id or None, tenant=call.tenant, by=call.by)
    return Done(path=("runs", handle.id), words="It is durable: it survives any crash from here on.")


def _draft(call: RouteCall[Any, None], typed: FormData) -> dict[str, Any]:
    """What the author says of a template. What was left empty stays as it is."""
    trigger = text_of(typed, "trigger") or None
    route = EventRoute(text_of(typed, "event"), text_of(typed, "filter"), text_of(typed, "mapping"))
    return {
        "program": text_of(typed, "program") or None,
        "name": text_of(typed, "name") or None,
        "trigger": trigger,
        "caps": TemplateCaps(
            number_of(typed, "max_concurrency", "how many instances at once"),
            number_of(typed, "max_runs_per_min", "how many instances in a minute"),
            number_of(typed, "max_writes_per_run", "how many writes of an instance"),
        ),
        "input": json_of(typed, "input"),
        "route": route if trigger == "event" else None,
        "tenant": call.tenant,
        "by": call.by,
        "reason": reason_of(typed),
    }


async def create(call: RouteCall[Any, None], typed: FormData) -> Done:
    made = await call.client.templates.create(text_of(typed, "id"), **_draft(call, typed))
    return Done(path=("templates", made.id), words="It is a draft. Activate it when it is right.")


async def new_version(call: RouteCall[Any, None], typed: FormData) -> Done:
    made = await call.client.templates.new_version(call.path["template"], **_draft(call, typed))
    return _here(call, f"This is version {made.version}. Instances that were started keep theirs.")


async def activate(call: RouteCall[Any, None], typed: FormData) -> Done:
    await call.client.templates.activate(call.path["template"], **_why(call, typed))
    return _here(call, "It can be started.")


async def pause(call: RouteCall[Any, None], typed: FormData) -> Done:
    await call.client.templates.pause(call.path["template"], **_why(call, typed))
    return _here(call, "Nothing is started of it until it is resumed.")


async def resume(call: RouteCall[Any, None], typed: FormData) -> Done:
    await call.client.templates.resume(call.path["template"], **_why(call, typed))
    return _here(call, "It can be started again.")


async def archive(call: RouteCall[Any, None], typed: FormData) -> Done:
    await call.client.templates.archive(call.path["template"], **_why(call, typed))
    return _here(call, "It is archived: its instances go on, and nothing is started of it any more.")


def _why(call: RouteCall[Any, None], typed: FormData) -> dict[str, Any]:
    return {"tenant": call.tenant, "by": call.by, "reason": reason_of(typed)}


def _here(call: RouteCall[Any, None], words: str) -> Done:
    return Done(path=("templates", call.path["template"]), words=words)


TEMPLATES = ConsolePage(
    path="/templates",
    operation="templates.see",
    words="What can be started here, and in which state it is.",
    load=load,
    template="templates.html",
    data="/v1/templates",
)
TEMPLATE = ConsolePage(
    path="/templates/{template}",
    operation="templates.see",
    words="A template: its state, what it runs, and its instances.",
    load=load_template,
    template="template.html",
    data="/v1/templates/{template}",
    query=InstancesShown,
)

_Act = Callable[[RouteCall[Any, None], FormData], Awaitable[Done]]


def _form(name: str, words: str, act: _Act, operation: str = "templates.change") -> ConsoleForm:
    path = f"/templates/{{template}}/{name}"
    return ConsoleForm(path=path, operation=operation, words=words, act=act, page=TEMPLATE)


PAGES = (TEMPLATES, TEMPLATE)
FORMS = (
    ConsoleForm(path="/templates", operation="templates.change", words="Make a template.", act=create, page=TEMPLATES),
    _form("versions", "Give it its next version.", new_version),
    _form("start", "Start an instance.", start, "templates.start"),
    _form("activate", "Let it be started.", activate),
    _form("pause", "Let nothing be started of it for a while.", pause),
    _form("resume", "Let it be started again.", resume),
    _form("archive", "Let nothing be started of it any more.", archive),
)
