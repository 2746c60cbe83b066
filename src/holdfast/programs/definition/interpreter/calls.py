"""Verbs that call steps, actions and transports, and what takes such calls back.

A call with an undo is awaited even when it is cancelled: no further attempt of it begins, and if the one under way
succeeds after all, that success is undone, too. What was done is kept as data (``Deed``), with the arguments of the
undo filled in when the call succeeded.
"""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from holdfast.errors import InvalidDefinition, InvalidRequest, StepMissing, Unencodable
from holdfast.expressions.engine import CannotEvaluate
from holdfast.journal.payload import CBOR, ONCE, Ok, Outcome, Payload, RetryPolicy, policy_fields
from holdfast.journal.promise import PromiseId
from holdfast.journal.secrecy import ACTION
from holdfast.programs.definition.interpreter.behaviour import Behaviour
from holdfast.programs.definition.interpreter.frames import Deed, Visit
from holdfast.programs.definition.interpreter.interpreter import Interpreter
from holdfast.programs.definition.interpreter.routine import kernel_policy
from holdfast.programs.definition.model import CallVerb, CompensateVerb, TransportVerb


class _Calls(Behaviour):
    """A call that the performer attempts."""

    def settled(self, engine: Interpreter, visit: Visit, verb: Any, outcome: Outcome | None) -> None:
        if isinstance(outcome, Ok) and engine.settling is not None:
            self.succeeded_late(engine, visit, verb, engine.settling, outcome.value)
        fine, value = engine.result_of(visit, outcome)
        if fine:
            engine.context.bind(visit, result=value)
            engine.succeed(visit, value)

    def is_awaited(self, engine: Interpreter, visit: Visit, verb: Any) -> bool:
        return "input" in visit.memo

    def succeeded_late(self, engine: Interpreter, visit: Visit, verb: Any, promise: PromiseId, result: Payload) -> None:
        if "input" in visit.memo and not _has_lost_undo(engine, visit, verb):
            engine.deeds.add(_deed(engine, visit, verb, promise, result))

    def _keep(self, visit: Visit, payload: Payload) -> None:
        visit.memo["input"] = payload.data
        visit.memo["codec"] = payload.codec


class Steps(_Calls):
    """A Python step or action."""

    def begin(self, engine: Interpreter, visit: Visit, verb: CallVerb) -> None:
        step = engine.routine.step(verb.name)
        payload = written_call(engine, verb, engine.context.fill(visit, verb.arguments))
        policy = _policy(engine, visit, step.retry)
        invoke = engine.scribe.invoke
        promise = invoke(step.kind, step.name, payload, policy, step.queue, repeatable=step.repeatable)
        if visit.node.undo is not None or step.undo is not None:
            self._keep(visit, payload)
        engine.call(visit, promise)


class TransportCalls(_Calls):
    """A call of the outside by a transport."""

    def begin(self, engine: Interpreter, visit: Visit, verb: TransportVerb) -> None:
        name, payload = written_request(engine, visit, verb, engine.context.fill(visit, verb.request))
        policy, repeatable = _policy(engine, visit, ONCE), _only_reads(engine, verb, name, payload)
        promise = engine.scribe.invoke(ACTION, name, payload, policy, repeatable=repeatable)
        if visit.node.undo is not None:
            self._keep(visit, payload)
        engine.call(visit, promise)


class Compensates(Behaviour):
    """Undo what one node did, wherever and however often."""

    def begin(self, engine: Interpreter, visit: Visit, verb: CompensateVerb) -> None:
        engine.undo(visit, [deed for deed in engine.deeds.done if _is_of(engine, deed, verb.node)])

    def undone(self, engine: Interpreter, visit: Visit, verb: CompensateVerb) -> None:
        if (error := engine.undo_error(visit)) is None:
            engine.succeed(visit)
        else:
            engine.fail(visit, error)


def _is_of(engine: Interpreter, deed: Deed, node: str) -> bool:
    """Whether a node did it. A path has names of branches in it, too, which may be those of nodes elsewhere."""
    routine = engine.routine
    if deed.node in routine.places:
        return routine.is_part_of(deed.node, node)
    return node in deed.path  # the run has moved to a version without the node that did it


def written_call(engine: Interpreter, verb: CallVerb, arguments: Any) -> Payload:
    """A call of a Python step as it is recorded. Raises CannotEvaluate where the arguments do not fit."""
    step = engine.routine.step(verb.name)
    positional, named = (arguments, {}) if isinstance(arguments, list) else ([], arguments)
    if not isinstance(named, dict):
        raise CannotEvaluate(f"the arguments of {verb.name} are a map of names, not {arguments!r:.60}")
    try:
        return step.write_call(tuple(positional), named, engine)
    except (TypeError, Unencodable) as error:
        raise CannotEvaluate(f"{verb.name} cannot be called with these arguments: {error}") from None


