"""The ledger that holds a growing journal to the laws.

Everything that decides whether an event may be appended lives here. A ledger is a fold: it sees each event once, keeps
the facts that later events are judged by, and refuses an event that breaks a law, with the id of that law. The worker
appends through it, ``verify`` re-reads through it, and ``holdfast journal check`` judges model traces through it.

Open promises are kept one by one, settled ones as intervals of positions. So the memory of a long run depends on what
is open. Nothing else is kept of a settled position: to start, retry or complete it again breaks SE-4.

Signals that the start carries from earlier generations count as delivered with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from holdfast.errors import EngineError, LawBroken
from holdfast.journal import events as e
from holdfast.journal.deliveries import CarriedDeliveries, Deliveries, Signals
from holdfast.journal.join_sets import JoinSets, JoinSetState
from holdfast.journal.payload import Outcome, Payload
from holdfast.journal.positions import Positions
from holdfast.journal.promise import PromiseId
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

_COMMANDING: Final = frozenset({Running, Cancelling})
"""While in these, a program issues commands. Compared by exact type: isinstance is slow for msgspec's types."""


class Invocation(msgspec.Struct, gc=False):
    """The facts that later events about one invocation are judged by."""

    most_retries: int
    attempt: int = 0
    completed: bool = False
    retries: int = 0
    attempts: set[int] | None = None
    result: Outcome | None = None


