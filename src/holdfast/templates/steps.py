"""The steps of a template: the nodes of its definition that call something, and on which others each depends.

A Python workflow declares no steps: its instances show those that they have begun.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from holdfast.programs.definition import model as m
from holdfast.programs.definition.walks import in_order

_CALLS: Final = (m.CallVerb, m.TransportVerb, m.TaskVerb, m.RunVerb)


class StepPlan(NamedTuple):
    """A step by its name, and the steps that must have succeeded or been skipped before it begins."""

    name: str
    needs: tuple[str, ...] = ()


def steps_of(definition: m.Definition) -> list[StepPlan]:
    """The steps of a definition, each behind those that it needs."""
    return list(_in_line(definition.steps, ()))


def _in_line(nodes: Sequence[m.Node], before: Sequence[str]) -> Iterator[StepPlan]:
    """Nodes one after the other: each needs those of the last node before it that has any."""
    for node in nodes:
        found = list(_in_node(node, before))
        yield from found
        before = [plan.name for plan in found] or before


def _in_node(node: m.Node, before: Sequence[str]) -> Iterator[StepPlan]:
    if isinstance(node.verb, _CALLS):
        yield StepPlan(node.name, tuple(before))
        before = (node.name,)
    if isinstance(node.verb, m.GraphVerb):
        inside: dict[str, list[str]] = {}
        for each in in_order(node.verb):
            needed = [name for other in each.needs for name in inside.get(other, ())]
            found = list(_in_node(each, needed or before))
            yield from found
            inside[each.name] = [plan.name for plan in found] or needed
        return
    for _, nodes in m.lists_of(node):
        yield from _in_line(nodes, before)
