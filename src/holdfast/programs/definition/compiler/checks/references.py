"""Names that a definition refers to: its own retries, tasks and nodes, and what it calls from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.faults import FaultList, Trail
from holdfast.programs.definition.described_tools import parameters_of
from holdfast.programs.definition.interpreter.routine import Toolbox
from holdfast.programs.definition.walks import all_nodes
from holdfast.transports.connectors import METHODS
from holdfast.transports.http.urls import places_of


def check_references(definition: m.Definition, faults: FaultList, tools: Toolbox | None) -> None:
    """Every name is of something. Without ``tools`` what is called from outside is not looked at."""
    nodes = {node.name: node for node in all_nodes(definition.steps)}
    for name, task in definition.tasks.items():
        _check_audience(name, task.audience, faults)
        _check_deadlines(name, task.deadlines, faults)
    if tools is not None:
        _check_uses(definition.uses, tools, faults)
    for node in all_nodes(definition.steps):
        _check_own(node, definition, nodes, faults)
        if tools is not None:
            _check_outside(node, tools, faults)


def _check_uses(uses: m.Uses, tools: Toolbox, faults: FaultList) -> None:
    for word, kind in (("steps", "step"), ("actions", "action")):
        for name in getattr(uses, word):
            step = tools.step(name)
            if step is None:
                faults.unknown(("uses", word), kind, name, tools.names())
            elif step.kind != kind:
                faults.add(("uses", word), f"{name} is {_a(step.kind)}: write it under `{step.kind}s`")


def _check_audience(task: str, audience: m.Audience, faults: FaultList) -> None:
    """Where every person is named, somebody is left."""
    users, excluded = audience.users, audience.exclude
    named = isinstance(users, tuple) and isinstance(excluded, tuple) and users and not audience.groups
    if named and not any(str(name).startswith("=") for name in users) and set(users) <= set(excluded):
        faults.add(("tasks", task, "for"), "nobody may answer it: all of `users` are in `exclude`")


def _check_deadlines(task: str, times: m.Deadlines, faults: FaultList) -> None:
    """Nothing is to happen at a time that never comes, as far as times are written down."""
    trail = ("tasks", task, "due")
    if times.escalate is not None and times.due is None:
        faults.add((*trail, "escalate"), "it is never overdue: say by when it is to be answered, `in: 48h`")
    if not isinstance(times.expire, int):
        return
    if times.escalate is not None and isinstance(times.due, int) and times.due >= times.expire:
        faults.add((*trail, "escalate"), "it is over before it is overdue: let it expire later, or leave this out")
    for at, span in enumerate(times.remind):
        if isinstance(span, int) and span >= times.expire:
            faults.add((*trail, "remind", at), "it is over before this: let it expire later, or remind earlier")


def _check_own(node: m.Node, definition: m.Definition, nodes: Mapping[str, m.Node], faults: FaultList) -> None:
    if isinstance(node.retry, str) and node.retry not in definition.retries:
        faults.unknown((*faults.places[node.name], "retry"), "retry", node.retry, definition.retries, node.name)
    match node.verb:
        case m.TaskVerb(task=task) if task not in definition.tasks:
            faults.unknown((*faults.places[node.name], "task"), "task", task, definition.tasks, node.name)
        case m.TaskVerb(task=task) if node.on.timeout is not None and node.timeout is None:
            if definition.tasks[task].deadlines.expire is None:
                remedy = f"give {task} `due: {{expire: 10d}}`, or this node a `timeout`"
                faults.at_node(node.name, f"it is never too late without a limit: {remedy}", "on", "timeout")
        case m.CompensateVerb(node=other):
            _check_compensated(node, other, nodes, faults)
        case m.GraphVerb(nodes=inner):
            _check_needs(inner, definition, faults)
        case m.TransportVerb(request={"call": str(call)}) if not call.startswith("="):
            _check_connector(node, call, definition, faults)
        case _:
            pass


def _check_compensated(node: m.Node, other: str, nodes: Mapping[str, m.Node], faults: FaultList) -> None:
    if other in nodes:
        if not any(isinstance(each.verb, m.CallVerb | m.TransportVerb) for each in all_nodes((nodes[other],))):
            faults.at_node(node.name, f"{other} calls nothing that could be undone", "compensate")
    elif other not in faults.places:  # else something else is wrong with it
        faults.unknown((*faults.places[node.name], "compensate"), "node", other, nodes, node.name)


def _check_needs(nodes: m.Nodes, definition: m.Definition, faults: FaultList) -> None:
    names = {node.name for node in nodes}
    workflows = (name.partition("@")[0] for name in definition.uses.workflows)
    elsewhere = {*definition.uses.steps, *definition.uses.actions, *workflows}
    for node in nodes:
        for word, needed in (("needs", node.needs), ("after", node.after)):
            for name in needed:
                if name not in names and name not in elsewhere:
                    faults.unknown((*faults.places[node.name], word), "node of this graph", name, names, node.name)
    for cycle in cycles(nodes):
        faults.at_node(cycle[0], f"{' needs '.join([*cycle, cycle[0]])}: they wait for each other for ever", "needs")


def cycles(nodes: m.Nodes) -> list[list[str]]:
    """The nodes of a graph that wait for each other, once each."""
    waits = {node.name: {*node.needs, *node.after} for node in nodes}
    left, progress = dict(waits), True
    while progress:
        ready = [name for name, needed in left.items() if not needed & left.keys()]
        progress = bool(ready)
        for name in ready:
            del left[name]
    found: list[list[str]] = []
    seen: set[str] = set()
    for name in sorted(left):
        trail: list[str] = []
        while name not in seen and name in left:
            seen.add(name)
            trail.append(name)
            name = min(waits[name] & left.keys())
        if name in trail:
            found.append(trail[trail.index(name) :])
    return found


def _check_connector(node: m.Node, call: str, definition: m.Definition, faults: FaultList) -> None:
    connector, _, operation = call.partition(".")
    place = (*faults.places[node.name], "http", "call")
    declared = definition.connectors.get(connector)
    if declared is None:
        faults.unknown(place, "connector", connector, definition.connectors, node.name)
    elif isinstance(declared, dict) and operation not in declared.get("operations", {}):
        known = declared.get("operations", {})
        faults.unknown(place, f"operation of {connector}", operation, known, node.name)
    elif isinstance(declared, dict):
        _check_places(node, declared["operations"][operation], faults)


def _check_places(node: m.Node, operation: Any, faults: FaultList) -> None:
    """What the path of an operation wants is given, where it is written down what is."""
    request = node.verb.request if isinstance(node.verb, m.TransportVerb) else None
    given = request.get("with", {}) if isinstance(request, Mapping) else None
    if not isinstance(given, Mapping) or not isinstance(operation, Mapping):
        return
    for path in (operation[method] for method in METHODS if isinstance(operation.get(method), str)):
        for name in places_of(path):
            if name not in given:
                text = f"the path {path!r} wants `{name}`: give it in `with`"
                faults.add((*faults.places[node.name], "http", "with"), text, node.name)


def _check_outside(node: m.Node, tools: Toolbox, faults: FaultList) -> None:
    place = faults.places[node.name]
    _check_outside_verb(node, node.verb, place, tools, faults)
    if node.undo is not None:
        _check_outside_verb(node, node.undo.verb, (*place, "undo"), tools, faults, inherits=node.undo.inherits)


def _check_outside_verb(
    node: m.Node, verb: m.Verb, place: Trail, tools: Toolbox, faults: FaultList, *, inherits: bool = False
) -> None:
    if isinstance(verb, m.TransportVerb):
        if tools.transport(verb.verb) is None:
            faults.add((*place, "transport"), f"there is no transport {verb.verb!r}: install its package", node.name)
        return
    if not isinstance(verb, m.CallVerb):
        return
    step = tools.step(verb.name)
    if step is None:
        faults.unknown((*place, verb.kind), verb.kind, verb.name, tools.names(), node.name)
    elif inherits:  # by its name alone, step or action, and with the arguments of the call
        return
    elif step.kind != verb.kind:
        text = f"{verb.name} is {_a(step.kind)}: write `{step.kind}: {verb.name}`"
        faults.add((*place, verb.kind), text, node.name)
    elif isinstance(verb.arguments, dict):
        _check_arguments(node, verb, parameters_of(step), (*place, "with"), faults)


def _check_arguments(node: m.Node, verb: m.CallVerb, known: dict[str, bool], place: Trail, faults: FaultList) -> None:
    if any(name.startswith("*") for name in known):
        return
    for name in verb.arguments:
        if name not in known:
            faults.unknown((*place, name), f"argument of {verb.name}", name, known, node.name)
    for name, required in known.items():
        if required and name not in verb.arguments:
            faults.add(place, f"{verb.name} needs the argument {name!r}", node.name)


def _a(what: str) -> str:
    return f"an {what}" if what[0] in "aeiou" else f"a {what}"
