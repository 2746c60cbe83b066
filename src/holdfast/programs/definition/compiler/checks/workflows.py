"""Workflows that a definition runs: ranges are resolved to versions and digests, once and for all.

A definition that is run and can be found is embedded, so that a run of it which needs nothing from outside can be
played within its parent's turn, and every worker does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, Protocol

import cbor2
import msgspec

from holdfast.errors import InvalidRequest
from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.faults import FaultList
from holdfast.programs.definition.versions import means_itself, parse_reference
from holdfast.programs.definition.walks import all_nodes, map_nodes
from holdfast.tasks.forms import problems

_WRITTEN: Final = "write letters, letters@3 or letters@^2"
LARGEST_INLINE: Final = 64 * 1024
"""How many bytes a definition has at most that is embedded in others."""
DEEPEST_INLINE: Final = 32
"""How many definitions may be embedded in each other: they are read, written and played inside each other."""


class Workflows(Protocol):
    """The workflows that there are."""

    def definition(self, reference: str) -> m.Accepted | None:
        """The definition that ``name``, ``name@3`` or ``name@^2`` means."""
        ...

    def function_names(self) -> Collection[str]:
        """The workflows that are Python functions."""
        ...

    def definition_names(self) -> Collection[str]:
        """The definitions, by name."""
        ...


def resolve_workflows(definition: m.Definition, faults: FaultList, workflows: Workflows | None) -> m.Definition:
    """The definition with what it runs resolved. Without ``workflows`` it is left as it is."""
    for reference in definition.uses.workflows:
        if not _is_reference(reference):
            faults.add(("uses", "workflows"), f"{reference!r} is no workflow: {_WRITTEN}")
    _check_selves(definition, faults)
    if workflows is None:
        return definition
    uses = definition.uses.workflows
    named = {parse_reference(each)[0]: each for each in uses if _is_reference(each)}
    ranges = {name: each for name, each in named.items() if name not in uses}
    found: dict[str, m.Accepted] = {}
    resolve = _resolver(definition, ranges, workflows, faults, found)
    steps = map_nodes(definition.steps, resolve)
    return msgspec.structs.replace(definition, steps=steps, inline={**definition.inline, **_embedded(found)})


def _is_reference(text: str) -> bool:
    try:
        parse_reference(text)
    except InvalidRequest:
        return False
    return True


def _check_selves(definition: m.Definition, faults: FaultList) -> None:
    """A definition that runs itself does so on a condition: what always comes to that would never end."""
    always = set(_always_reached(definition.steps))
    for node in all_nodes(definition.steps):
        verb = node.verb
        if not isinstance(verb, m.RunVerb | m.ContinueVerb) or verb.version is not None:
            continue
        word = "run" if isinstance(verb, m.RunVerb) else "continue"
        if not _is_reference(verb.workflow):
            faults.at_node(node.name, f"{verb.workflow!r} is no workflow: {_WRITTEN}", word)
            continue
        name, (lowest, _) = parse_reference(verb.workflow)
        if name == definition.name and lowest > definition.version:
            faults.at_node(
                node.name, f"there is no {verb.workflow} yet: name an older version, or {name}@{lowest - 1}", word
            )
        elif means_itself(verb.workflow, definition.name, definition.version) and node.name in always:
            remedy = f"do it on a condition (`when`, `switch`), use a `repeat`, or name an older version, as {name}@1"
            faults.at_node(node.name, f"{name} would run itself for ever: {remedy}", word)


def _always_reached(nodes: m.Nodes) -> Iterator[str]:
    """The nodes that every run comes to, unless an error ends it before."""
    for node in nodes:
        if node.when not in (None, "true"):
            may_leave = _leaves(node)
        else:
            yield node.name
            match node.verb:
                case m.BlockVerb(do=do) | m.RepeatVerb(do=do, until=str()):
                    yield from _always_reached(do)
                case m.ForkVerb(branches=branches, join=None):
                    for branch in branches:
                        yield from _always_reached(branch.do)
                case m.GraphVerb(nodes=inner):
                    yield from (name for each in inner for name in _always_reached((each,)))
                case _:
                    pass
            may_leave = _leaves(node)
        if may_leave:
            return


def _leaves(node: m.Node) -> bool:
    """Whether something in a node may end the run."""
    return any(isinstance(each.verb, m.EndVerb | m.RaiseVerb) for each in all_nodes((node,)))


def _resolver(
    definition: m.Definition,
    ranges: Mapping[str, str],
    workflows: Workflows,
    faults: FaultList,
    found: dict[str, m.Accepted],
) -> Callable[[m.Node], m.Node]:
    def resolve(node: m.Node) -> m.Node:
        verb = node.verb
        if not isinstance(verb, m.RunVerb | m.ContinueVerb) or verb.version is not None:
            return node
        word = "run" if isinstance(verb, m.RunVerb) else "continue"
        if not _is_reference(verb.workflow):
            return node
        name = parse_reference(verb.workflow)[0]
        if means_itself(verb.workflow, definition.name, definition.version):
            _check_start(node, verb.arguments, definition, faults)
            return node
        reference = ranges.get(name, name) if verb.workflow == name else verb.workflow
        accepted = workflows.definition(reference)
        if accepted is None:
            if name not in workflows.function_names() and name != definition.name:
                _complain_of_workflow(node, word, reference, workflows, faults)
            return node
        _check_start(node, verb.arguments, accepted.definition, faults)
        if isinstance(verb, m.RunVerb):
            found[f"{name}@{accepted.definition.version}"] = accepted
        resolved = {"workflow": name, "version": accepted.definition.version, "digest": accepted.digest}
        return msgspec.structs.replace(node, verb=msgspec.structs.replace(verb, **resolved))

    return resolve


def _complain_of_workflow(node: m.Node, word: str, reference: str, workflows: Workflows, faults: FaultList) -> None:
    place, name = (*faults.places[node.name], word), parse_reference(reference)[0]
    newest = workflows.definition(name)
    if newest is None and name in workflows.definition_names():
        remedy = "use a `repeat`, or make one definition of the two"
        faults.add(place, f"{name} runs this definition, too, and neither can be accepted first: {remedy}", node.name)
    elif newest is None:
        known = {*workflows.function_names(), *workflows.definition_names()}
        faults.unknown(place, "workflow", reference, known, node.name)
    else:
        version = newest.definition.version
        faults.add(place, f"there is no version {reference!r}: the newest is {name}@{version}", node.name)


def _check_start(node: m.Node, arguments: Any, child: m.Definition, faults: FaultList) -> None:
    """What a child is started with has the members that its schema names, as far as both are known."""
    if not isinstance(arguments, dict):
        return
    properties = child.start.get("properties", {})
    for name in child.start.get("required", ()):
        field = properties.get(name)
        if name not in arguments and not (isinstance(field, Mapping) and "default" in field):
            faults.at_node(node.name, f"{child.name} needs {name!r} to start: `with: {{{name}: …}}`", "with")
    if child.start.get("additionalProperties") is False:
        for name in arguments:
            if name not in properties:
                place = (*faults.places[node.name], "with", name)
                faults.unknown(place, f"start value of {child.name}", name, properties, node.name)
    for name, value in arguments.items():
        if name in properties and not _is_evaluated(value):
            for where, problem in problems({**child.start, "required": []}, {name: value}):
                if where.split("/")[1:2] == [name]:
                    place = (*faults.places[node.name], "with", name)
                    faults.add(place, f"{child.name} cannot be started with this: {where}: {problem}", node.name)


def _is_evaluated(value: Any) -> bool:
    """Whether something in it is no literal."""
    if isinstance(value, Mapping):
        return any(map(_is_evaluated, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_is_evaluated, value))
    return isinstance(value, str) and value.startswith("=")


def _embedded(found: Mapping[str, m.Accepted]) -> dict[str, Any]:
    """The documents of definitions that may be played inline."""
    small = {name: each for name, each in found.items() if len(each.canonical) <= LARGEST_INLINE}
    documents = {name: cbor2.loads(each.canonical) for name, each in small.items()}
    return {name: document for name, document in documents.items() if _depth(document) <= DEEPEST_INLINE}


def _depth(document: Mapping[str, Any]) -> int:
    """A definition, and those that are embedded in it."""
    return 1 + max(map(_depth, document.get("inline", {}).values()), default=0)


def fill_uses(definition: m.Definition) -> m.Definition:
    """The definition with all that it calls in ``uses``."""
    uses = definition.uses
    found: dict[str, set[str]] = {name: set(getattr(uses, name)) for name in uses.__struct_fields__}
    ranged = {parse_reference(each)[0] for each in uses.workflows if _is_reference(each)}
    for node in all_nodes(definition.steps):
        for verb in (node.verb, None if node.undo is None else node.undo.verb):
            match verb:
                case m.CallVerb(kind="step", name=name):
                    found["steps"].add(name)
                case m.CallVerb(kind="action", name=name):
                    found["actions"].add(name)
                case m.TransportVerb(verb=word):
                    found["transports"].add(word)
                case m.RunVerb(workflow=name) | m.ContinueVerb(workflow=name) if name not in ranged:
                    found["workflows"].add(name)
                case _:
                    pass
    return msgspec.structs.replace(
        definition, uses=m.Uses(**{name: tuple(sorted(each)) for name, each in found.items()})
    )
