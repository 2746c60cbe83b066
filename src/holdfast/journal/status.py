"""The status of an execution: a fold over its journal. Exactly seven event types change it."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import assert_never

import msgspec

from holdfast.journal.events import (
    All,
    Any,
    AwaitKind,
    CancelRequested,
    Event,
    ExecutionAwaiting,
    ExecutionCancelled,
    ExecutionCompleted,
    ExecutionFailed,
    ExecutionResumed,
    ExecutionStarted,
    Open,
    Signal,
    Single,
)
from holdfast.journal.positions import Positions
from holdfast.journal.promise import PromiseId


class Running(msgspec.Struct, frozen=True, gc=False):
    """The program is being advanced."""


class Blocked(msgspec.Struct, frozen=True, gc=False):
    """The program waits."""

    waiting_on: tuple[PromiseId, ...]
    kind: AwaitKind


class Cancelling(msgspec.Struct, frozen=True, gc=False):
    """A cancellation was requested; cleanup is next."""


class Completed(msgspec.Struct, frozen=True, gc=False):
    """Ended with a result."""


class Failed(msgspec.Struct, frozen=True, gc=False):
    """Ended with an error."""


class Cancelled(msgspec.Struct, frozen=True, gc=False):
    """Ended by cancellation."""


Status = Running | Blocked | Cancelling | Completed | Failed | Cancelled

RUNNING = Running()

_AFTER: dict[type[Event], Status] = {
    ExecutionStarted: RUNNING,
    ExecutionResumed: RUNNING,
    CancelRequested: Cancelling(),
    ExecutionCompleted: Completed(),
    ExecutionFailed: Failed(),
    ExecutionCancelled: Cancelled(),
}

CHANGING: frozenset[type[Event]] = frozenset({*_AFTER, ExecutionAwaiting})


def after(status: Status, event: Event) -> Status:
    """The status once the event is appended."""
    if type(event) is ExecutionAwaiting:
        return Blocked(event.waiting_on, event.kind)
    return _AFTER.get(type(event), status)


def fold(events: Iterable[Event]) -> Status:
    """The status of a whole journal."""
    status: Status = RUNNING
    for event in events:
        status = after(status, event)
    return status


def satisfied(blocked: Blocked, resolved: Container[PromiseId] | Positions, unseen: bool = False) -> bool:
    """Whether the wait is over, given the resolved promises (by completion, firing or receipt).

    ``unseen`` is whether one of them was resolved since the program last ran.
    """
    match blocked.kind:
        case Single() | All():
            return all(promise in resolved for promise in blocked.waiting_on)
        case Any():
            return any(promise in resolved for promise in blocked.waiting_on)
        case Signal(promise_id=promise):
            return promise in resolved
        case Open():
            return unseen
        case _ as never:
            assert_never(never)
