"""The laws of the journal, and the ledger that holds a growing journal to them.

Everything that decides whether an event may be appended lives here. A ledger is a fold: it sees each event once,
keeps what later events are judged by, and refuses one that breaks a law by that law's id. The worker appends through
it, ``verify`` re-reads through it, and ``holdfast journal check`` judges model traces through it: one judge for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from holdfast.errors import LawBroken
from holdfast.journal import events as e
from holdfast.journal.payload import Outcome, Payload
from holdfast.journal.promise import JoinSetId, PromiseId
from holdfast.journal.status import (
    CHANGING,
    RUNNING,
    Blocked,
    Cancelling,
    Running,
    Status,
    after,
    satisfied,
)

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
    "K-5": "a run resumes only when blocked and its wait is satisfied",
    "K-6": "a program issues commands only while Running or Cancelling",
    "K-7": "what a call undoes has completed, and is undone once",
}
"""Every law by id. S, SE, CF, JS and INV are the model's; K are the kernel's own, judged in its own journals only."""

MODEL_RETRY_BOUND: Final = 3

_COMMANDING: Final = frozenset({Running, Cancelling})
"""While in these, a program issues commands. Compared by exact type: msgspec's types answer isinstance slowly."""


class _Invocation(msgspec.Struct, gc=False):
    """What later events about one invocation are judged by."""

    most_retries: int
    attempt: int = 0
    completed: bool = False
    retries: int = 0
    attempts: set[int] | None = None
    result: Outcome | None = None
    owner: JoinSetId | None = None


_DONE: Final = _Invocation(0, attempt=1, completed=True)
"""Stands for every completed invocation that no join set owns, so that a long run stays small in memory."""


class _Signals:
    """The deliveries of one signal name, each with the version that it came at; up to ``consumed`` they are received.

    A model may number its deliveries as it likes, so of its signals all is kept: ``arrived`` in order, and ``taken``.
    """

    __slots__ = ("arrived", "consumed", "delivered", "taken")

    def __init__(self) -> None:
        self.delivered: dict[int, tuple[Payload, int]] = {}
        self.consumed = 0
        self.arrived: list[tuple[int, Payload]] = []
        self.taken: list[int] = []


class _JoinSet:
    __slots__ = ("awaited", "consumed", "members", "submitted")

    def __init__(self) -> None:
        self.members: set[PromiseId] = set()
        self.submitted = 0
        self.consumed: set[PromiseId] = set()
        self.awaited = 0