class Ledger:
    """A journal's fold. ``strict`` judges the kernel's own laws too; a model trace is judged without them.
    ``read_carried`` gives what the start carries.
    """

    __slots__ = (
        "_fired",
        "_reached",
        "_read_carried",
        "_retry_bound",
        "_wait_over",
        "cancel_requested",
        "edition",
        "ended",
        "invocations",
        "join_sets",
        "next_child",
        "receives",
        "resolved",
        "root",
        "signals",
        "status",
        "strict",
        "timers",
        "undone",
        "unseen",
        "version",
    )

    def __init__(
        self,
        root: PromiseId,
        *,
        strict: bool = True,
        retry_bound: int | None = None,
        read_carried: Callable[[Payload], CarriedDeliveries] | None = None,
    ) -> None:
        self.root = root
        self._read_carried = read_carried
        self.strict = strict
        self.version = 0
        self.status: Status = RUNNING
        self.ended = False
        self.cancel_requested = False
        self.next_child = 0
        self.invocations: dict[PromiseId, Invocation] = {}  # open, or its result not taken yet
        self.resolved = Positions(root)
        self.edition = 0
        self._retry_bound = retry_bound
        self.timers: dict[PromiseId, int] = {}
        self._fired: set[PromiseId] = set()
        self.signals = Signals()
        self.join_sets = JoinSets(self.resolved, strict=strict)
        self.receives: set[PromiseId] = set()
        self.undone = Positions(root)
        self._reached = 0  # in a wait for all: how many of its promises, from the first, are known to be resolved
        self._wait_over = False  # whether the present wait was found to be over; it stays so
        self.unseen = False  # whether a promise was resolved since the program last ran

    def append(self, event: e.Event, timestamp: int, sequence: int | None = None) -> None:
        """Judge the event and fold it in. Raises LawBroken, and leaves the ledger unchanged then."""
        if sequence is not None and sequence != self.version:
            raise LawBroken("S-1", f"sequence {sequence} at position {self.version}")
        kind = type(event)
        if self.ended or not self.version:
            self._check_ends(kind)
        _JUDGES[kind](self, event, timestamp)
        if kind in CHANGING:
            self.status = after(self.status, event)
        self.version += 1

    def _check_ends(self, kind: type[e.Event]) -> None:
        """The first event of a journal, or one after its end."""
        if self.version:
            law = "S-3" if kind in e.TERMINAL else "S-4"
            raise LawBroken(law, f"{kind.__name__} after the execution ended")
        if kind is not e.ExecutionStarted:
            raise LawBroken("S-2", f"the journal begins with {kind.__name__}")

    def extend(self, entries: Iterable[e.Entry]) -> None:
        """Append a stretch of journal."""
        for entry in entries:
            self.append(entry.event, entry.timestamp, entry.sequence)

    def is_satisfied(self) -> bool:
        """Whether the run is blocked and its wait is over. A revision of its code ends any wait."""
        status = self.status
        if type(status) is not Blocked:
            return False
        if self._wait_over:
            return True
        waiting_on = status.waiting_on
        if len(waiting_on) == 1:  # any kind
            self._wait_over = self._is_resolved(waiting_on[0])
        elif type(status.kind) is e.All:  # none is looked at twice: there may be thousands
            while self._reached < len(waiting_on) and waiting_on[self._reached] in self.resolved:
                self._reached += 1
            self._wait_over = self._reached == len(waiting_on)
        else:
            self._wait_over = satisfied(status, self.resolved, self.unseen)
        if not self._wait_over and (revisions := self.signals.get(e.REVISION)) is not None:
            self._wait_over = bool(revisions.buffered)
        return self._wait_over

    def _is_resolved(self, promise: PromiseId) -> bool:
        if promise == self.resolved.latest:  # nearly always, where it is
            return True
        invocation = self.invocations.get(promise)  # nearly always, where it is not
        return promise in self.resolved if invocation is None else invocation.completed

    def next_delivery(self, name: str) -> int:
        """The id that the next delivery of this signal takes."""
        return self.signals.next_id(name)

    def oldest_unconsumed(self, name: str) -> tuple[int, Payload] | None:
        """The buffered signal that the next receive of this name consumes."""
        return self.signals.oldest(name)

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
        if event.signals is not None:
            if self._read_carried is None:
                raise EngineError("nobody said how the carried signals of a journal are read")
            self.signals.carried = self._read_carried(event.signals)
        self._read_carried = None  # its owner's method, which refers to this ledger: breaks a reference cycle
        self.edition = event.edition

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
            self.undone.add(event.undoes)
        bound = self._retry_bound
        most_retries = event.retry_policy.max_attempts - 1 if bound is None else bound
        # A model may schedule a promise twice. The first entry stays, or the promise could be completed twice.
        if event.promise_id not in self.invocations:
            self.invocations[event.promise_id] = Invocation(most_retries)

    def _is_completed(self, promise: PromiseId) -> bool:
        invocation = self.invocations.get(promise)
        return self._is_forgotten(promise) if invocation is None else invocation.completed

    def _is_forgotten(self, promise: PromiseId) -> bool:
        """Whether a promise is settled and no longer kept. All promises of a model are kept."""
        return self.strict and promise in self.resolved

    def _check_undo(self, promise: PromiseId) -> None:
        """Judge a call that compensates. A promise of an earlier generation has another root: that generation's journal
        shows whether it has completed."""
        if promise.root == self.root.root and not self._is_completed(promise):
            raise LawBroken("K-7", f"{promise} is to be undone and has not completed")
        if promise in self.undone:
            raise LawBroken("K-7", f"{promise} is undone twice")

    def _started(self, event: e.InvokeStarted, timestamp: int) -> None:
        invocation = self.invocations.get(event.promise_id)
        if invocation is None and not self._is_forgotten(event.promise_id):
            raise LawBroken("SE-1", f"{event.promise_id} was started and never scheduled")
        if invocation is None or invocation.completed:
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
        if invocation is None and self._is_forgotten(event.promise_id):
            raise LawBroken("SE-4", f"{event.promise_id} completed twice")
        if invocation is None or not invocation.attempt:
            raise LawBroken("SE-2", f"{event.promise_id} completed and never started")
        if invocation.completed:
            raise LawBroken("SE-4", f"{event.promise_id} completed twice")
        if self.strict and event.attempt != invocation.attempt:
            raise LawBroken("K-2", f"attempt {event.attempt} of {event.promise_id} completed, not {invocation.attempt}")
        if self.strict and event.promise_id not in self.join_sets.owners:
            del self.invocations[event.promise_id]
        else:
            invocation.completed = True
            invocation.result = event.result
        self.resolved.add(event.promise_id)
        self.unseen = self.unseen or type(self.status) is not Running  # a running program has recorded it itself

    def _retrying(self, event: e.InvokeRetrying, timestamp: int) -> None:
        invocation = self.invocations.get(event.promise_id)
        started = invocation is not None and self._was_started(invocation, event.failed_attempt)
        if self._is_forgotten(event.promise_id) or (invocation is not None and invocation.completed and started):
            raise LawBroken("SE-4", f"{event.promise_id} was retried after it completed")
        if invocation is None or not started:
            raise LawBroken("SE-3", f"attempt {event.failed_attempt} of {event.promise_id} failed and never started")
        if invocation.retries >= invocation.most_retries:
            raise LawBroken("SE-5", f"{event.promise_id} was retried more than {invocation.most_retries} times")
        invocation.retries += 1

    def _was_started(self, invocation: Invocation, attempt: int) -> bool:
        if self.strict:
            return attempt == invocation.attempt > 0
        return invocation.attempts is not None and attempt in invocation.attempts

    def _value(self, event: e.RandomGenerated | e.TimeRecorded, timestamp: int) -> None:
        self._allocate(event.promise_id)
        if self.strict:
            self.resolved.add(event.promise_id)

    def _timer_scheduled(self, event: e.TimerScheduled, timestamp: int) -> None:
        self._allocate(event.promise_id)
        self.timers[event.promise_id] = min(event.fire_at, self.timers.get(event.promise_id, event.fire_at))

    def _timer_fired(self, event: e.TimerFired, timestamp: int) -> None:
        fire_at = self.timers.get(event.promise_id)
        if fire_at is None or event.promise_id in self._fired:
            raise LawBroken("CF-1", f"{event.promise_id} fired and is no scheduled timer, or fired before")
        if timestamp < fire_at:
            raise LawBroken("CF-1", f"{event.promise_id} fired at {timestamp}, before {fire_at}")
        if self.strict:
            del self.timers[event.promise_id]
        else:
            self._fired.add(event.promise_id)
        self.resolved.add(event.promise_id)
        self.unseen = self.unseen or type(self.status) is not Running

    def _delivered(self, event: e.SignalDelivered, timestamp: int) -> None:
        if self.strict:
            self.signals.deliver(event, self.version)
        else:
            deliveries = self.signals.setdefault(event.signal_name, Deliveries())
            deliveries.arrived.append((event.delivery_id, event.payload))

    def _received(self, event: e.SignalReceived, timestamp: int) -> None:
        if not self.strict:
            self.signals.get(event.signal_name, Deliveries()).take(event)
            self.resolved.add(event.promise_id)
            return
        deliveries = self.signals.checked(event)
        # A run that was cancelled while it was paused still receives what it had begun to wait for.
        if type(self.status) in _COMMANDING and event.promise_id not in self.receives:
            self._allocate(event.promise_id)
        else:
            self.unseen = True
        self.receives.discard(event.promise_id)
        deliveries.consume(event.delivery_id)
        self.resolved.add(event.promise_id)

    def _awaiting(self, event: e.ExecutionAwaiting, timestamp: int) -> None:
        kind = event.kind
        if type(kind) is e.Signal and event.waiting_on != (kind.promise_id,):
            raise LawBroken("CF-4", f"the await of signal {kind.name!r} waits on something else than its promise")
        self._reached = 0
        self._wait_over = False
        if not self.strict:
            return
        if type(self.status) not in _COMMANDING:
            raise LawBroken("K-6", f"an await while {type(self.status).__name__}")
        if self.edition and type(self.status) is Cancelling:  # the program saw them with the cancellation
            self.unseen = False
        # A receive takes its position when it begins to wait; the await is the first event that names it.
        promises = event.waiting_on
        if event.receives:
            promises += tuple(receive.promise_id for receive in event.receives if receive.promise_id not in promises)
        for promise in promises if len(promises) == 1 else sorted(promises):
            if not self._is_child(promise) or promise.path[-1] >= self.next_child:
                self._allocate(promise)
            if not (promise in self.invocations or promise in self.timers or promise in self.resolved):
                self.receives.add(promise)

    def _resumed(self, event: e.ExecutionResumed, timestamp: int) -> None:
        if self.strict and not self.is_satisfied():
            raise LawBroken("K-5", "resumed while nothing that it waits for has happened")
        self.unseen = False

    def _join_set_created(self, event: e.JoinSetCreated, timestamp: int) -> None:
        self._allocate(event.join_set_id.position)
        self.join_sets.open.setdefault(event.join_set_id, JoinSetState())

    def _submitted(self, event: e.JoinSetSubmitted, timestamp: int) -> None:
        self.join_sets.submit(event, is_open=event.promise_id in self.invocations, edition=self.edition)

    def _awaited(self, event: e.JoinSetAwaited, timestamp: int) -> None:
        promise = event.promise_id
        invocation = self.invocations.get(promise)
        self.join_sets.check(event, completed=self._is_completed(promise))
        if self.strict:
            if invocation is None or invocation.result != event.result:
                raise LawBroken("K-4", f"the result recorded for {promise} is not the one that completed it")
            del self.invocations[promise]
        self.join_sets.take(event)


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
