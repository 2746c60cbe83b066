"""A definition as the kernel's program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import cbor2
import msgspec

from holdfast.errors import EngineError
from holdfast.journal import events as e
from holdfast.journal.payload import Failure, Outcome, Payload
from holdfast.journal.promise import PromiseId
from holdfast.journal.secrecy import scrubbed
from holdfast.kernel.pen import Halt
from holdfast.kernel.program import Ending, Raised, Returned, Scribe, Stopped, Waiting, Yielded
from holdfast.programs.definition.compiler.compiler import load
from holdfast.programs.definition.interpreter.context import ExecutionContext
from holdfast.programs.definition.interpreter.frames import Visit
from holdfast.programs.definition.interpreter.interpreter import Interpreter
from holdfast.programs.definition.interpreter.outcomes import Erred, Finished, Succeeded
from holdfast.programs.definition.interpreter.routine import Routine
from holdfast.programs.definition.interpreter.snapshot import (
    load_snapshot,
    read_snapshot,
    snapshot_of,
    write_snapshot,
)
from holdfast.programs.definition.interpreter.verbs import BEHAVIOURS
from holdfast.programs.definition.migration.plan import MovePlan, plan_move, plan_start
from holdfast.programs.definition.migration.revision import Revision, RoutineLoader, read_revision
from holdfast.programs.definition.model import WaitVerb
from holdfast.programs.function.values import encode
from holdfast.runs.birth import CHILD_MARK, id_in
from holdfast.tasks.forms import problems

LISTED: Final = 16
"""A wait for more than this lists nothing. Each resumption writes the list anew, so it must not grow with the run."""

_SINGLE: Final = e.Single()
_ANY: Final = e.Any()
_OPEN: Final = Waiting((), e.Open())


class DefinitionProgram:
    """One run of one definition."""

    def __init__(
        self,
        routine: Routine,
        loader: RoutineLoader | None = None,
        make: type[Interpreter] = Interpreter,
    ) -> None:
        self.routine = routine
        self._make = make
        self.names: Mapping[str, str | None] = {}  # a definition's references were resolved when it was accepted
        self.revisions: list[Revision] = []
        self._loader = loader or (lambda data, digest: Routine(load(data), digest, routine.tools))
        self._code: bytes | None = None  # of the version that it has moved to
        self._engine: Interpreter | None = None
        self._started: e.ExecutionStarted
        self._misfit: Failure | None = None
        self._halted = False  # its code and its journal disagree, which the kernel raises

    # -- the kernel's side ---------------------------------------------------------------------------------------------

    def start(self, scribe: Scribe, started: e.ExecutionStarted) -> None:
        engine = self._engine = self._made(scribe, started)
        self._misfit = _misfit(self.routine, engine.context.start)
        if self._misfit is None:
            engine.begin()

    def settle(self, promise_id: PromiseId, outcome: Outcome | None) -> None:
        engine = self._running()
        engine.settle(promise_id, outcome)
        self._go(engine)

    def cancel(self, reason: str) -> None:
        engine = self._running()
        engine.cancel()
        self._go(engine)

    def revise(self, payload: Payload) -> None:
        """Go on with another version of the definition. Where the run cannot move, it stays with its own."""
        engine, asked = self._running(), read_revision(payload)
        routine = self._loader(asked.canonical, asked.digest)
        given, edition = _given(self._started), engine.context.edition
        plan = plan_start(routine, given, edition) if engine.is_fresh else self.plan_move(routine)
        version = self.routine.definition.version
        self.revisions.append(Revision(version, routine.definition.version, asked.digest, plan.reasons))
        if plan.verdict == "blocked":
            return
        self.routine, self._code = routine, asked.canonical
        moved = self._engine = self._made(engine.scribe, self._started)
        if plan.snapshot is None:
            moved.begin()
            return
        read_snapshot(moved, engine.scribe.run, plan.snapshot)
        moved.secrets |= engine.secrets
        for promise in engine.waiting:
            if promise not in moved.waiting:
                engine.scribe.abandon(promise)

    def plan_move(self, routine: Routine) -> MovePlan:
        """What would become of the run with another version of its definition."""
        engine = self._running()
        return plan_move(self.routine, routine, snapshot_of(engine), engine.context.edition)

    def run(self) -> Yielded:
        engine = self._running()
        if self._misfit is not None:
            return Raised(self._misfit)
        self._go(engine)
        if self._halted:
            return Stopped()
        if engine.is_over:
            return self._ending(engine)
        return self._waiting(engine)

    def waiting_on(self) -> tuple[PromiseId, ...]:
        return tuple(self._running().waiting)

    def clock_of(self, promise_id: PromiseId) -> PromiseId | None:
        """The time-out of the node that calls it. One that ends at a given time does not stand still."""
        waiting = {} if self._engine is None else self._engine.waiting
        what, visit = waiting.get(promise_id, ("", None))
        if what != "call" or not isinstance(visit, Visit) or visit.node.timeout is None:
            return None
        return None if visit.node.timeout.at is not None else visit.deadline

    def checkpoint(self) -> bytes | None:
        engine = self._engine
        return None if engine is None or self._misfit is not None else write_snapshot(engine, self._revised())

    def restore(self, scribe: Scribe, started: e.ExecutionStarted, checkpoint: bytes) -> None:
        found = load_snapshot(checkpoint)
        if "code" in found:  # it has moved to another version since it began
            self._code = found["code"]
            self.routine = self._loader(found["code"], found["digest"])
        self.revisions = [msgspec.convert(each, Revision) for each in found.get("revisions", ())]
        engine = self._engine = self._made(scribe, started)
        read_snapshot(engine, scribe.run, found)

    def close(self) -> None:
        self._engine = None

    # -- what can be seen of it ----------------------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, Any]:
        """The business state; empty before the first turn."""
        return {} if self._engine is None else dict(self._engine.scope.state)

    @property
    def reference(self) -> str | None:
        """The business reference; None before its first turn."""
        return None if self._engine is None else self._engine.scope.reference

    @property
    def needs(self) -> tuple[str, ...]:
        """The steps and actions that a worker needs for it."""
        uses = self.routine.definition.uses
        return (*uses.steps, *uses.actions)

    @property
    def has_begun(self) -> bool:
        """Whether it was started. A run whose first turn was never kept was not."""
        return self._engine is not None

    @property
    def interpreter(self) -> Interpreter:
        """Where it stands."""
        return self._running()

    def _revised(self) -> dict[str, Any]:
        if not self.revisions:
            return {}
        revised: dict[str, Any] = {"revisions": [msgspec.to_builtins(each) for each in self.revisions]}
        return revised if self._code is None else revised | {"code": self._code}

    def _go(self, engine: Interpreter) -> None:
        """Go on until everything waits. Where the journal disagrees, the kernel says so once it has stopped."""
        if self._halted:
            return
        try:
            engine.go()
        except Halt:
            self._halted = True

    # -- waiting and ending --------------------------------------------------------------------------------------------

    def _made(self, scribe: Scribe, started: e.ExecutionStarted) -> Interpreter:
        self._started = started
        tenant = started.idempotency_key.partition(CHILD_MARK)[0]
        id, edition = id_in(started.idempotency_key), started.edition
        start = self.routine.fit_start(_given(started), edition)
        context = ExecutionContext(self.routine, scribe, tenant, id, start, edition, started.inherited)
        engine = self._make(self.routine, BEHAVIOURS, scribe, context)
        engine.closer.bounds_cleanup = edition >= 2
        return engine

    def _waiting(self, engine: Interpreter) -> Waiting:
        waiting = engine.waiting
        if not waiting:
            raise EngineError("the definition waits for nothing")
        if len(waiting) > LISTED:
            return _OPEN
        if len(waiting) > 1:
            return Waiting(tuple(waiting), _ANY)
        promise, (what, place) = next(iter(waiting.items()))
        signal = _signal(what, place)
        return Waiting((promise,), _SINGLE if signal is None else e.Signal(signal, promise))

    def _ending(self, engine: Interpreter) -> Ending:
        outcome, failures = engine.outcome, engine.deeds.failures
        note = engine.closer.cleanup.note(self._started.idempotency_key)
        if isinstance(outcome, Succeeded | Finished):
            return Returned(encode(outcome.result if isinstance(outcome, Finished) else None, "the result"))
        if isinstance(outcome, Erred):
            failure = outcome.error.failure()
        elif not failures:
            return Stopped(note)
        else:
            failure = Failure("asyncio.exceptions:CancelledError", "")
        if failures:
            text = f"{failure.message or failure.type}; and not all of it could be undone: {'; '.join(failures)}"
            failure = Failure("holdfast.errors:StepFailed", text, failure.trace, failure.details)
        if note:
            failure = msgspec.structs.replace(
                failure, message=f"{failure.message}; {note}" if failure.message else note
            )
        return Raised(scrubbed(failure, engine.secrets))

    def _running(self) -> Interpreter:
        if self._engine is None:
            raise EngineError("the program is not running")
        return self._engine


def _given(started: e.ExecutionStarted) -> Any:
    """What the run was started with, as it was given."""
    positional, named = cbor2.loads(started.input.data)
    return positional[0] if positional else named


def _signal(what: str, place: Any) -> str | None:
    if what == "call" and isinstance(place.node.verb, WaitVerb):
        name: str = place.memo["signal"]
        return name
    return None


def _misfit(routine: Routine, start: Any) -> Failure | None:
    """What is wrong with the start payload."""
    schema = routine.definition.start
    found = problems(schema, start) if schema else []
    if not found:
        return None
    text = "; ".join(f"{place or '/'}: {problem}" for place, problem in found)
    return Failure("holdfast.errors:InvalidArguments", f"{routine.definition.name} cannot be started with this: {text}")