class Ledger:
    """A journal's fold. ``strict`` judges the kernel's own laws too; a model trace is judged without them."""

    __slots__ = (
        "_edition",
        "_fired",
        "_fires",
        "_join_sets",
        "_owned",
        "_receives",
        "_retry_bound",
        "_signals",
        "_undone",
        "_unseen",
        "cancel_requested",
        "ended",
        "invocations",
        "next_child",
        "resolved",
        "root",
        "status",
        "strict",
        "version",
    )

    def __init__(self, root: PromiseId, *, strict: bool = True, retry_bound: int | None = None) -> None:
        self.root = root
        self.strict = strict
        self.version = 0
        self.status: Status = RUNNING
        self.ended = False
        self.cancel_requested = False
        self.next_child = 0
        self.invocations: dict[PromiseId, _Invocation] = {}
        self.resolved: set[PromiseId] = set()
        self._edition = 0
        self._retry_bound = retry_bound
        self._fires: dict[PromiseId, int] = {}
        self._fired: set[PromiseId] = set()
        self._signals: dict[str, _Signals] = {}
        self._join_sets: dict[JoinSetId, _JoinSet] = {}
        self._owned: dict[PromiseId, JoinSetId] = {}
        self._receives: set[PromiseId] = set()
        self._undone: set[PromiseId] = set()
        self._unseen = False  # whether a promise was resolved since the program last ran

    def append(self, event: e.Event, timestamp: int, sequence: int | None = None) -> None:
        """Judge the event and fold it in. Raises LawBroken, and then the ledger is as it was."""
        if sequence is not None and sequence != self.version:
            raise LawBroken("S-1", f"sequence {sequence} at position {self.version}")
        kind = type(event)
        if self.version == 0:
            if kind is not e.ExecutionStarted:
                raise LawBroken("S-2", f"the journal begins with {kind.__name__}")
        elif self.ended:
            law = "S-3" if kind in e.TERMINAL else "S-4"
            raise LawBroken(law, f"{kind.__name__} after the execution ended")
        judge = _JUDGES.get(kind)
        if judge is not None:
            judge(self, event, timestamp)
        if kind in CHANGING:
            self.status = after(self.status, event)
        self.version += 1

    def extend(self, entries: Iterable[e.Entry]) -> None:
        """Append a stretch of journal."""
        for entry in entries:
            self.append(entry.event, entry.timestamp, entry.sequence)

    def is_satisfied(self) -> bool:
        """Whether the run is blocked and its wait is over."""
        status = self.status
        if type(status) is not Blocked:
            return False
        if len(status.waiting_on) == 1:  # of whatever kind
            return status.waiting_on[0] in self.resolved
        return satisfied(status, self.resolved, self._unseen)

    def next_delivery(self, name: str) -> int:
        """The id that the next delivery of this signal takes."""
        signals = self._signals.get(name)
        return 1 if signals is None else len(signals.delivered) + signals.consumed + 1

    def oldest_unconsumed(self, name: str) -> tuple[int, Payload] | None:
        """The buffered signal that the next receive of this name consumes."""
        signals = self._signals.get(name)
        if signals is None or not signals.delivered:
            return None
        delivery = signals.consumed + 1
        return delivery, signals.delivered[delivery][0]

    def buffered(self, names: Iterable[str]) -> list[str]:
        """The names of these signals' buffered deliveries, in the order in which they came."""
        known = {name: self._signals[name] for name in names if name in self._signals}
        came = [(at, name) for name, signals in known.items() for _, at in signals.delivered.values()]
        return [name for _, name in sorted(came)]

    def unconsumed(self) -> list[tuple[str, Payload]]:
        """Every buffered signal, in order per name: what a next generation inherits."""
        return [
            (name, payload)
            for name, signals in self._signals.items()
            for _, (payload, _) in sorted(signals.delivered.items())
        ]

    def _is_child(self, promise: PromiseId) -> bool:
        return promise.root == self.root.root and bool(promise.path) and promise.path[:-1] == self.root.path

    def _allocate(self, promise: PromiseId) -> None:
        if not self.strict:
            return
        # A receive that was given up before its turn ended leaves a gap, so positions rise and need not touch.
        position = promise.path[-1] if promise.path else -1
        if position < self.next_child or not self._is_child(promise):
            raise LawBroken("K-1", f"{promise} is not a new child at position {self.next_child} or later")
        if type(self.status) not in _COMMANDING:
            raise LawBroken("K-6", f"a command at {promise} while {type(self.status).__name__}")
        self.next_child = position + 1

    def _begun(self, event: e.ExecutionStarted, timestamp: int) -> None:
        self._edition = event.edition

    def _may_end(self, event: e.Event) -> None:
        if type(self.status) not in _COMMANDING:
            raise LawBroken("S-6", f"{type(event).__name__} while {type(self.status).__name__}")
        self.ended = True

    def _completed(self, event: e.ExecutionCompleted | e.ExecutionFailed, timestamp: int) -> None:
        self._may_end(event)

    def _cancelled(self, event: e.ExecutionCancelled, timestamp: int) -> None:
        if not self.cancel_requested:
            raise LawBroken("S-5", "cancelled without a request")
        self.ended = True

    def _cancel_requested(self, event: e.CancelRequested, timestamp: int) -> None:
        if not isinstance(self.status, (Running, Blocked)):
            raise LawBroken("S-7", f"a cancel request while {type(self.status).__name__}")
        self.cancel_requested = True

    def _scheduled(self, event: e.InvokeScheduled, timestamp: int) -> None:
        if event.undoes is not None:
            self._check_undo(event.undoes)
        self._allocate(event.promise_id)
        if event.undoes is not None:
            self._undone.add(event.undoes)
        bound = self._retry_bound
        most = event.retry_policy.max_attempts - 1 if bound is None else bound
        # A model may schedule a promise twice; what is known of it stays, else it could be completed twice.
        if event.promise_id not in self.invocations:
            self.invocations[event.promise_id] = _Invocation(most)

    def _check_undo(self, promise: PromiseId) -> None:
        """A call that compensates. What an earlier generation did has another root: its journal knows of it."""
        invocation = self.invocations.get(promise)
        if promise.root == self.root.root and (invocation is None or not invocation.completed):
            raise LawBroken("K-7", f"{promise} is to be undone and has not completed")
        if promise in self._undone:
            raise LawBroken("K-7", f"{promise} is undone twice")

    def _started(self, event: e.InvokeStarted, timestamp: int) -> None:
        invocation = self.invocations.get(event.promise_id)
        if invocation is None:
            raise LawBroken("SE-1", f"{event.promise_id} was started and never scheduled")
        if invocation.completed:
            raise LawBroken("SE-4", f"{event.promise_id} was started after it completed")
        if self.strict:
            if event.attempt != invocation.attempt + 1:
                raise LawBroken("K-2", f"attempt {event.attempt} of {event.promise_id} after {invocation.attempt}")
            invocation.attempt = event.attempt
        else:
            invocation.attempts = (invocation.attempts or set()) | {event.attempt}
            invocation.attempt = 1  # Any number, 0 too, counts as started.

    def _invoke_completed(self, event: e.InvokeCompleted, timestamp: int) -> None:
        invocation = self.invocations.get(event.promise_id)
        if invocation is None or not invocation.attempt:
            raise LawBroken("SE-2", f"{event.promise_id} completed and never started")
        if invocation.completed:
            raise LawBroken("SE-4", f"{event.promise_id} completed twice")
        if self.strict and event.attempt != invocation.attempt:
            raise LawBroken("K-2", f"attempt {event.attempt} of {event.promise_id} completed, not {invocation.attempt}")
        if self.strict and invocation.owner is None:
            self.invocations[event.promise_id] = _DONE
        else:
            invocation.completed = True
            invocation.result = event.result
        self.resolved.add(event.promise_id)
        self._unseen = True

    def _retrying(self, event: e.InvokeRetrying, timestamp: int) -> None:
        invocation = self.invocations.get(event.promise_id)
        started = invocation is not None and self._was_started(invocation, event.failed_attempt)
        if invocation is not None and invocation.completed and (self.strict or started):
            raise LawBroken("SE-4", f"{event.promise_id} was retried after it completed")
        if invocation is None or not started:
            raise LawBroken("SE-3", f"attempt {event.failed_attempt} of {event.promise_id} failed and never started")
        if invocation.retries >= invocation.most_retries:
            raise LawBroken("SE-5", f"{event.promise_id} was retried more than {invocation.most_retries} times")
        invocation.retries += 1

    def _was_started(self, invocation: _Invocation, attempt: int) -> bool:
        if self.strict:
            return attempt == invocation.attempt > 0
        return invocation.attempts is not None and attempt in invocation.attempts

    def _value(self, event: e.RandomGenerated | e.TimeRecorded, timestamp: int) -> None:
        self._allocate(event.promise_id)

    def _timer_scheduled(self, event: e.TimerScheduled, timestamp: int) -> None:
        self._allocate(event.promise_id)
        self._fires[event.promise_id] = min(event.fire_at, self._fires.get(event.promise_id, event.fire_at))

    def _timer_fired(self, event: e.TimerFired, timestamp: int) -> None:
        fire_at = self._fires.get(event.promise_id)
        if fire_at is None or event.promise_id in self._fired:
            raise LawBroken("CF-1", f"{event.promise_id} fired and is no scheduled timer, or fired before")
        if timestamp < fire_at:
            raise LawBroken("CF-1", f"{event.promise_id} fired at {timestamp}, before {fire_at}")
        if self.strict:
            del self._fires[event.promise_id]
        else:
            self._fired.add(event.promise_id)
        self.resolved.add(event.promise_id)
        self._unseen = True

    def _delivered(self, event: e.SignalDelivered, timestamp: int) -> None:
        if self.strict and event.delivery_id != self.next_delivery(event.signal_name):
            raise LawBroken("K-3", f"delivery {event.delivery_id} of {event.signal_name!r} is out of turn")
        signals = self._signals.setdefault(event.signal_name, _Signals())
        if self.strict:
            signals.delivered[event.delivery_id] = (event.payload, self.version)
        else:
            signals.arrived.append((event.delivery_id, event.payload))

    def _received(self, event: e.SignalReceived, timestamp: int) -> None:
        signals = self._signals.get(event.signal_name)
        name = f"delivery {event.delivery_id} of {event.signal_name!r}"
        if not self.strict:
            self._received_in_order(event, signals or _Signals(), name)
            return
        if signals is not None and 0 < event.delivery_id <= signals.consumed:
            raise LawBroken("CF-3", f"{name} was consumed before")
        if signals is None or signals.delivered.get(event.delivery_id, (None,))[0] != event.payload:
            raise LawBroken("CF-2", f"{name} with that payload was never delivered")
        if event.delivery_id != signals.consumed + 1:
            raise LawBroken("CF-3", f"{name} was consumed before an older one")
        # A run that was cancelled while it was paused still receives what it had begun to wait for.
        if type(self.status) in _COMMANDING and event.promise_id not in self._receives:
            self._allocate(event.promise_id)
        else:
            self._unseen = True
        self._receives.discard(event.promise_id)
        del signals.delivered[event.delivery_id]
        signals.consumed = event.delivery_id
        self.resolved.add(event.promise_id)

    def _received_in_order(self, event: e.SignalReceived, signals: _Signals, name: str) -> None:
        if (event.delivery_id, event.payload) not in signals.arrived:
            raise LawBroken("CF-2", f"{name} with that payload was never delivered")
        if event.delivery_id in signals.taken:
            raise LawBroken("CF-3", f"{name} was consumed before")
        if signals.arrived[len(signals.taken)][0] != event.delivery_id:
            raise LawBroken("CF-3", f"{name} was consumed before an older one")
        signals.taken.append(event.delivery_id)
        self.resolved.add(event.promise_id)

    def _awaiting(self, event: e.ExecutionAwaiting, timestamp: int) -> None:
        kind = event.kind
        if type(kind) is e.Signal and event.waiting_on != (kind.promise_id,):
            raise LawBroken("CF-4", f"the await of signal {kind.name!r} waits on something else than its promise")
        if not self.strict:
            return
        if type(self.status) not in _COMMANDING:
            raise LawBroken("K-6", f"an await while {type(self.status).__name__}")
        if self._edition and type(self.status) is Cancelling:  # with the cancellation the program saw all there was
            self._unseen = False
        # A receive takes its position when it begins to wait; the await is the first event that names it.
        promises = event.waiting_on
        if event.receives:
            promises += tuple(receive.promise_id for receive in event.receives if receive.promise_id not in promises)
        for promise in promises if len(promises) == 1 else sorted(promises):
            if not self._is_child(promise) or promise.path[-1] >= self.next_child:
                self._allocate(promise)
            if not (promise in self.invocations or promise in self._fires or promise in self.resolved):
                self._receives.add(promise)

    def _resumed(self, event: e.ExecutionResumed, timestamp: int) -> None:
        if self.strict and not self.is_satisfied():
            raise LawBroken("K-5", "resumed while nothing that it waits for has happened")
        self._unseen = False

    def _join_set_created(self, event: e.JoinSetCreated, timestamp: int) -> None:
        self._allocate(event.join_set_id.position)
        self._join_sets.setdefault(event.join_set_id, _JoinSet())

    def _submitted(self, event: e.JoinSetSubmitted, timestamp: int) -> None:
        members = self._join_sets.get(event.join_set_id)
        if members is None:
            raise LawBroken("JS-1", f"{event.join_set_id} was submitted to and never created")
        if members.awaited:
            raise LawBroken("JS-2", f"{event.join_set_id} was submitted to after it was awaited")
        if self._owned.setdefault(event.promise_id, event.join_set_id) != event.join_set_id:
            raise LawBroken("JS-7", f"{event.promise_id} belongs to {self._owned[event.promise_id]}")
        members.members.add(event.promise_id)
        members.submitted += 1
        invocation = self.invocations.get(event.promise_id)
        if invocation is not None and not invocation.completed:
            invocation.owner = event.join_set_id

    def _awaited(self, event: e.JoinSetAwaited, timestamp: int) -> None:
        members = self._join_sets.get(event.join_set_id)
        promise = event.promise_id
        if members is None or promise not in members.members:
            raise LawBroken("JS-3", f"{promise} is no member of {event.join_set_id}")
        invocation = self.invocations.get(promise)
        if invocation is None or not invocation.completed:
            raise LawBroken("JS-4", f"{promise} was awaited before it completed")
        if members.awaited >= members.submitted:
            raise LawBroken("JS-6", f"{event.join_set_id} was awaited more often than submitted to")
        if promise in members.consumed:
            raise LawBroken("JS-5", f"{promise} was consumed before")
        if self.strict and invocation.result != event.result:
            raise LawBroken("K-4", f"the result recorded for {promise} is not the one that completed it")
        members.consumed.add(promise)
        members.awaited += 1
        invocation.result = None


_JUDGES: Final[dict[type[e.Event], Callable[..., None]]] = {
    e.ExecutionStarted: Ledger._begun,
    e.ExecutionCompleted: Ledger._completed,
    e.ExecutionFailed: Ledger._completed,
    e.ExecutionCancelled: Ledger._cancelled,
    e.CancelRequested: Ledger._cancel_requested,
    e.InvokeScheduled: Ledger._scheduled,
    e.InvokeStarted: Ledger._started,
    e.InvokeCompleted: Ledger._invoke_completed,
    e.InvokeRetrying: Ledger._retrying,
    e.RandomGenerated: Ledger._value,
    e.TimeRecorded: Ledger._value,
    e.TimerScheduled: Ledger._timer_scheduled,
    e.TimerFired: Ledger._timer_fired,
    e.SignalDelivered: Ledger._delivered,
    e.SignalReceived: Ledger._received,
    e.ExecutionAwaiting: Ledger._awaiting,
    e.ExecutionResumed: Ledger._resumed,
    e.JoinSetCreated: Ledger._join_set_created,
    e.JoinSetSubmitted: Ledger._submitted,
    e.JoinSetAwaited: Ledger._awaited,
}
