"""A run without a worker: the kernel's ``Execution`` with a journal, a manual clock and arrivals made by position.

It makes no decisions: it keeps the kernel's events and requests, and makes arrivals from short calls such as
``ok(0, "value")``. ``rebuilt`` makes the same run from its journal alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from holdfast.journal import events as e
from holdfast.journal.payload import Err, Failure, Ok, Outcome, Payload
from holdfast.journal.promise import PromiseId
from holdfast.journal.status import Blocked
from holdfast.kernel.arrivals import Arrival, AttemptFailed, CallSettled, CancelArrived, SignalArrived
from holdfast.kernel.checkpoint import Checkpoint
from holdfast.kernel.execution import Execution, Turn
from holdfast.kernel.requests import Abandon, Invoke, Request
from holdfast.programs.function.decorators import Workflow
from holdfast.programs.function.failures import describe
from holdfast.programs.function.values import decode, encode

NOW = 1_700_000_000_000_000
SECOND = 1_000_000


class Run:
    """One run in memory."""

    def __init__(
        self,
        workflow: Workflow[..., Any],
        *args: object,
        seed: int = 0,
        key: str = "run",
        edition: int = e.EDITION,
        carried: Payload | None = None,
        **kwargs: object,
    ) -> None:
        self.workflow = workflow
        self.key = key
        self.id = PromiseId.of_run("digest", None, key)
        self.entropy = random.Random(seed)
        self.others_entropy = random.Random(99)
        self.now = NOW
        self.journal: list[e.Entry] = []
        self.invokes: dict[PromiseId, Invoke] = {}
        self.abandoned: list[PromiseId] = []
        self.stopped: list[PromiseId] = []
        input = workflow.signature.write(args, kwargs)
        started = e.ExecutionStarted("digest", input, None, key, edition, carried)
        self.execution = Execution.begin(self.id, workflow.program(), started, self.now, self.entropy)

    def rebuilt(self, entries: Iterable[e.Entry] | None = None, workflow: Workflow[..., Any] | None = None) -> Run:
        """The run made from its journal or from ``entries``, with its own code or with ``workflow``."""
        other = self._other(self.journal if entries is None else entries, workflow or self.workflow)
        program = other.workflow.program()
        other.execution = Execution.rebuild(other.id, program, other.journal, other.now, other.entropy)
        other._record(other.execution.outstanding())
        return other

    def restored(self, checkpoint: Checkpoint, entries: Iterable[e.Entry] | None = None) -> Run:
        """The run made from a checkpoint and the part of its journal, or of ``entries``, after it."""
        other = self._other(self.journal if entries is None else entries, self.workflow)
        program, tail = other.workflow.program(), other.journal[checkpoint.version :]
        other.execution = Execution.restore(other.id, program, checkpoint, tail, other.now, other.entropy)
        other._record(other.execution.outstanding())
        return other

    def _other(self, entries: Iterable[e.Entry], workflow: Workflow[..., Any]) -> Run:
        other = object.__new__(Run)
        other.workflow = workflow
        other.id, other.key, other.now = self.id, self.key, self.now
        other.entropy = self.others_entropy
        other.others_entropy = self.others_entropy
        other.journal = list(entries)
        other.abandoned = []
        other.stopped = []
        other.invokes = {}
        return other

    def advance(self, *arrivals: Arrival, after: float = 0.0, resume: bool = True, cancel_first: bool = False) -> Turn:
        """Let ``after`` seconds pass and take a turn."""
        self.now += round(after * SECOND)
        turn = self.execution.advance(arrivals, self.now, resume=resume, cancel_first=cancel_first)
        for stamp, event in turn.events:
            self.journal.append(e.Entry(len(self.journal), stamp, event))
        self._record(turn.requests)
        return turn

    def _record(self, requests: Iterable[Request]) -> None:
        for request in requests:
            if isinstance(request, Invoke):
                self.invokes[request.promise_id] = request
            elif isinstance(request, Abandon):
                self.invokes.pop(request.promise_id, None)
                self.abandoned.append(request.promise_id)
            else:
                self.stopped.append(request.promise_id)

    # -- arrivals by position --------------------------------------------------------------------------------------

    def promise(self, position: int) -> PromiseId:
        return self.id.child(position)

    def settled(self, position: int, outcome: Outcome, attempt: int | None = None) -> CallSettled:
        promise = self.promise(position)
        invoke = self.invokes.get(promise)
        number = attempt if attempt is not None else invoke.attempt if invoke is not None else 1
        return CallSettled(promise, outcome, number, self.now)

    def ok(self, position: int, value: object = None, attempt: int | None = None) -> CallSettled:
        return self.settled(position, Ok(encode(value)), attempt)

    def err(self, position: int, error: Exception, attempt: int | None = None) -> CallSettled:
        return self.settled(position, Err(describe(error)), attempt)

    def failed(
        self, position: int, message: str = "no", *, attempt: int | None = None, retry_after: float | None = None
    ) -> AttemptFailed:
        number = attempt if attempt is not None else self.invokes[self.promise(position)].attempt
        failure = Failure("builtins:ValueError", message)
        return AttemptFailed(self.promise(position), failure, number, self.now, retry_after)

    # -- the run's state -------------------------------------------------------------------------------------------

    @property
    def events(self) -> list[e.Event]:
        return [entry.event for entry in self.journal]

    @property
    def ended(self) -> bool:
        return self.execution.ended

    def names(self) -> list[str]:
        return [type(event).__name__ for event in self.events]

    def open_calls(self) -> list[str]:
        """The names of the invocations that were requested and are not settled, by position."""
        pending = {wait.position for wait in self.execution.waits()}
        return [invoke.function_name for promise, invoke in sorted(self.invokes.items()) if promise.path[-1] in pending]

    def result(self, kind: Any = Any) -> Any:
        """The run's result; fails the test if the run did not complete."""
        last = self.events[-1]
        assert isinstance(last, e.ExecutionCompleted), f"ended with {last!r}"
        return decode(last.result, kind)

    def failure(self) -> Failure:
        last = self.events[-1]
        assert isinstance(last, e.ExecutionFailed), f"ended with {last!r}"
        return last.error

    def waiting(self) -> tuple[str, tuple[int, ...]]:
        """The await's kind and positions."""
        status = self.execution.ledger.status
        assert isinstance(status, Blocked), status
        return type(status.kind).__name__.lower(), tuple(promise.path[-1] for promise in status.waiting_on)


def signal(name: str, value: object = None) -> SignalArrived:
    return SignalArrived(name, encode(value))


def cancel(reason: str = "enough") -> CancelArrived:
    return CancelArrived(reason)


def check_replay(run: Run) -> None:
    """The law of replay: a run that is rebuilt from its journal adds no events, and has the same status and waits."""
    other = run.rebuilt()
    turn = other.advance(resume=False)
    assert turn.events == []
    assert other.execution.ledger.status == run.execution.ledger.status
    assert _waits(other) == _waits(run)
    other.execution.program.close()


def _waits(run: Run) -> list[tuple[str, str, int, int]]:
    """What a run waits for. A retry whose time has come counts as due now, even if it was not requested yet."""
    return [(wait.kind, wait.name, wait.position, max(wait.due or 0, run.now)) for wait in run.execution.waits()]