def written_request(engine: Interpreter, visit: Visit, verb: TransportVerb, request: Any) -> tuple[str, Payload]:
    """A transport's call as it is recorded: what it goes by, and its input. Raises CannotEvaluate."""
    transport = engine.routine.tools.transport(verb.verb)
    if transport is None:
        raise InvalidDefinition(f"there is no transport {verb.verb!r} here: install the package that has it")
    if not isinstance(request, dict):
        raise CannotEvaluate(f"what {verb.verb} sends is a map, not {request!r:.60}")
    timeout = visit.node.timeout
    if timeout is not None and timeout.attempt is not None:
        request = {**request, "timeout": engine.context.span(visit, timeout.attempt) / 1e6}
    try:
        return transport.write(request, engine.routine.definition.connectors)
    except InvalidRequest as error:
        raise CannotEvaluate(str(error)) from None


def _only_reads(engine: Interpreter, verb: TransportVerb, name: str, payload: Payload) -> bool:
    transport = engine.routine.tools.transport(verb.verb)
    return transport is not None and not transport.effect(name, payload).writes


def _policy(engine: Interpreter, visit: Visit, own: RetryPolicy) -> RetryPolicy:
    """How often a call is tried: as its node says, else as the step itself does."""
    retry, timeout = engine.routine.retry(visit.node), visit.node.timeout
    policy = own if retry is None else kernel_policy(retry)
    if timeout is not None and timeout.attempt is not None:
        policy = msgspec.structs.replace(policy, attempt_timeout=engine.context.span(visit, timeout.attempt) / 1e6)
    return policy


def _has_lost_undo(engine: Interpreter, visit: Visit, verb: CallVerb | TransportVerb) -> bool:
    """Whether a move to another version took the node's undo away, and what it calls has none of its own."""
    if "undo_gone" not in visit.memo or visit.node.undo is not None:
        return False
    return not isinstance(verb, CallVerb) or engine.routine.step(verb.name).undo is None


def _deed(
    engine: Interpreter, visit: Visit, verb: CallVerb | TransportVerb, promise: PromiseId, result: Payload
) -> Deed:
    """How a call that has succeeded is undone; where that cannot be, why."""
    place = engine.deeds.made, visit.path(), visit.node.name, promise.root, promise.path
    try:
        kind, name, payload, policy, queue = _undo(engine, visit, verb, result)
    except StepMissing:  # it parks the run
        raise
    except Exception as error:  # whatever the author's types make of a value
        problem = f"node {visit.node.name} cannot be undone: {error}"
        return Deed(*place, "", "", b"", CBOR, policy_fields(ONCE), None, problem)
    return Deed(*place, kind, name, payload.data, payload.codec, policy_fields(policy), queue)


def _undo(
    engine: Interpreter, visit: Visit, verb: CallVerb | TransportVerb, result: Payload
) -> tuple[str, str, Payload, RetryPolicy, str | None]:
    undo = visit.node.undo
    input = Payload(visit.memo["input"], visit.memo["codec"])
    if undo is None or undo.inherits:
        if not isinstance(verb, CallVerb):
            raise InvalidDefinition("the undo of a transport call says with what it is called")
        step = engine.routine.step(verb.name)
        other = step.undo if undo is None else engine.routine.step(_name(undo.verb))
        if other is None:
            raise InvalidDefinition(f"{verb.name} has no undo= any more: restore it")
        payload = other.write_call(_given(step, other, input, result), {}, engine)
        return other.kind, other.name, payload, other.retry, other.queue
    value = engine.routine.read(result)
    if isinstance(undo.verb, TransportVerb):
        request = engine.context.fill(visit, undo.verb.request, result=value)
        name, payload = written_request(engine, visit, undo.verb, request)
        return ACTION, name, payload, ONCE, None
    other = engine.routine.step(undo.verb.name)
    payload = written_call(engine, undo.verb, engine.context.fill(visit, undo.verb.arguments, result=value))
    return other.kind, other.name, payload, other.retry, other.queue


def _name(verb: CallVerb | TransportVerb) -> str:
    return verb.name if isinstance(verb, CallVerb) else verb.verb


def _given(step: Any, undo: Any, input: Payload, result: Payload) -> tuple[Any, ...]:
    """What an undo gets without arguments of its own: the result, then as many of the call's arguments as it takes."""
    args, kwargs = step.signature.read(input)
    call = inspect.signature(step.function).bind(*args, **kwargs)
    call.apply_defaults()
    given = (step.read_result(result), *call.args, *call.kwargs.values())
    takes = [parameter.kind for parameter in inspect.signature(undo.function).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in takes:
        return given
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return given[: sum(kind in kinds for kind in takes)]
