"""Verbs that reach other runs: a child that is waited for, a run that lives on its own, a signal.

A child whose definition is embedded is tried here first, without a journal of its own. If it ends without needing
anything from outside, its result is the node's, and no run is started.
"""

from __future__ import annotations

from typing import Any

from holdfast.errors import Unencodable
from holdfast.expressions.engine import CannotEvaluate
from holdfast.journal.payload import ONCE, Outcome, Payload, RetryPolicy
from holdfast.programs.definition.interpreter.behaviour import Behaviour
from holdfast.programs.definition.interpreter.frames import Visit
from holdfast.programs.definition.interpreter.inline import play_inline
from holdfast.programs.definition.interpreter.interpreter import Interpreter
from holdfast.programs.definition.interpreter.outcomes import NodeError
from holdfast.programs.definition.model import ContinueVerb, RunVerb, SendVerb
from holdfast.programs.definition.versions import means_itself
from holdfast.programs.function.values import encode
from holdfast.runs.kinds import detached, signal
from holdfast.runs.kinds.child import WORKFLOW
from holdfast.runs.program_names import definition_name
from holdfast.runs.signals import keyed

_PATIENT = RetryPolicy(max_attempts=1_000, initial=0.2, maximum=30.0)


class Children(Behaviour):
    """A run that is waited for."""

    def begin(self, engine: Interpreter, visit: Visit, verb: RunVerb) -> None:
        arguments = engine.context.fill(visit, verb.arguments)
        inline = play_inline(engine, verb, arguments)
        if inline is None:
            payload = _arguments(arguments, verb.workflow)
            engine.call(visit, engine.scribe.invoke(WORKFLOW, _called(engine, verb), payload, ONCE))
        elif isinstance(inline, NodeError):
            engine.fail(visit, inline)
        else:
            engine.context.bind(visit, result=inline.value)
            engine.succeed(visit, inline.value)

    def is_awaited(self, engine: Interpreter, visit: Visit, verb: RunVerb) -> bool:
        """A cancelled child undoes what it did. Its node is not gone before that has ended."""
        return True

    def settled(self, engine: Interpreter, visit: Visit, verb: RunVerb, outcome: Outcome | None) -> None:
        fine, value = engine.result_of(visit, outcome)
        if fine:
            engine.context.bind(visit, result=value)
            engine.succeed(visit, value)


class Continues(Behaviour):
    """A run that is started, and of which nothing comes back but its id."""

    def begin(self, engine: Interpreter, visit: Visit, verb: ContinueVerb) -> None:
        id = engine.context.fill(visit, verb.id)
        if id is not None and not isinstance(id, str):
            raise CannotEvaluate(f"the id of a run is a text, not {id!r:.60}")
        arguments = _arguments(engine.context.fill(visit, verb.arguments), verb.workflow)
        name = _called(engine, verb)
        payload = encode(detached.written(name, id, arguments.data), f"the start of {name}")
        engine.call(visit, engine.scribe.invoke(detached.DETACHED, name, payload, _PATIENT))

    def settled(self, engine: Interpreter, visit: Visit, verb: ContinueVerb, outcome: Outcome | None) -> None:
        fine, value = engine.result_of(visit, outcome)
        if fine:
            engine.succeed(visit, value)


class Sends(Behaviour):
    """A signal to another run."""

    def begin(self, engine: Interpreter, visit: Visit, verb: SendVerb) -> None:
        to, key = engine.context.fill(visit, verb.to), engine.context.fill(visit, verb.key)
        if not isinstance(to, str):
            raise CannotEvaluate(f"a signal is sent to the id of a run, not to {to!r:.60}")
        name = keyed(verb.signal, key)
        payload = encode(signal.written(to, name, engine.context.fill(visit, verb.value)), f"signal {name!r}")
        engine.call(visit, engine.scribe.invoke(signal.SIGNAL, name, payload, _PATIENT))

    def settled(self, engine: Interpreter, visit: Visit, verb: SendVerb, outcome: Outcome | None) -> None:
        if engine.result_of(visit, outcome)[0]:
            engine.succeed(visit)


def _called(engine: Interpreter, verb: RunVerb | ContinueVerb) -> str:
    if verb.version is not None:
        return definition_name(verb.workflow, verb.version, verb.digest)
    routine = engine.routine
    own = routine.definition
    if means_itself(verb.workflow, own.name, own.version):
        return definition_name(own.name, own.version, routine.digest)
    return verb.workflow


def _arguments(arguments: Any, workflow: str) -> Payload:
    """The recorded arguments of a run: a map's members by name, anything else as the only one."""
    call = [[], arguments] if isinstance(arguments, dict) else [[arguments], {}]
    try:
        return encode(call, f"the arguments of {workflow}")
    except Unencodable as error:
        raise CannotEvaluate(str(error)) from None
