"""What a task's declaration sees: what all nodes see that ask it, and what they give it as ``input``."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import Final, NamedTuple

from holdfast.expressions.shapes import DYN, ValueShape, joined, map_of
from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.faults import FaultList
from holdfast.programs.definition.interpreter.routine import INPUT, texts_in

_GUARDED: Final = re.compile(r"(?:\bhas\(input\.|\binput\.\?)([A-Za-z_]\w*)")


class TaskUse(NamedTuple):
    """A node that asks a task, what its expressions see, and what is known of what it gives."""

    node: str
    roots: Mapping[str, ValueShape]
    given: ValueShape


def seen_by_all(roots: Sequence[Mapping[str, ValueShape]]) -> dict[str, ValueShape]:
    """The names that all of these have, and what is known of each in all of them."""
    first, *others = roots
    names = [name for name in first if all(name in each for each in others)]
    return {name: reduce(joined, (each[name] for each in others), first[name]) for name in names}


def input_of(asked: Sequence[TaskUse]) -> ValueShape:
    """What is known of what nodes give a task, all of them together."""
    if any(use.given.kind != "map" for use in asked):
        return DYN
    names = {name for use in asked for name in use.given.members}
    given = {name: [use.given.members.get(name, DYN) for use in asked] for name in sorted(names)}
    return map_of({name: reduce(joined, shapes) for name, shapes in given.items()})


def check_given(
    name: str,
    task: m.TaskDeclaration,
    reads: Collection[tuple[str, ...]],
    asked: Sequence[TaskUse],
    faults: FaultList,
) -> None:
    """Each node gives what the declaration reads, unless that asks first whether it is there."""
    guarded = {member for text in texts_in(task) for member in _GUARDED.findall(text)}
    wanted = {read[1] for read in reads if read[0] == INPUT and len(read) > 1} - guarded
    for use in asked:
        for member in sorted(wanted - use.given.members.keys()) if use.given.kind == "map" else ():
            what = f"the task {name} reads input.{member}: give it, `with: {{{member}: …}}`"
            faults.at_node(use.node, what, "with")
