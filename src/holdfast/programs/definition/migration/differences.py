"""What one version of a definition has that another has not: nodes, and the parts beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

from holdfast.programs.definition.compiler.document import write_document, write_node
from holdfast.programs.definition.migration.rules import rules_for
from holdfast.programs.definition.model import Definition, Node, Nodes, lists_of

_INNER: Final = frozenset({"do", "switch", "fork", "pick", "graph", "on"})
"""The members of a node that hold other nodes. Those nodes are compared on their own."""
_UNTOLD: Final = frozenset({"holdfast", "steps", "version", "migrate", "inline", "uses"})


class Difference(msgspec.Struct, frozen=True):
    """One thing that differs. ``what`` is the path of a node, or the name of a part such as ``tasks.review``."""

    change: Literal["added", "removed", "changed", "renamed"]
    what: str
    details: str = ""


def differences(old: Definition, new: Definition) -> list[Difference]:
    """What differs, parts first, then nodes in the order of the newer version; those that are gone last."""
    return [*_parts(old, new), *_nodes(old, new)]


def _parts(old: Definition, new: Definition) -> Iterator[Difference]:
    before, after = write_document(old), write_document(new)
    for name in dict.fromkeys([*after, *before]):
        one, other = before.get(name), after.get(name)
        if name in _UNTOLD or one == other:
            continue
        if isinstance(one or {}, dict) and isinstance(other or {}, dict) and name != "start":
            yield from _members(name, one or {}, other or {})
        else:
            yield Difference("removed" if other is None else "added" if one is None else "changed", name)


def _members(part: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[Difference]:
    for name in dict.fromkeys([*after, *before]):
        if name not in before:
            yield Difference("added", f"{part}.{name}")
        elif name not in after:
            yield Difference("removed", f"{part}.{name}")
        elif before[name] != after[name]:
            yield Difference("changed", f"{part}.{name}")


def _nodes(old: Definition, new: Definition) -> Iterator[Difference]:
    rules = rules_for(new, old.version)
    predecessors = {rules.successor(name): name for name in dict(_walk(old.steps, ""))}
    before = {node.name: (path, node) for path, node in _walked(old)}
    seen: set[str] = set()
    for path, node in _walked(new):
        name = predecessors.get(node.name, node.name)
        if name not in before:
            yield Difference("added", path)
            continue
        seen.add(name)
        old_path, old_node = before[name]
        changed = _changed(old_node, node)
        if name != node.name:
            yield Difference("renamed", path, f"was {old_path}")
        elif old_path != path:
            changed = [f"was {old_path}", *changed]
        if changed:
            yield Difference("changed", path, ", ".join(changed))
    for name, (path, _) in before.items():
        if name not in seen:
            yield Difference("removed", path)


def _changed(old: Node, new: Node) -> list[str]:
    """The members of a node that differ, without the nodes inside it."""
    before, after = write_node(old), write_node(new)
    if type(old.verb) is not type(new.verb):
        return [f"{_verb(before)} is {_verb(after)} now"]
    names = dict.fromkeys([*after, *before])
    return [name for name in names if _own(name, before.get(name)) != _own(name, after.get(name))]


def _own(name: str, member: Any) -> Any:
    """A member without the nodes inside it: of a switch its conditions, of handlers which there are."""
    if name not in _INNER or member is None:
        return member
    if name == "switch":
        return [case.get("when") for case in member]
    return sorted(member) if name == "on" else None


def _verb(document: dict[str, Any]) -> str:
    return next(iter(document))


def _walked(definition: Definition) -> Iterator[tuple[str, Node]]:
    for _, (path, node) in _walk(definition.steps, ""):
        yield path, node


def _walk(nodes: Nodes, above: str) -> Iterator[tuple[str, tuple[str, Node]]]:
    for node in nodes:
        path = f"{above}.{node.name}" if above else node.name
        yield node.name, (path, node)
        for _, inner in lists_of(node):
            yield from _walk(inner, path)
