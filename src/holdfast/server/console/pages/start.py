"""Starting a run: choose what, and fill its arguments in."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.datastructures import FormData

from holdfast.client.runs.starter import NotedOptions
from holdfast.errors import InvalidAnswer, InvalidRequest
from holdfast.server.call import RouteCall
from holdfast.server.console.fields import fields_of, read_answer
from holdfast.server.console.page import ConsoleForm, ConsolePage, Context, Done
from holdfast.server.console.start_forms import schema_of, startable
from holdfast.server.console.typed import json_of, text_of
from holdfast.server.fields import Text


class StartQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be started."""

    workflow: Text = ""


async def load(call: RouteCall[StartQuery, None]) -> Context:
    names = await startable(call)
    chosen = call.path.get("workflow") or call.query.workflow or (names[0] if len(names) == 1 else "")
    schema, is_definition = await schema_of(call, chosen) if chosen else (None, False)
    return {
        "names": names,
        "chosen": chosen,
        "fields": fields_of(schema) if schema else (),
        "is_known": schema is not None,
        "is_definition": is_definition,
    }


async def start(call: RouteCall[Any, None], typed: FormData) -> Done:
    name = call.path["workflow"]
    schema, is_definition = await schema_of(call, name)
    await call.client.starter.check_served(name, call.tenant)
    if schema is None:
        given = json_of(typed, "arguments") or {}
        if not isinstance(given, dict):
            raise InvalidRequest("the arguments are a JSON object: each by its name.")
    else:
        given = await read_answer(fields_of(schema), typed, "answer") or {}
    if missing := [each for each in (schema or {}).get("required", ()) if each not in given]:
        raise InvalidAnswer("something is missing", [(f"/{each}", "it is missing") for each in missing])
    options = NotedOptions(id=text_of(typed, "id") or None, tenant=call.tenant, actor=call.by)
    args, kwargs = ((given,), {}) if is_definition else ((), given)
    handle = await call.client.starter.start(name, args, kwargs, options)
    return Done(path=("runs", handle.id), words="It is durable: it survives any crash from here on.")


START = ConsolePage(
    path="/start",
    operation="runs.start",
    words="What can be started.",
    load=load,
    template="start.html",
    data="/v1/metadata",
    query=StartQuery,
)
PAGES = (START,)
FORMS = (ConsoleForm(path="/start/{workflow}", operation="runs.start", words="Start a run.", act=start, page=START),)
