"""Tasks with events: ``emit`` sends the run a signal, ``listen`` waits for one.

A signal's name is the event's type; its value is the event, or its bare data. There is no broker: an event reaches the
run that emits it. What other runs or systems shall hear, they are sent.
"""

from __future__ import annotations

import json
from typing import Any

from holdfast.programs.definition.compiler.faults import Trail
from holdfast.programs.definition.serverless.importer.draft import Node
from holdfast.programs.definition.serverless.importer.tasks import TaskDraft, put
from holdfast.programs.definition.serverless.importer.values import braced, jq_of

EVENT_ID = '="\\($run.id)/\\($run.path)/\\($run.turn)"'
EVENT_TIME = "=now | todate"


def emit(task: TaskDraft) -> list[Node]:
    """``emit``: the event is the data, and a signal."""
    trail = (*task.trail, "emit")
    given = task.draft.mapping(task.draft.mapping(task.task["emit"], trail).get("event"), (*trail, "event"))
    task.draft.only(given, ("with",), (*trail, "event"), "an event")
    attributes = task.draft.mapping(given.get("with"), (*trail, "event", "with"))
    signal = _type(task, attributes, (*trail, "event", "with"))
    event = {"specversion": "1.0", "id": EVENT_ID, "time": EVENT_TIME, **task.value(attributes)}
    return [
        {task.helper("event"): put(event)},
        {task.core_name(): {"send": {"to": "=$run.id", "signal": signal, "value": "=."}}},
    ]


def _type(task: TaskDraft, attributes: dict[str, Any], trail: Trail) -> str:
    """The event's type, which names the signal."""
    kind = attributes.get("type")
    if isinstance(kind, str) and kind and len(kind) <= 200 and braced(kind) is None and "#" not in kind:
        return kind
    task.draft.wrong((*trail, "type"), "an event has a type that is a text, and no expression: it names a signal")
    return "unknown"


def listen(task: TaskDraft) -> list[Node]:
    """``listen``: the data is a list of what was heard."""
    trail = (*task.trail, "listen")
    given = task.draft.mapping(task.task["listen"], trail)
    task.draft.only(given, ("to", "read"), trail, "listen")
    if "foreach" in task.task:
        task.wrong("`foreach` of listen is not supported: listen in a `for`, or one event after the other", "foreach")
    to, read = task.draft.mapping(given.get("to"), (*trail, "to")), given.get("read", "data")
    if read not in ("data", "envelope", "raw"):
        task.draft.wrong((*trail, "read"), f"read is data, envelope or raw, not {read!r}")
    heard = "$payload | event" + (" | .data" if read == "data" else "")
    match to:
        case {"one": dict(one), **rest} if not rest:
            hear = {task.core_name(): _wait(task, one, (*trail, "to", "one"))}
            return [hear, {task.helper("heard"): put(f"=[{heard}]")}]
        case {"any": list(filters), **rest} if not rest and filters:
            return [_any(task, filters, heard, (*trail, "to", "any"))]
        case {"all": list(filters), **rest} if not rest and filters:
            return _all(task, filters, heard, (*trail, "to", "all"))
        case {"any": _, "until": _}:
            task.draft.wrong((*trail, "to", "until"), "`until` is not supported: listen in a task that is repeated")
        case {"any": []} | {"all": []}:
            task.draft.wrong(
                (*trail, "to"), "events of any type cannot be heard: a signal has a name, so say which types"
            )
        case _:
            task.draft.wrong((*trail, "to"), "it listens to `one`, `any` or `all`")
    return [{task.core_name(): put("=.")}]


def _wait(task: TaskDraft, filter: Any, trail: Trail) -> dict[str, Any]:
    """The body of a node that waits for an event that fits."""
    given = task.draft.mapping(filter, trail)
    task.draft.only(given, ("with",), trail, "an event that is heard")
    attributes = task.draft.mapping(given.get("with"), (*trail, "with"))
    body: dict[str, Any] = {"wait": _type(task, attributes, (*trail, "with"))}
    conditions = [_condition(task, name, value) for name, value in attributes.items() if name != "type"]
    if conditions:
        body["match"] = task.noted("=" + " and ".join(conditions))
    return body


def _condition(task: TaskDraft, name: str, value: Any) -> str:
    inner = braced(value)
    if name == "data" and inner is not None:
        return f"($payload | event | .data | ({inner}))"
    return f"({jq_of(task.value(value))} == ($payload | event | .[{json.dumps(name)}]))"


def _any(task: TaskDraft, filters: list[Any], heard: str, trail: Trail) -> Node:
    options = {}
    for at, filter in enumerate(filters):
        take = {task.helper(f"heard-{at + 1}"): put(f"=[{heard}]")}
        options[task.helper(f"event-{at + 1}")] = {**_wait(task, filter, (*trail, at)), "do": [take]}
    return {task.core_name(): {"pick": options}}


def _all(task: TaskDraft, filters: list[Any], heard: str, trail: Trail) -> list[Node]:
    names = [task.helper(f"event-{at + 1}") for at in range(len(filters))]
    waits = [_wait(task, each, (*trail, at)) for at, each in enumerate(filters)]
    branches = {name: [{name: body}] for name, body in zip(names, waits, strict=True)}
    listed = ", ".join(f".[{json.dumps(name)}]" for name in names)
    return [
        {task.core_name(): {"fork": branches, "gives": f"={heard}", "as": "local.data"}},
        {task.helper("heard"): put(f"=[{listed}]")},
    ]
