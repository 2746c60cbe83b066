"""Ways through a definition's nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from holdfast.programs.definition import model as m

P = TypeVar("P", bound=m.Part)

CONDITIONS: Final = frozenset({"when", "match", "while_", "until"})
"""The members of the model that are expressions without their ``=``."""


def all_nodes(nodes: m.Nodes) -> Iterator[m.Node]:
    """Every node, outer ones first."""
    for node in nodes:
        yield node
        for _, inner in m.lists_of(node):
            yield from all_nodes(inner)


def map_nodes(nodes: m.Nodes, change: Callable[[m.Node], m.Node]) -> m.Nodes:
    """The nodes with every one of them changed, inner ones first."""
    return tuple(change(_map_inside(node, change)) for node in nodes)


def _map_inside(node: m.Node, change: Callable[[m.Node], m.Node]) -> m.Node:
    replace = msgspec.structs.replace

    def inner(nodes: m.Nodes) -> m.Nodes:
        return map_nodes(nodes, change)

    verb = node.verb
    match verb:
        case m.SwitchVerb(cases=cases):
            verb = replace(verb, cases=tuple(replace(case, do=inner(case.do)) for case in cases))
        case m.RepeatVerb(do=do) | m.BlockVerb(do=do):
            verb = replace(verb, do=inner(do))
        case m.ForkVerb(branches=branches):
            verb = replace(verb, branches=tuple(replace(branch, do=inner(branch.do)) for branch in branches))
        case m.PickVerb(options=options):
            mapped = (m.Option(trigger=inner((each.trigger,))[0], do=inner(each.do)) for each in options)
            verb = replace(verb, options=tuple(mapped))
        case m.GraphVerb(nodes=nodes):
            verb = replace(verb, nodes=inner(nodes))
        case _:
            pass
    handlers = {name: getattr(node.on, name) for name in node.on.__struct_fields__}
    on = m.Handlers(**{name: None if nodes is None else inner(nodes) for name, nodes in handlers.items()})
    return replace(node, verb=verb, on=on)


def names_inside(verb: m.Verb) -> tuple[str, ...]:
    """The names of its branches, options or nodes, of a verb that has them by name."""
    match verb:
        case m.ForkVerb(branches=branches):
            return tuple(branch.name for branch in branches)
        case m.PickVerb(options=options):
            return tuple(option.trigger.name for option in options)
        case m.GraphVerb(nodes=nodes):
            return tuple(node.name for node in nodes)
        case _:
            return ()


def order_of(definition: m.Definition) -> dict[str, tuple[str, ...]]:
    """The order of branches, options and nodes, by node, where that is not by name."""
    named = {node.name: names_inside(node.verb) for node in all_nodes(definition.steps)}
    return {node: names for node, names in named.items() if list(names) != sorted(names)}


def in_authors_order(definition: m.Definition, order: Mapping[str, Sequence[str]]) -> m.Definition:
    """The definition as its author has ordered it. It means the same, and has the same digest."""
    replace = msgspec.structs.replace

    def reordered(node: m.Node) -> m.Node:
        wanted = order.get(node.name)
        if wanted is None:
            return node
        match node.verb:
            case m.ForkVerb(branches=branches):
                verb: m.Verb = replace(node.verb, branches=_placed(branches, node.verb, wanted))
            case m.PickVerb(options=options):
                verb = replace(node.verb, options=_placed(options, node.verb, wanted))
            case m.GraphVerb(nodes=nodes):
                verb = replace(node.verb, nodes=_placed(nodes, node.verb, wanted))
            case _:
                return node
        return replace(node, verb=verb)

    return replace(definition, steps=map_nodes(definition.steps, reordered)) if order else definition


def _placed(parts: Sequence[P], verb: m.Verb, wanted: Sequence[str]) -> tuple[P, ...]:
    """What the order does not name comes last: it may have been kept with another version of these words."""
    places = {name: at for at, name in enumerate(wanted)}
    named = sorted(zip(names_inside(verb), parts, strict=True), key=lambda each: places.get(each[0], len(places)))
    return tuple(part for _, part in named)


def ancestors(node: m.Node, graph: m.GraphVerb) -> set[str]:
    """All nodes of a graph that a node depends on, directly or not."""
    nodes = {each.name: each for each in graph.nodes}
    found: set[str] = set()
    waiting = [*node.needs, *node.after]
    while waiting:
        name = waiting.pop()
        if name in nodes and name not in found:
            found.add(name)
            waiting.extend((*nodes[name].needs, *nodes[name].after))
    return found


def in_order(graph: m.GraphVerb) -> list[m.Node]:
    """The nodes of a graph so that each comes behind what it depends on, else by name."""
    left = {node.name: node for node in sorted(graph.nodes, key=lambda node: node.name)}
    found: list[m.Node] = []
    while left:
        ready = [node for node in left.values() if not any(name in left for name in (*node.needs, *node.after))]
        if not ready:  # a cycle, which no accepted definition has
            ready = list(left.values())
        found.extend(ready)
        for node in ready:
            del left[node.name]
    return found


def writes_of(node: m.Node) -> Iterator[m.Path]:
    """The places that a node writes to, itself and all inside it."""
    for each in all_nodes((node,)):
        if each.into is not None:
            yield each.into
        if isinstance(each.verb, m.SetVerb):
            yield from (path for path, _ in each.verb.values)


def names_had_after(node: m.Node) -> frozenset[str]:
    """The names that the line of a node has after it, beside those before."""
    match node.verb:
        case m.WaitVerb():
            return frozenset({"payload", "signal", "token"})
        case m.TaskVerb():
            return frozenset({"payload", "result", "task", "token"})
        case m.CallVerb() | m.TransportVerb() | m.RunVerb():
            return frozenset({"result", "token"})
        case m.SleepVerb() | m.ContinueVerb() | m.SendVerb():
            return frozenset({"token"})
        case _:
            return frozenset()


def members_of_state(definition: m.Definition) -> set[str]:
    """The members of the state that a definition declares or writes."""
    written = {path[1] for node in definition.steps for path in writes_of(node) if path[0] == "state"}
    return {*definition.state, *written}
