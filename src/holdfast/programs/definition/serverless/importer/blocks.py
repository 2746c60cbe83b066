"""Tasks that order other tasks, and the plain ones: ``do``, ``for``, ``fork``, ``set``, ``wait``."""

from __future__ import annotations

import json

from holdfast.programs.definition.serverless.importer.draft import Node
from holdfast.programs.definition.serverless.importer.tasks import TaskDraft, put


def put_data(task: TaskDraft) -> list[Node]:
    """``set``: the value is the data."""
    return [{task.core_name(): put(task.value(task.task["set"]))}]


def waited(task: TaskDraft) -> list[Node]:
    """``wait``."""
    return [{task.core_name(): {"sleep": task.span(task.task["wait"], "wait")}}]


def done(task: TaskDraft) -> list[Node]:
    """``do``: tasks as one."""
    from holdfast.programs.definition.serverless.importer.lists import read_list

    core = task.core_name()
    return [{core: {"do": read_list(task.draft, task.task["do"], (*task.trail, "do"), task.name, task.within_fork)}}]


def iterated(task: TaskDraft) -> list[Node]:
    """``for``: the data of one iteration goes on to the next."""
    from holdfast.programs.definition.serverless.importer.lists import read_list

    given = task.draft.mapping(task.task["for"], (*task.trail, "for"))
    task.draft.only(given, ("each", "in", "at"), (*task.trail, "for"), "for")
    repeat = {"over": task.expression(given.get("in"), "for", "in")}
    item, index = (
        task.name_of(given.get("each", "item"), "for", "each"),
        task.name_of(given.get("at", "index"), "for", "at"),
    )
    repeat |= {} if item == "item" else {"item": item}
    repeat |= {} if index == "index" else {"index": index}
    core = task.core_name()
    inner = read_list(task.draft, task.task.get("do"), (*task.trail, "do"), task.name, task.within_fork)
    if "while" not in task.task:
        return [{core: {"repeat": repeat, "do": inner}}]
    going = f"local.going.{task.draft.slug(task.name)}"
    condition = task.expression(task.task["while"], "while")[1:]
    look = {task.helper("while"): {"set": {going: f"=(${going} | not | not) and (({condition}) | not | not)"}}}
    each = {task.helper("each"): {"do": inner, "when": f"=${going}"}}
    return [{task.helper("begin"): {"set": {going: True}}}, {core: {"repeat": repeat, "do": [look, each]}}]


def forked(task: TaskDraft) -> list[Node]:
    """``fork``: the data is the list of what the branches gave, or what the first one gave."""
    from holdfast.programs.definition.serverless.importer.lists import named, read_task

    given = task.draft.mapping(task.task["fork"], (*task.trail, "fork"))
    task.draft.only(given, ("branches", "compete"), (*task.trail, "fork"), "fork")
    core, names, branches = task.core_name(), [], {}
    for at, item in enumerate(given.get("branches") or ()):
        trail = (*task.trail, "fork", "branches", at)
        name, inner = named(task.draft, item, trail)
        if inner is not None:
            node = read_task(task.draft, name, inner, (*trail, name), within_fork=True)
            names.append(next(iter(node)))
            branches[names[-1]] = [node]
    compete = given.get("compete") is True
    body = {"fork": branches, "gives": "=.", "as": "local.data", **({"join": "any"} if compete else {})}
    listed = ", ".join(f".[{json.dumps(name)}]" for name in names)
    joined = "=to_entries[0].value" if compete else f"=[{listed}]"
    return [{core: body}, {task.helper("joined"): put(joined)}]
