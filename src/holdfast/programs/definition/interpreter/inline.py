"""A child that needs nothing from outside, played within its parent's turn.

It is interpreted on trial, with a scribe that refuses every command. If it comes to its end, that is its end, and no
run is started. If it needs anything (a step, a timer, the time), nothing has happened yet, and a run is started for it.
One that reads its own id needs a run, too: the id of its parent would be another's.
"""

from __future__ import annotations

from typing import Any, NoReturn

from holdfast.errors import InvalidDefinition, StepMissing
from holdfast.programs.definition.compiler.faults import FaultList
from holdfast.programs.definition.compiler.reader import read_document
from holdfast.programs.definition.interpreter.context import ExecutionContext
from holdfast.programs.definition.interpreter.interpreter import Interpreter
from holdfast.programs.definition.interpreter.outcomes import Erred, Finished, NodeError, Succeeded, error_of
from holdfast.programs.definition.interpreter.routine import Routine
from holdfast.programs.definition.model import RunVerb
from holdfast.tasks.forms import problems


class NeedsRun(BaseException):
    """The child needs something from outside. A BaseException, so that nobody takes it for an error of the child."""


class _NoScribe:
    """Refuses every command."""

    def __getattr__(self, name: str) -> NoReturn:
        raise NeedsRun(name)


def play_inline(parent: Interpreter, verb: RunVerb, arguments: Any) -> Succeeded | NodeError | None:
    """The end of a child that needs nothing from outside; None where a run is needed for it."""
    routine = _routine(parent.routine, verb)
    if routine is None or routine.reads_own_id:
        return None
    above = parent.context
    start = routine.fit_start(arguments, above.edition)
    if routine.definition.start and problems(routine.definition.start, start):
        return None
    scribe: Any = _NoScribe()
    context = ExecutionContext(routine, scribe, above.tenant, above.id, start, above.edition)
    child = Interpreter(routine, parent.verbs, scribe, context)
    try:
        child.begin()
        child.go()
    except (NeedsRun, InvalidDefinition, StepMissing):  # one that must be parked gets a run that can be
        return None
    match child.outcome:
        case Finished(result=result):
            return Succeeded(result)
        case Succeeded():
            return Succeeded()
        case Erred(error=error):
            return error_of(error.failure())  # as that of a run
        case _:
            return None


def _routine(parent: Routine, verb: RunVerb) -> Routine | None:
    name = f"{verb.workflow}@{verb.version}"
    document = parent.definition.inline.get(name)
    if document is None:
        return None
    found = parent.inlined.get(name)
    if found is None:
        definition = read_document(document, FaultList())
        if definition is None:
            return None
        found = parent.inlined[name] = Routine(definition, verb.digest, parent.tools)
    return found
