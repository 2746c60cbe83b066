"""What runs side by side may not write one place: who came last would decide."""

from __future__ import annotations

from itertools import combinations

from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.faults import FaultList
from holdfast.programs.definition.walks import all_nodes, ancestors, writes_of


def check_parallel(definition: m.Definition, faults: FaultList) -> None:
    """No two branches of a fork, unordered nodes of a graph or iterations at once write one place."""
    for node in all_nodes(definition.steps):
        match node.verb:
            case m.ForkVerb(branches=branches):
                parts = {branch.name: _writes(branch.do) for branch in branches}
                _check_pairs(node, list(combinations(sorted(parts), 2)), parts, faults, "the branches")
            case m.GraphVerb(nodes=nodes):
                before = {each.name: ancestors(each, node.verb) for each in nodes}
                pairs = [
                    (a, b) for a, b in combinations(sorted(before), 2) if a not in before[b] and b not in before[a]
                ]
                parts = {each.name: _writes((each,)) for each in nodes}
                _check_pairs(node, pairs, parts, faults, "the nodes")
            case m.RepeatVerb(at_once=int(), do=do):
                _check_iterations(do, faults)
            case _:
                pass


def _writes(nodes: m.Nodes) -> set[m.Path]:
    return {path for node in nodes for path in writes_of(node) if path[0] != "local"}


def _check_pairs(
    node: m.Node, pairs: list[tuple[str, str]], parts: dict[str, set[m.Path]], faults: FaultList, what: str
) -> None:
    for one, other in pairs:
        for path in sorted(_shared(parts[one], parts[other])):
            place = ".".join(path)
            faults.at_node(node.name, f"{what} {one} and {other} both write {place}, and run side by side: rename one")


def _shared(one: set[m.Path], other: set[m.Path]) -> set[m.Path]:
    return {a for a in one for b in other if a[: len(b)] == b or b[: len(a)] == a}


def _check_iterations(nodes: m.Nodes, faults: FaultList) -> None:
    for node in all_nodes(nodes):
        for path in {node.into, *_set_by(node)} - {None}:
            if path is not None and path[0] != "local":
                place = ".".join(path)
                faults.at_node(node.name, f"iterations at once write only to `local.…`, not to {place}: use `gives`")


def _set_by(node: m.Node) -> set[m.Path]:
    return {path for path, _ in node.verb.values} if isinstance(node.verb, m.SetVerb) else set()
