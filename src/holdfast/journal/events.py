"""The twenty events. A journal is a sequence of them, and the only truth about a run.

Five kinds: lifecycle, side effects (three phases under one promise id), nondeterminism, control flow, concurrency.
Names and fields are for ever; a new field comes last and has a default. Times are microseconds since 1970, UTC.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.journal.payload import Failure, Outcome, Payload, RetryPolicy
from holdfast.journal.promise import JoinSetId, PromiseId


class Single(msgspec.Struct, frozen=True, gc=False, tag="single"):
    """Waiting for one promise."""


class Any(msgspec.Struct, frozen=True, gc=False, tag="any"):
    """Waiting for the first of several."""


class All(msgspec.Struct, frozen=True, gc=False, tag="all"):
    """Waiting for every one of several."""


class Signal(msgspec.Struct, frozen=True, gc=False, tag="signal"):
    """Waiting for a signal of this name to settle this promise."""

    name: str
    promise_id: PromiseId


class Open(msgspec.Struct, frozen=True, gc=False, tag="open"):
    """Waiting for the first of all open promises, without a list of them: such a list, written again at each
    resumption, would make the journal grow with the square of their number."""


AwaitKind = Single | Any | All | Signal | Open

EDITION: Final = 2
"""The present edition of the rules by which programs run. A run keeps the edition that it began with, so a change of
these rules never changes the meaning of an older journal.

- Edition 0: a success was compensated only if a task of the program had got its value, compensation could be cancelled,
  and a call that nobody awaited went unnoticed.
- Edition 1: a function that ended called off what was under way, so an act could be done and never undone. It undid
  what it had done before its children had ended. One call object could be begun twice.
"""

InvokeKind = str
"""The kind of an invocation: ``step``, ``workflow``, ``detached``, ``signal``. Data: a new kind needs no event."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """The base of the twenty; never an event itself."""


class Inherited(msgspec.Struct, frozen=True, gc=False):
    """A part of a fork's journal, up to the sequence ``until``, is that of another run: its key and its root."""

    until: int
    key: str
    root: bytes


class ExecutionStarted(Event, frozen=True, gc=False):
    """Always first. ``component_digest`` pins the code that was current then, ``edition`` the rules of programs.

    ``carried`` are the acts of earlier generations that this one must undo if it fails. ``inherited`` are the parts
    that a fork has from other runs, in order: there a program that asks for its own id gets theirs, as it did then.
    ``former`` are the calls that a retried run made in the part of its journal that was dropped; see ``former``.
    ``signals`` are those that earlier generations were sent and have not received, where they are many; see
    ``kernel.carried_signals``.
    """

    component_digest: str
    input: Payload
    parent_id: PromiseId | None
    idempotency_key: str
    edition: int = 0
    carried: Payload | None = None
    inherited: tuple[Inherited, ...] = ()
    former: Payload | None = None
    signals: Payload | None = None


class ExecutionCompleted(Event, frozen=True, gc=False):
    """The program returned."""

    result: Payload


class ExecutionFailed(Event, frozen=True, gc=False):
    """The program raised."""

    error: Failure


class CancelRequested(Event, frozen=True, gc=False):
    """Someone asked the run to stop; cleanup follows."""

    reason: str


class ExecutionCancelled(Event, frozen=True, gc=False):
    """Cleanup is over."""

    reason: str


class InvokeScheduled(Event, frozen=True, gc=False):
    """The intent of a side effect, durable before the effect begins. A compensation names the promise it ``undoes``.

    ``again`` distinguishes the acts at one position, over the retries of its run: the key of the call ends in it. An
    act that is tried once more at another position keeps its key, which has the position that was its ``place``.
    """

    promise_id: PromiseId
    kind: InvokeKind
    function_name: str
    input: Payload
    retry_policy: RetryPolicy
    undoes: PromiseId | None = None
    again: int = 0
    place: int | None = None

    @property
    def key_place(self) -> int:
        """The position that its key has."""
        return self.promise_id.path[-1] if self.place is None else self.place


