"""Errands: what a commit carries out itself for a call. The store's answer may be the call's outcome."""

from __future__ import annotations

from holdfast.kernel.arrivals import CallSettled
from holdfast.runs.kinds.kind import Errand
from holdfast.store import protocol as p


def outcome_of(errand: Errand, answer: p.Answer, now: int) -> CallSettled | None:
    """What the answer means to the promise; None where something else settles it."""
    if errand.promise_id is None or errand.read is None:
        return None
    outcome = errand.read(answer)
    return None if outcome is None else CallSettled(errand.promise_id, outcome, errand.attempt, now)
