"""The steps of a template: the nodes of its definition, and on which others each depends.

A node inside another one begins when that one has begun, so it depends on what that one does. A Python workflow
declares no steps: its instances show those that they have begun.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from holdfast.programs.definition import model as m
from holdfast.programs.definition.walks import in_order


class StepPlan(NamedTuple):
    """A step by its name, and the steps that must have succeeded or been skipped before it begins."""

    name: str
    needs: tuple[str, ...] = ()


def steps_of(definition: m.Definition) -> list[StepPlan]:
    """The steps of a definition, each behind those that it needs."""
    return list(_in_line(definition.steps, ()))


def _in_line(nodes: Sequence[m.Node], before: tuple[str, ...]) -> Iterator[StepPlan]:
    """Nodes one after the other: each needs the one before it."""
    for node in nodes:
        yield from _in_node(node, before)
        before = (node.name,)


def _in_node(node: m.Node, before: tuple[str, ...]) -> Iterator[StepPlan]:
    yield StepPlan(node.name, before)
    if isinstance(node.verb, m.GraphVerb):
        names = {each.name for each in node.verb.nodes}
        for each in in_order(node.verb):
            yield from _in_node(each, tuple(name for name in each.needs if name in names) or before)
    for key, nodes in m.lists_of(node):
        if key.startswith("on.") or not isinstance(node.verb, m.GraphVerb):
            yield from _in_line(nodes, before)
