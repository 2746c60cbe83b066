"""Which node of a definition made which call of a run: a replay of the journal says so, and nothing is kept of it.

A call of a Python workflow is known by the name of the function that it calls.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from holdfast.errors import HoldfastError
from holdfast.journal import events as e
from holdfast.journal.promise import PromiseId
from holdfast.kernel.execution import Execution
from holdfast.programs.definition.compiler.compiler import load
from holdfast.programs.definition.engine_tools import EngineTools
from holdfast.programs.definition.interpreter.frames import Visit
from holdfast.programs.definition.interpreter.interpreter import Interpreter
from holdfast.programs.definition.interpreter.marks import NodeMark
from holdfast.programs.definition.interpreter.program import DefinitionProgram
from holdfast.programs.definition.interpreter.routine import Routine, Toolbox
from holdfast.programs.definition.model import Definition
from holdfast.programs.definition.recorded_tools import RecordedTools
from holdfast.store.protocol import Code

KEPT: Final = 256
"""So many definitions are kept compiled: a page of instances is of few of them."""


class NodeCalls(NamedTuple):
    """The step that each call belongs to, by its position; and of a definition, what became of its nodes.

    The second pass through a node is another step, called ``name#2``.
    """

    steps: Mapping[int, str]
    definition: Definition | None = None
    marks: Mapping[str, NodeMark] = {}


def named_calls(entries: Sequence[e.Entry]) -> NodeCalls:
    """The calls of a Python workflow: each is a step of its own."""
    counted: Counter[str] = Counter()
    steps: dict[int, str] = {}
    for entry in entries:
        match entry.event:
            case e.InvokeScheduled(promise_id=promise, function_name=name, undoes=None):
                counted[name] += 1
                steps[promise.path[-1]] = numbered(name.partition("#")[0], counted[name])
            case _:
                continue
    return NodeCalls(steps)


def definition_calls(root: bytes, code: Code, tools: Toolbox, entries: Sequence[e.Entry]) -> NodeCalls:
    """The calls of a definition's run, from its journal with all payloads.

    Where the replay fails, the calls are known by what they call: a run that cannot go on still has its story.
    """
    observed = _Observations()
    recorded = RecordedTools(tools, entries)

    def routine(data: bytes, digest: str) -> Routine:
        return compiled(data, digest).with_tools(recorded)

    class Observed(Interpreter):
        def call(self, visit: Visit, promise: PromiseId) -> None:
            observed.call(visit, promise)
            super().call(visit, promise)

    own = routine(code.data, code.digest.hex())
    program = DefinitionProgram(own, routine, Observed)
    now = entries[-1].timestamp if entries else 0
    try:
        Execution.rebuild(PromiseId(root), program, entries, now, random.Random(0))
    except HoldfastError:
        return named_calls(entries)._replace(definition=own.definition)
    marks = program.interpreter.marks if program.has_begun else {}
    return NodeCalls(observed.steps, program.routine.definition, marks)


@lru_cache(maxsize=KEPT)
def compiled(data: bytes, digest: str) -> Routine:
    """A definition, ready to be read, without tools."""
    return Routine(load(data), digest, EngineTools({}))


class _Observations:
    def __init__(self) -> None:
        self.steps: dict[int, str] = {}
        self._names: dict[int, tuple[Visit, str]] = {}  # a visit may call again, and is the same step then
        self._counted: Counter[str] = Counter()

    def call(self, visit: Visit, promise: PromiseId) -> None:
        name = visit.node.name
        if id(visit) not in self._names:
            self._counted[name] += 1
            self._names[id(visit)] = visit, numbered(name, self._counted[name])
        self.steps[promise.path[-1]] = self._names[id(visit)][1]


def numbered(name: str, number: int) -> str:
    """The step of that name, or its so-and-so-manieth pass."""
    return name if number == 1 else f"{name}#{number}"
