"""Errands: requests that a commit carries out itself. Its answer is the outcome of the promise that asked for it."""

from __future__ import annotations

from holdfast.journal.payload import Err, Failure, Ok, Outcome
from holdfast.kernel.arrivals import Settled
from holdfast.programs.function.values import encode
from holdfast.store import protocol as p
from holdfast.worker.turn_plan import Errand


def outcome_of(errand: Errand, answer: p.Answer, now: int) -> Settled | None:
    """What the answer means to the promise; None where nothing waits for it."""
    if errand.promise_id is None:
        return None
    return Settled(errand.promise_id, _outcome(errand, answer), 1, now)


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
            return _failed("RunRetired", told)
        case p.Unknown():
            return _failed("RunNotFound", "there is no such run")
        case p.Gone():
            return _failed("RunEnded", "the run has ended")
        case other:
            return _failed("EngineError", f"unexpected answer {other!r}")


def _failed(error: str, message: str) -> Err:
    return Err(Failure(f"holdfast.errors:{error}", message))
