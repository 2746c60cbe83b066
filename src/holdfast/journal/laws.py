"""The laws of the journal, each by its id. ``ledger`` enforces them."""

from __future__ import annotations

from typing import Final

LAWS: Final[dict[str, str]] = {
    "S-1": "sequence numbers are 0, 1, 2, …",
    "S-2": "the first event is ExecutionStarted",
    "S-3": "at most one terminal event",
    "S-4": "a terminal event is the last",
    "S-5": "ExecutionCancelled needs a CancelRequested before it",
    "S-6": "a run completes or fails only while Running or Cancelling",
    "S-7": "a cancellation is requested only while Running or Blocked",
    "SE-1": "InvokeStarted needs InvokeScheduled",
    "SE-2": "InvokeCompleted needs InvokeStarted",
    "SE-3": "InvokeRetrying needs InvokeStarted of that attempt",
    "SE-4": "nothing is started, retried or completed after InvokeCompleted",
    "SE-5": "retries are bounded by the recorded policy",
    "CF-1": "TimerFired needs TimerScheduled, happens once, and never before fire_at",
    "CF-2": "SignalReceived needs the SignalDelivered of that name, id and payload",
    "CF-3": "each delivery is consumed once, first in first out",
    "CF-4": "a signal await waits on exactly its promise",
    "JS-1": "JoinSetSubmitted needs JoinSetCreated",
    "JS-2": "nothing is submitted after the first JoinSetAwaited",
    "JS-3": "what is awaited is a member of the set",
    "JS-4": "what is awaited is completed",
    "JS-5": "no member is consumed twice",
    "JS-6": "no more is awaited than was submitted",
    "JS-7": "a promise has one owning set",
    "INV-4": "the stored status equals the fold of the journal",
    "INV-6": "promise ids are unique across executions",
    "K-1": "child ids in the journal follow from their position, and no position is used twice",
    "K-2": "attempts count 1, 2, 3, …",
    "K-3": "delivery ids count 1, 2, 3, … per name",
    "K-4": "a join set's recorded result is its promise's",
    "K-5": "a run resumes only when blocked and its wait is satisfied, or a revision of its code has come",
    "K-6": "a program issues commands only while Running or Cancelling",
    "K-7": "what a call undoes has completed, and is undone once",
}
"""Every law by id. S, SE, CF, JS and INV are the model's; K are the kernel's own, judged in its own journals only."""

MODEL_RETRY_BOUND: Final = 3
"""How often a promise is retried in the formal model, with any policy."""