class InvokeStarted(Event, frozen=True, gc=False):
    """An attempt began. With ``begun_before`` a lost worker may have begun it already."""

    promise_id: PromiseId
    attempt: int
    begun_before: bool = False


class InvokeCompleted(Event, frozen=True, gc=False):
    """The invocation is settled, for good. Every replay sees this result."""

    promise_id: PromiseId
    result: Outcome
    attempt: int


class InvokeRetrying(Event, frozen=True, gc=False):
    """An attempt failed and another follows at ``retry_at``."""

    promise_id: PromiseId
    failed_attempt: int
    error: Failure
    retry_at: int


class RandomGenerated(Event, frozen=True, gc=False):
    """Entropy that the program saw."""

    promise_id: PromiseId
    value: bytes


class TimeRecorded(Event, frozen=True, gc=False):
    """The time that the program saw."""

    promise_id: PromiseId
    time: int


class TimerScheduled(Event, frozen=True, gc=False):
    """A timer to fire ``duration`` microseconds later."""

    promise_id: PromiseId
    duration: int
    fire_at: int


class TimerFired(Event, frozen=True, gc=False):
    """The timer's time has come."""

    promise_id: PromiseId


REVISION: Final = "holdfast:revision"
"""The signal by which the code of a run is replaced while it is under way. The kernel receives it for the program."""


LEAVE_CHILDREN: Final = "holdfast:leave-children"
"""The signal that ends a run's wait for the children that it has asked to stop. The program receives it."""

RETRY: Final = "holdfast:retry"
"""The signal with what a person says about the kept results of a retried run. It is never received: it stands."""


class SignalDelivered(Event, frozen=True, gc=False):
    """A signal arrived and is buffered. Ids count 1, 2, 3, … per name."""

    signal_name: str
    payload: Payload
    delivery_id: int


class SignalReceived(Event, frozen=True, gc=False):
    """The program consumed the oldest buffered signal of that name."""

    promise_id: PromiseId
    signal_name: str
    payload: Payload
    delivery_id: int


class ExecutionAwaiting(Event, frozen=True, gc=False):
    """The turn is over: nothing moves until the wait is satisfied.

    ``receives`` names the receives that began to wait in this turn, where the kind does not.
    """

    waiting_on: tuple[PromiseId, ...]
    kind: AwaitKind
    receives: tuple[Signal, ...] = ()


class ExecutionResumed(Event, frozen=True, gc=False):
    """The wait is satisfied. The promises settled since then are delivered now, in journal order."""


class JoinSetCreated(Event, frozen=True, gc=False):
    """A set of concurrent invocations; it takes a child position."""

    join_set_id: JoinSetId


class JoinSetSubmitted(Event, frozen=True, gc=False):
    """The promise belongs to the set from here on."""

    join_set_id: JoinSetId
    promise_id: PromiseId


class JoinSetAwaited(Event, frozen=True, gc=False):
    """The program consumed this member's result here: a marker for replay, not a transition."""

    join_set_id: JoinSetId
    promise_id: PromiseId
    result: Outcome


TERMINAL = (ExecutionCompleted, ExecutionFailed, ExecutionCancelled)

EVENTS: tuple[type[Event], ...] = (
    ExecutionStarted,
    ExecutionCompleted,
    ExecutionFailed,
    CancelRequested,
    ExecutionCancelled,
    InvokeScheduled,
    InvokeStarted,
    InvokeCompleted,
    InvokeRetrying,
    RandomGenerated,
    TimeRecorded,
    TimerScheduled,
    TimerFired,
    SignalDelivered,
    SignalReceived,
    ExecutionAwaiting,
    ExecutionResumed,
    JoinSetCreated,
    JoinSetSubmitted,
    JoinSetAwaited,
)


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One line of a journal. Replay never reads the timestamp."""

    sequence: int
    timestamp: int
    event: Event
