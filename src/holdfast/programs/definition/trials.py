"""Tests that stand in a definition: it is played without a store, a worker or a clock, and mocks answer its calls.

    tests:
      - name: a large claim waits for a person
        start: {claimNo: C-2, items: [{amount: 9000}]}
        mock: {score: 0.1, pay: {raise: {class: timeout}}, get: {each: [1, 2]}}
        signals: [{name: documents, key: C-2, value: [photo], after: 1h}]
        answers: [{task: approve, by: bob, groups: [claims], value: {decision: reject}}]
        expect: {status: completed, result: {…}, state: {…}, error: {code: …}, done: [pay], skipped: [ask]}

Calls are answered at once, by the name of their node; signals come in order, answers when a task asks. When nothing
else is left, time goes on to the next timer. With ``crash`` every turn is taken three times: once and thrown away, as
by a crash before its commit; once by a run rebuilt from its journal; once by one restored from its checkpoint. All
must agree.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Final

import cbor2
import msgspec

from holdfast.errors import HoldfastError, InvalidDefinition
from holdfast.journal import events as e
from holdfast.journal.attribution import given_by
from holdfast.journal.error_classes import CLASSES, OTHER, TIMEOUT, TRANSPORT, error_class, written_details
from holdfast.journal.forms import FORM
from holdfast.journal.payload import Err, Failure, Ok, Outcome
from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import Arrival, AttemptFailed, CallSettled, SignalArrived
from holdfast.kernel.execution import Execution
from holdfast.kernel.requests import Invoke
from holdfast.programs.definition.interpreter.frames import Visit
from holdfast.programs.definition.interpreter.program import DefinitionProgram
from holdfast.programs.definition.interpreter.routine import Routine
from holdfast.programs.definition.model import TaskVerb
from holdfast.programs.definition.spans import read_span
from holdfast.programs.function.values import encode
from holdfast.runs.signals import keyed
from holdfast.tasks import questions
from holdfast.tasks.forms import cross_problems, filled, form_problems

_PASSING: Final = (OTHER, TIMEOUT, TRANSPORT)
"""The classes of errors that another attempt may mend."""
_EXPIRED: Final = Failure("holdfast.errors:TaskExpired", "nobody answered in time")

MOST_TURNS: Final = 10_000
_BEGIN: Final = 1_767_225_600_000_000  # the first of January 2026


class SignalSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A signal that a test sends."""

    name: str
    value: Any = None
    key: Any = None
    after: str = "0s"
    by: str | None = None


class AnswerSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An answer that a test gives to a task."""

    task: str
    value: Any
    by: str = "somebody"
    groups: tuple[str, ...] = ()


class ExpectSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What must have come of it. What is left out is not looked at."""

    status: str | None = None
    result: Any = msgspec.UNSET
    state: dict[str, Any] = {}
    error: dict[str, Any] = {}
    reference: str | None = None
    done: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    waits: tuple[str, ...] | None = None


class TrialSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One test of a definition."""

    start: Any = None
    name: str = ""
    mock: dict[str, Any] = {}
    signals: tuple[SignalSpec, ...] = ()
    answers: tuple[AnswerSpec, ...] = ()
    expect: ExpectSpec = ExpectSpec()


class TrialResult(msgspec.Struct, frozen=True):
    """What a test found. ``problems`` is empty where all is as expected."""

    name: str
    status: str
    problems: tuple[str, ...] = ()


class _Entropy(random.Random):
    """The same at every draw: a replay draws values that it throws away."""

    def random(self) -> float:
        return 0.5

    def randbytes(self, n: int) -> bytes:
        return b"\7" * n


def read_trials(tests: Any) -> list[TrialSpec]:
    """The tests of a document. Raises InvalidDefinition."""
    try:
        return msgspec.convert(tests or [], list[TrialSpec])
    except msgspec.ValidationError as error:
        raise InvalidDefinition(f"tests: {error}") from None


def play(routine: Routine, spec: TrialSpec, *, crash: bool = False) -> TrialResult:
    """Play one test."""
    name = spec.name or f"start {spec.start!r:.60}"
    trial = _Trial(routine, spec, crash=crash)
    try:
        status = trial.play()
        return TrialResult(name, status, tuple(trial.compare(status)))
    except HoldfastError as error:
        return TrialResult(name, "parked", tuple(trial.compare("parked", str(error))))


class _Trial:
    def __init__(self, routine: Routine, spec: TrialSpec, *, crash: bool) -> None:
        self._routine = routine
        self._spec = spec
        self._crash = crash
        self._now = _BEGIN
        self._id = PromiseId.of_run(routine.digest, None, "default~test")
        self._journal: list[e.Entry] = []
        self._used: dict[str, int] = {}
        self._signals = list(spec.signals)
        self._answers = list(spec.answers)
        self._asked: dict[PromiseId, int] = {}  # when each open task was first seen
        self._problems: list[str] = []
        start = spec.start if spec.start is not None else {}
        started = e.ExecutionStarted(routine.digest, encode([[start], {}]), None, "default~test", e.EDITION)
        self._execution = Execution.begin(self._id, DefinitionProgram(routine), started, self._now, _Entropy())

    # -- playing -------------------------------------------------------------------------------------------------------

    def play(self) -> str:
        """Take turns until the run has ended, or waits for something that no test gives."""
        self._turn([])
        for _ in range(MOST_TURNS):
            if self._execution.ended:
                return _status(self._journal[-1].event)
            arrivals = self._next()
            if arrivals is None:
                return "waiting"
            self._turn(arrivals)
        raise InvalidDefinition(f"it has not ended after {MOST_TURNS} turns")

    def _turn(self, arrivals: list[Arrival]) -> None:
        if self._crash and self._journal:
            self._take_twice(arrivals)
        turn = self._execution.advance(arrivals, self._now)
        for stamp, event in turn.events:
            self._journal.append(e.Entry(len(self._journal), stamp, event))

    def _take_twice(self, arrivals: list[Arrival]) -> None:
        """A crash before the commit, and one after: both go on as if nothing had happened."""
        checkpoint = self._execution.checkpoint()
        lost = self._rebuilt().advance(arrivals, self._now).events
        expected = [event for _, event in lost]
        again = self._rebuilt()
        if checkpoint is not None:
            restored = Execution.restore(
                self._id, DefinitionProgram(self._routine), checkpoint, [], self._now, _Entropy()
            )
            events = [event for _, event in restored.advance(arrivals, self._now).events]
            if events != expected:
                raise InvalidDefinition("a run restored from its checkpoint went another way: a bug in Holdfast")
        self._execution = again

    def _rebuilt(self) -> Execution:
        program = DefinitionProgram(self._routine)
        return Execution.rebuild(self._id, program, self._journal, self._now, _Entropy())

    def _next(self) -> list[Arrival] | None:
        """What happens next: a call is answered, a signal or an answer comes, or time passes."""
        for request in self._execution.outstanding():
            if isinstance(request, Invoke) and (outcome := self._outcome(request)) is not None:
                return [_arrival(request, outcome, self._now)]
        expiries = self._expiries()
        due = min((time for time in (self._execution.next_due(), *expiries.values()) if time is not None), default=None)
        if self._signals and (due is None or self._time_of(self._signals[0]) <= due):
            signal = self._signals.pop(0)
            self._now = max(self._now, self._time_of(signal))
            return [SignalArrived(keyed(signal.name, signal.key), given_by(encode(signal.value), signal.by))]
        if due is None:
            return None
        self._now = max(self._now, due)
        late = [promise for promise, time in expiries.items() if time == due]
        return [CallSettled(promise, Err(_EXPIRED), 1, self._now) for promise in late[:1]]

    def _expiries(self) -> dict[PromiseId, int]:
        """When the open tasks that nobody answers are over."""
        found = {}
        for request in self._execution.outstanding():
            if isinstance(request, Invoke) and request.kind == FORM:
                asked = self._asked.setdefault(request.promise_id, self._now)
                expire = questions.read(request.input)[1].expire
                if expire is not None:
                    found[request.promise_id] = asked + expire
        return found

    def _time_of(self, signal: SignalSpec) -> int:
        return _BEGIN + read_span(signal.after)

    # -- answers -------------------------------------------------------------------------------------------------------

    def _outcome(self, request: Invoke) -> Outcome | None:
        what, visit = self._program.interpreter.waiting[request.promise_id]
        if what == "undo" or not isinstance(visit, Visit):
            return Ok(encode(None))
        if request.kind == FORM:
            return self._answer(visit, request)
        return self._mocked(visit.node.name)

    def _mocked(self, node: str) -> Outcome:
        if node not in self._spec.mock:
            raise InvalidDefinition(f"node {node} is called, and the test has no mock for it")
        mock = self._spec.mock[node]
        at = self._used[node] = self._used.get(node, 0) + 1
        if isinstance(mock, Mapping) and mock.keys() == {"each"}:
            values = mock["each"]
            mock = values[min(at, len(values)) - 1] if values else None
        if isinstance(mock, Mapping) and mock.keys() == {"raise"}:
            return Err(_failure(mock["raise"]))
        return Ok(encode(mock))

    def _answer(self, visit: Visit, request: Invoke) -> Outcome | None:
        name = visit.node.verb.task if isinstance(visit.node.verb, TaskVerb) else ""
        found = next((answer for answer in self._answers if answer.task == name), None)
        if found is None:
            return None
        self._answers.remove(found)
        _, question = questions.read(request.input)
        value = filled(question.form, found.value)
        refused = self._refusal(found, question, value)
        if refused:
            self._problems.append(f"the answer of {found.by} to {name} is refused: {refused}")
            return None
        return Ok(given_by(encode(value), found.by))

    def _refusal(self, answer: AnswerSpec, question: questions.Question, value: Any) -> str:
        if answer.by in question.excluded:
            return f"{answer.by} is excluded"
        groups, candidates = set(question.groups), set(question.candidates)
        if (groups or candidates) and answer.by not in candidates and not groups & set(answer.groups):
            return f"{answer.by} is not one of {', '.join(sorted(groups | candidates))}"
        details = {"checks": msgspec.to_builtins(question.checks), "facts": question.facts}
        found = form_problems(question.form, value) or cross_problems(details, value)
        return "; ".join(f"{place or '/'}: {problem}" for place, problem in found)

    @property
    def _program(self) -> DefinitionProgram:
        program = self._execution.program
        assert isinstance(program, DefinitionProgram)
        return program

    # -- comparing -----------------------------------------------------------------------------------------------------

    def compare(self, status: str, message: str = "") -> list[str]:
        """What is not as expected."""
        expect, found = self._spec.expect, list(self._problems)
        if expect.status is not None and expect.status != status:
            found.append(f"it is {status}, and not {expect.status}{f': {message}' if message else ''}")
        elif expect.status is None and status == "parked":
            found.append(f"it is parked: {message}")
        last = self._journal[-1].event if self._journal else None
        if expect.result is not msgspec.UNSET:
            given = cbor2.loads(last.result.data) if isinstance(last, e.ExecutionCompleted) else None
            if given != expect.result:
                found.append(f"its result is {given!r}, and not {expect.result!r}")
        if expect.error:
            found += _compare_error(last, expect.error)
        return found + self._compare_inside(expect)

    def _compare_inside(self, expect: ExpectSpec) -> list[str]:
        engine = self._program.interpreter
        state, found = self._program.state, []
        for name, value in expect.state.items():
            if state.get(name) != value:
                found.append(f"state.{name} is {state.get(name)!r}, and not {value!r}")
        if expect.reference is not None and self._program.reference != expect.reference:
            found.append(f"the reference is {self._program.reference!r}, and not {expect.reference!r}")
        for wanted, nodes in (("success", expect.done), ("skipped", expect.skipped)):
            for node in nodes:
                mark = engine.marks.get(node)
                if mark is None or mark.state != wanted:
                    found.append(f"node {node} is {'not reached' if mark is None else mark.state}, and not {wanted}")
        if expect.waits is not None:
            waits = sorted(place.node.name for _, place in engine.waiting.values() if isinstance(place, Visit))
            if waits != sorted(expect.waits):
                found.append(f"it waits at {', '.join(waits) or 'nothing'}, and not at {', '.join(expect.waits)}")
        return found


def _arrival(request: Invoke, outcome: Outcome, now: int) -> Arrival:
    """An outcome, or an attempt that failed where its call may be tried again."""
    if isinstance(outcome, Err) and request.kind != FORM:
        found, on = error_class(outcome.failure), request.retry.on
        if found in (on or _PASSING):
            return AttemptFailed(request.promise_id, outcome.failure, request.attempt, now)
    return CallSettled(request.promise_id, outcome, request.attempt, now)


def _failure(error: Any) -> Failure:
    """A mock's error: ``{class, code, message}``, each of which may be left out."""
    given: Mapping[str, Any] = error if isinstance(error, Mapping) else {"message": str(error)}
    kind = given.get("class", "error")
    if kind not in CLASSES:
        raise InvalidDefinition(f"there is no class of errors {kind!r}: {', '.join(CLASSES)}")
    members = {"class": kind, **({"code": given["code"]} if "code" in given else {})}
    return Failure("holdfast.errors:TerminalError", str(given.get("message", kind)), "", written_details(members))


def _status(event: e.Event) -> str:
    match event:
        case e.ExecutionCompleted():
            return "completed"
        case e.ExecutionFailed():
            return "failed"
        case _:
            return "cancelled"


def _compare_error(last: e.Event | None, wanted: Mapping[str, Any]) -> list[str]:
    if not isinstance(last, e.ExecutionFailed):
        return ["it has not failed"]
    from holdfast.programs.definition.interpreter.outcomes import error_of

    given = error_of(last.error).shown()
    return [
        f"error.{name} is {given.get(name)!r}, and not {value!r}"
        for name, value in wanted.items()
        if given.get(name) != value
    ]
