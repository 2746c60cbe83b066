"""What each node of a definition did in a run: a replay of the journal says so, and nothing is kept of it.

A call of a Python workflow is known by the name of the function that it calls.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from holdfast.errors import HoldfastError
from holdfast.journal import events as e
from holdfast.journal.promise import PromiseId
from holdfast.kernel.execution import Execution
from holdfast.programs.definition.compiler.compiler import load
from holdfast.programs.definition.engine_tools import EngineTools
from holdfast.programs.definition.interpreter.frames import Visit
from holdfast.programs.definition.interpreter.interpreter import Interpreter
from holdfast.programs.definition.interpreter.marks import NodeMark
from holdfast.programs.definition.interpreter.outcomes import Dropped, Erred, NodeError, NodeOutcome, Succeeded
from holdfast.programs.definition.interpreter.program import DefinitionProgram
from holdfast.programs.definition.interpreter.routine import Routine, Toolbox
from holdfast.programs.definition.model import CallVerb, Definition, RunVerb, TaskVerb, TransportVerb
from holdfast.programs.definition.recorded_tools import RecordedTools
from holdfast.store.protocol import Code

KEPT: Final = 256
"""So many definitions are kept compiled: a page of instances is of few of them."""


PassEvent = Literal["begun", "done", "failed", "retrying", "dropped"]

_CALLS: Final = (CallVerb, TransportVerb, TaskVerb, RunVerb)
"""The verbs whose calls the journal tells of."""


class NodePass(NamedTuple):
    """What a node did without a call of its own, when the journal had so many events. ``dropped``: it was cancelled."""

    version: int
    step: str
    event: PassEvent


class NodeCalls(NamedTuple):
    """The step that each call belongs to, by its position; and of a definition, what became of its nodes.

    The second pass through a node is another step, called ``name#2``.
    """

    steps: Mapping[int, str]
    passes: Sequence[NodePass] = ()
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
        def _enter(self, visit: Visit) -> None:
            observed.enter(visit)
            super()._enter(visit)

        def _begin(self, visit: Visit) -> None:
            observed.begin(visit, self.scribe.version)
            super()._begin(visit)

        def call(self, visit: Visit, promise: PromiseId) -> None:
            observed.call(visit, promise)
            super().call(visit, promise)

        def _retries(self, visit: Visit, error: NodeError) -> bool:
            rests = super()._retries(visit, error)
            if rests:
                observed.rest(visit, self.scribe.version)
            return rests

        def leave(self, visit: Visit, outcome: NodeOutcome, handled: NodeError | None = None) -> None:
            observed.leave(visit, outcome, handled, self.scribe.version)
            super().leave(visit, outcome, handled)

    own = routine(code.data, code.digest.hex())
    program = DefinitionProgram(own, routine, Observed)
    now = entries[-1].timestamp if entries else 0
    try:
        Execution.rebuild(PromiseId(root), program, entries, now, random.Random(0))
    except HoldfastError:
        return named_calls(entries)._replace(definition=own.definition)
    marks = program.interpreter.marks if program.has_begun else {}
    return NodeCalls(observed.steps, observed.passes, program.routine.definition, marks)


@lru_cache(maxsize=KEPT)
def compiled(data: bytes, digest: str) -> Routine:
    """A definition, ready to be read, without tools."""
    return Routine(load(data), digest, EngineTools({}))


class _Observations:
    """What the interpreter does with nodes, as it is replayed. A visit is known by its way from the root: a run that
    moves to another version has other visits of the same nodes."""

    def __init__(self) -> None:
        self.steps: dict[int, str] = {}
        self.passes: list[NodePass] = []
        self._names: dict[tuple[str | int, ...], str] = {}
        self._told: set[tuple[str | int, ...]] = set()  # visits whose calls are in the journal
        self._counted: Counter[str] = Counter()

    def enter(self, visit: Visit) -> None:
        """Another visit begins."""
        self._names.pop(visit.path(), None)
        self._told.discard(visit.path())

    def begin(self, visit: Visit, version: int) -> None:
        """Its verb begins. One that calls is told by its call."""
        if not isinstance(visit.node.verb, _CALLS):
            self._note(visit, version, "begun")

    def call(self, visit: Visit, promise: PromiseId) -> None:
        self._told.add(visit.path())
        self.steps[promise.path[-1]] = self._name(visit)

    def rest(self, visit: Visit, version: int) -> None:
        """It has failed, and begins again after a delay."""
        if visit.path() not in self._told or not isinstance(visit.node.verb, _CALLS):
            self._note(visit, version, "retrying")

    def leave(self, visit: Visit, outcome: NodeOutcome, handled: NodeError | None, version: int) -> None:
        """A visit is over."""
        if isinstance(outcome, Succeeded) and outcome.skipped and handled is None:
            return
        if isinstance(outcome, Dropped):
            self._note(visit, version, "dropped")
        elif not isinstance(visit.node.verb, _CALLS) or visit.path() not in self._told:
            self._note(visit, version, "failed" if handled is not None or isinstance(outcome, Erred) else "done")

    def _note(self, visit: Visit, version: int, what: PassEvent) -> None:
        self.passes.append(NodePass(version, self._name(visit), what))

    def _name(self, visit: Visit) -> str:
        path = visit.path()
        if path not in self._names:
            self._counted[visit.node.name] += 1
            self._names[path] = numbered(visit.node.name, self._counted[visit.node.name])
        return self._names[path]


def numbered(name: str, number: int) -> str:
    """The step of that name, or its so-and-so-manieth pass."""
    return name if number == 1 else f"{name}#{number}"
