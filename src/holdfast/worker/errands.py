"""Errands: requests that a commit carries out itself. Its answer is the outcome of the promise that asked for it."""

from __future__ import annotations

from holdfast.errors import EngineError
from holdfast.journal.codec import decode_segment
from holdfast.journal.events import ExecutionStarted
from holdfast.journal.payload import Err, Failure, Ok, Outcome
from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import Settled
from holdfast.programs.function.values import encode
from holdfast.store import protocol as p
from holdfast.worker.turns import Errand


def outcome_of(errand: Errand, answer: p.Answer, now: int) -> Settled | None:
    """What the answer means to the promise; None where nothing waits for it.

    A call of a child waits for the child's end, not for this answer; but where the child cannot be, this is its end.
    """
    promise = errand.promise_id
    if promise is None and isinstance(answer, p.Retired) and isinstance(errand.change, p.Start):
        promise = _caller(errand.change)
    if promise is None:
        return None
    return Settled(promise, _outcome(errand, answer), 1, now)


def _caller(start: p.Start) -> PromiseId | None:
    """The promise that waits for a child, as the child's first event names it."""
    first = decode_segment(start.segment.events, PromiseId(start.root), start.segment.first)[0].event
    if not isinstance(first, ExecutionStarted):
        raise EngineError("the journal does not begin with ExecutionStarted")
    return first.parent_id


def _outcome(errand: Errand, answer: p.Answer) -> Outcome:
    match answer:
        case p.Delivered() | p.Repeated() | p.Started():
            return Ok(encode(errand.result))
        case p.Exists(fingerprint=fingerprint) if isinstance(errand.change, p.Start):
            if fingerprint == errand.change.fingerprint:
                return Ok(encode(errand.result))
            return _failed("RunConflict", f"the id {errand.change.key.run!r} belongs to another run: choose another id")
        case p.Retired() if isinstance(errand.change, p.Start):
            told = f"run id {errand.change.key.run!r} was used before, and its evidence is kept: choose another id."
            if errand.promise_id is None:  # nobody chose it: the run was retried long after its child had ended
                told = f"{errand.change.key.run!r} was run before and deleted: fork the run instead of retrying it."
            return _failed("RunConflict", told)
        case p.Unknown():
            return _failed("RunNotFound", "there is no such run")
        case p.Gone():
            return _failed("RunEnded", "the run has ended")
        case other:
            return _failed("EngineError", f"unexpected answer {other!r}")


def _failed(error: str, message: str) -> Err:
    return Err(Failure(f"holdfast.errors:{error}", message))
