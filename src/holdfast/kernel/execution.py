"""One run in memory: its ledger, its program, and the turns that advance both.

The law of replay: a run rebuilt from its journal is where it was. It holds because rebuilding and advancing are the
same code. What arrived is taken from the journal instead of the world, each command is compared with the recorded one
instead of being recorded, and where the journal ends, in the middle of a turn or between two, the run is live.

Within a turn: what settles promises is recorded first, timers last of these (so a signal that came in time is not lost
to its own timeout), then ``ExecutionResumed`` if the wait is over, then the deliveries in journal order, each run to
rest before the next. A cancellation comes after all that.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NoReturn, Protocol

import msgspec

from holdfast.errors import EngineError, Nondeterminism
from holdfast.journal import events as e
from holdfast.journal.laws import Ledger
from holdfast.journal.payload import CONTINUED, Err, Ok, Outcome, Payload, RetryPolicy
from holdfast.journal.promise import JoinSetId, PromiseId
from holdfast.journal.render import line
from holdfast.journal.status import Blocked
from holdfast.kernel.arrivals import Arrival, AttemptFailed, CancelArrived, Settled, SignalArrived
from holdfast.kernel.commands import PATCH, same
from holdfast.kernel.program import Continued, Program, Raised, Returned, Stopped, Waiting, Yielded
from holdfast.kernel.requests import Abandon, Invoke, Request

Stamped = tuple[int, e.Event]


class Entropy(Protocol):
    """Where randomness comes from."""

    def random(self) -> float: ...

    def randbytes(self, n: int) -> bytes: ...


class Halt(BaseException):
    """Unwinds the program once its code and its journal disagree. No author's ``except Exception`` can stop it."""


class Turn(msgspec.Struct):
    """What one advance made: events to append, then requests to carry out."""

    events: list[Stamped]
    requests: list[Request]


class Wait(msgspec.Struct, frozen=True):
    """One thing that a blocked run waits for, as people are told."""

    kind: str
    name: str
    position: int
    due: int | None = None
    run: str | None = None


class _Pending:
    """An invocation that is scheduled and not settled."""

    __slots__ = ("attempt", "event", "queue", "retry_at", "scheduled_at")

    def __init__(self, event: e.InvokeScheduled, queue: str | None, scheduled_at: int) -> None:
        self.event = event
        self.queue = queue
        self.scheduled_at = scheduled_at
        self.attempt = 1
        self.retry_at: int | None = None


class Execution:
    """A run being advanced. Make one with ``begin`` or ``rebuild``; after an exception, drop it."""

    def __init__(self, run: PromiseId, program: Program, now: int, entropy: Entropy) -> None:
        self.ledger = Ledger(run)
        self.program = program
        self.ending: Yielded | None = None
        self._run = run
        self._now = now
        self._entropy = entropy
        self._events: list[Stamped] = []
        self._requests: list[Request] = []
        self._script: deque[e.Entry] = deque()
        self._settled: list[tuple[PromiseId, Outcome | None]] = []
        self._pending: dict[PromiseId, _Pending] = {}
        self._timers: dict[PromiseId, int] = {}
        self._alarms: list[tuple[int, PromiseId]] = []
        self._receivers: dict[str, deque[PromiseId]] = {}
        self._next_child = 0
        self._started: e.ExecutionStarted | None = None
        self._begun = False
        self._cancel_reason = ""
        self._cancel_told = False
        self._halted: Nondeterminism | None = None

    # -- making one ----------------------------------------------------------------------------------------------

    @classmethod
    def begin(
        cls, run: PromiseId, program: Program, started: e.ExecutionStarted, now: int, entropy: Entropy
    ) -> Execution:
        """A new run. Its first turn is taken by the next ``advance``."""
        self = cls(run, program, now, entropy)
        self._record(started)
        return self

    @classmethod
    def rebuild(
        cls, run: PromiseId, program: Program, entries: Iterable[e.Entry], now: int, entropy: Entropy
    ) -> Execution:
        """A run from its journal. Raises Nondeterminism, LawBroken, or what the program's code raises on purpose."""
        self = cls(run, program, now, entropy)
        self._script.extend(entries)
        if self._script:
            self._now = max(now, self._script[-1].timestamp)
        self._replay()
        return self

    # -- what the worker asks ------------------------------------------------------------------------------------

    @property
    def started(self) -> e.ExecutionStarted:
        """The event that the journal begins with."""
        if self._started is None:
            raise EngineError("the journal does not begin with ExecutionStarted")
        return self._started

    @property
    def ended(self) -> bool:
        return self.ledger.ended

    @property
    def waits_for_nothing(self) -> bool:
        """Whether the run is blocked and no arrival but a cancellation could ever move it."""
        status = self.ledger.status
        return type(status) is Blocked and not status.waiting_on

    def next_due(self) -> int | None:
        """When the run next wants a turn without being told: its earliest timer or retry."""
        while self._alarms:
            due, promise = self._alarms[0]
            if self._timers.get(promise) == due:
                return due
            pending = self._pending.get(promise)
            if pending is not None and pending.retry_at == due:
                return due
            heapq.heappop(self._alarms)
        return None

    def outstanding(self) -> list[Request]:
        """A request for every invocation not settled, as a worker that takes the run over must make; retries wait."""
        return [
            self._invoke(pending)
            for pending in self._pending.values()
            if pending.retry_at is None or pending.queue is not None
        ]

    def waits(self) -> list[Wait]:
        """What the run waits for, in order of position."""
        found = [
            Wait(pending.event.kind, pending.event.function_name, promise.path[-1], pending.retry_at)
            for promise, pending in self._pending.items()
        ]
        found += [Wait("timer", "", promise.path[-1], due) for promise, due in self._timers.items()]
        found += [
            Wait("receive", name, promise.path[-1]) for name, waiting in self._receivers.items() for promise in waiting
        ]
        return sorted(found, key=lambda wait: wait.position)

    def advance(self, arrivals: Sequence[Arrival], now: int, *, resume: bool = True) -> Turn:
        """Take one turn. With ``resume=False`` (a paused run) arrivals are recorded and the program is left alone.

        Raises AuthorError where the program's code is at fault: nothing of this turn must be kept then, and the
        arrivals can be recorded by a rebuilt execution with ``resume=False``.
        """
        self._now = max(now, self._now)
        if resume and not self._begun:
            self._start()
        buffered, cancel = self._take_in(arrivals)
        if resume:
            self._ring()
        if resume and not self.ended and self.ledger.is_satisfied():
            self._resume(buffered)
        else:
            for signal in buffered:
                self._deliver(signal)
        if cancel is not None and not self.ended and not self.ledger.cancel_requested:
            self._record(e.CancelRequested(cancel.reason))
        if resume and self.ledger.cancel_requested and not self._cancel_told:
            self._tell_cancel()
            self._go()
            self._resume_while_satisfied()
        turn = Turn(self._events, self._requests)
        self._events, self._requests = [], []
        return turn

    # -- arrivals ------------------------------------------------------------------------------------------------

    def _take_in(self, arrivals: Sequence[Arrival]) -> tuple[list[SignalArrived], CancelArrived | None]:
        """Record what settles promises; give back the signals that nobody waits for, and a cancellation."""
        buffered: list[SignalArrived] = []
        cancel: CancelArrived | None = None
        if self.ended:
            return buffered, cancel
        for arrival in arrivals:
            match arrival:
                case Settled():
                    self._settle(arrival)
                case AttemptFailed():
                    self._fail_attempt(arrival)
                case SignalArrived(name=name):
                    if self._receivers.get(name):
                        self._deliver(arrival)
                    else:
                        buffered.append(arrival)
                case CancelArrived():
                    cancel = cancel or arrival
        return buffered, cancel

    def _settle(self, arrival: Settled) -> None:
        pending = self._pending.get(arrival.promise_id)
        # A second completion, one of an attempt that was given up, one of an abandoned promise: all come too late.
        if pending is None or pending.attempt != arrival.attempt:
            return
        self._begin_attempt(arrival)
        self._complete(arrival.promise_id, arrival.outcome, arrival.attempt)

    def _begin_attempt(self, arrival: Settled | AttemptFailed) -> None:
        # A journal may end between the start of an attempt and its end; then the start is recorded already.
        if self.ledger.invocations[arrival.promise_id].attempt < arrival.attempt:
            started_at = min(arrival.started_at, self._now)
            self._record(e.InvokeStarted(arrival.promise_id, arrival.attempt), started_at)

    def _fail_attempt(self, arrival: AttemptFailed) -> None:
        promise, attempt = arrival.promise_id, arrival.attempt
        pending = self._pending.get(promise)
        if pending is None or pending.attempt != attempt:
            return
        self._begin_attempt(arrival)
        policy: RetryPolicy = pending.event.retry_policy
        delay = policy.delay_seconds(attempt, self._entropy.random())
        if arrival.retry_after_seconds is not None:
            delay = max(delay, arrival.retry_after_seconds)
        retry_at = self._now + round(delay * 1e6)
        late = policy.deadline is not None and retry_at > pending.scheduled_at + policy.deadline * 1e6
        if attempt >= policy.max_attempts or late:
            self._complete(promise, Err(arrival.failure), attempt)
            return
        self._record(e.InvokeRetrying(promise, attempt, arrival.failure, retry_at))
        self._retry(pending, attempt, retry_at)
        if pending.queue is not None:  # the queue keeps it until its time has come
            self._requests.append(self._invoke(pending))

    def _retry(self, pending: _Pending, failed_attempt: int, retry_at: int) -> None:
        pending.attempt = failed_attempt + 1
        pending.retry_at = retry_at
        if pending.queue is None:
            heapq.heappush(self._alarms, (retry_at, pending.event.promise_id))

    def _complete(self, promise: PromiseId, outcome: Outcome, attempt: int) -> None:
        self._record(e.InvokeCompleted(promise, outcome, attempt))
        pending = self._pending.pop(promise)
        if pending.queue is not None:  # its place in the queue is no longer needed
            self._requests.append(Abandon(promise, pending.event.kind, pending.queue))
        self._settled.append((promise, outcome))

    def _deliver(self, signal: SignalArrived) -> None:
        name = signal.name
        delivery = self.ledger.next_delivery(name)
        self._record(e.SignalDelivered(name, signal.payload, delivery))
        waiting = self._receivers.get(name)
        if waiting:
            self._receive(waiting.popleft(), name, delivery, signal.payload)

    def _receive(self, promise: PromiseId, name: str, delivery: int, payload: Payload) -> None:
        self._record(e.SignalReceived(promise, name, payload, delivery))
        self._settled.append((promise, Ok(payload)))

    def _ring(self) -> None:
        """Fire the timers and begin the retries whose time has come, oldest first."""
        while (due := self.next_due()) is not None and due <= self._now and not self.ended:
            _, promise = heapq.heappop(self._alarms)
            if self._timers.pop(promise, None) is not None:
                self._record(e.TimerFired(promise))
                self._settled.append((promise, None))
            else:
                pending = self._pending[promise]
                pending.retry_at = None
                self._requests.append(self._invoke(pending))

    def _invoke(self, pending: _Pending) -> Invoke:
        event = pending.event
        return Invoke(
            event.promise_id,
            event.kind,
            event.function_name,
            event.input,
            pending.attempt,
            pending.queue,
            pending.retry_at or 0,
        )

    # -- the program ---------------------------------------------------------------------------------------------

    def _resume(self, buffered: Sequence[SignalArrived] = ()) -> None:
        self._record(e.ExecutionResumed())
        for signal in buffered:
            self._deliver(signal)
        self._hand_over()
        self._resume_while_satisfied()

    def _resume_while_satisfied(self) -> None:
        while not self.ended and self.ledger.is_satisfied():
            self._record(e.ExecutionResumed())
            self._hand_over()

    def _tell_cancel(self) -> None:
        self._cancel_told = True
        self.program.cancel(self._cancel_reason)

    def _hand_over(self) -> None:
        settled, self._settled = self._settled, []
        if not settled:  # it would resume for ever
            raise EngineError("the program waits for a promise that it was given before")
        for promise, outcome in settled:
            self.program.settle(promise, outcome)
        self._go()

    def _go(self) -> None:
        """Run the program to rest and record how that ended."""
        self.ending = self.program.run()
        with suppress(Halt):
            self._command(_closing(self.ending, self._cancel_reason))
        if self._halted is not None:
            raise self._halted
        if self.ended:
            self._timers.clear()
            for promise in list(self._pending):
                self.abandon(promise)

    # -- recording and replaying ---------------------------------------------------------------------------------

    def _start(self) -> None:
        self._begun = True
        self.program.start(self, self.started.input)
        if self.ledger.cancel_requested:  # while it was paused: nothing of the body runs
            self._tell_cancel()
        self._go()

    def _record(self, event: e.Event, timestamp: int | None = None) -> None:
        """Append a new event, judged by the laws."""
        stamp = self._now if timestamp is None else timestamp
        self.ledger.append(event, self._now)
        self._note(event)
        self._events.append((stamp, event))

    def _note(self, event: e.Event) -> None:
        if type(event) is e.CancelRequested:
            self._cancel_reason = event.reason
        elif type(event) is e.ExecutionStarted:
            self._started = event

    def _take(self) -> e.Event:
        """Fold in the next recorded event."""
        entry = self._script.popleft()
        self.ledger.append(entry.event, entry.timestamp, entry.sequence)
        self._note(entry.event)
        return entry.event

    def _command(self, event: e.Event) -> e.Event:
        """Record a command, or compare it with the recorded one and give that back."""
        if self._halted is not None:
            raise Halt
        if not self._script:
            self._record(event)
            return event
        recorded = self._script[0]
        if not same(recorded.event, event):
            self._halted = Nondeterminism(recorded.sequence, line(recorded.event), line(event))
            raise Halt
        return self._take()

    def _replay(self) -> None:
        """Walk the recorded journal. Nothing is begun while only the start, and signals before it, are recorded."""
        if not self._script:
            raise EngineError("an empty journal cannot be rebuilt")
        self._take()
        while self._script and isinstance(self._script[0].event, (e.SignalDelivered, e.CancelRequested)):
            self._take()
        if self._script:
            self._start()
        while self._script:
            self._replay_one()
        self._receive_buffered()

    def _take_deliveries(self) -> None:
        while self._script and isinstance(self._script[0].event, e.SignalDelivered):
            self._take()

    def _is_arrival(self, event: e.Event) -> bool:
        """Whether the recorded event came from outside, and is no command of the program."""
        if isinstance(event, e.SignalReceived):
            return event.promise_id in self._receivers.get(event.signal_name, ())
        return isinstance(
            event, (e.InvokeStarted, e.InvokeCompleted, e.InvokeRetrying, e.TimerFired, e.SignalDelivered)
        )

    def _receive_buffered(self) -> None:
        """Where the journal ends between a delivery and its receipt, record the receipt."""
        for name, waiting in self._receivers.items():
            while waiting and (buffered := self.ledger.oldest_unconsumed(name)) is not None:
                self._receive(waiting.popleft(), name, *buffered)

    def _replay_one(self) -> None:
        """Feed one recorded arrival, resumption or cancellation to the program."""
        entry = self._script[0]
        match entry.event:
            case e.InvokeStarted():
                self._take()
            case e.InvokeCompleted(promise_id=promise, result=result):
                self._take()
                if self._pending.pop(promise, None) is not None:
                    self._settled.append((promise, result))
            case e.InvokeRetrying(promise_id=promise, failed_attempt=attempt, retry_at=retry_at):
                self._take()
                if (pending := self._pending.get(promise)) is not None:
                    self._retry(pending, attempt, retry_at)
            case e.TimerFired(promise_id=promise):
                self._take()
                if self._timers.pop(promise, None) is not None:
                    self._settled.append((promise, None))
            case e.SignalDelivered():
                self._take()
            case e.SignalReceived(promise_id=promise, signal_name=name, payload=payload):
                waiting = self._receivers.get(name)
                if not waiting or waiting.popleft() != promise:
                    self._diverged(entry)
                self._take()
                self._settled.append((promise, Ok(payload)))
            case e.ExecutionResumed():
                self._take()
                self._take_deliveries()
                self._hand_over()
            case e.CancelRequested():
                self._take()
                while self._script and self._is_arrival(self._script[0].event):  # the run was paused
                    self._replay_one()
                if self._script:
                    self._tell_cancel()
                    self._go()
            case _:
                self._diverged(entry)

    def _diverged(self, entry: e.Entry) -> NoReturn:
        standing = line(_closing(self.ending, self._cancel_reason)) if self.ending is not None else "nothing"
        raise Nondeterminism(entry.sequence, line(entry.event), standing)

    # -- the scribe: what the program may command ------------------------------------------------------------------

    def _allocate(self) -> PromiseId:
        promise = PromiseId(self._run.root, (*self._run.path, self._next_child))
        self._next_child += 1
        return promise

    def invoke(
        self, kind: str, function_name: str, input: Payload, retry_policy: RetryPolicy, queue: str | None = None
    ) -> PromiseId:
        issued = e.InvokeScheduled(self._allocate(), kind, function_name, input, retry_policy)
        replayed = bool(self._script)
        scheduled_at = self._script[0].timestamp if replayed else self._now
        event = self._command(issued)
        assert isinstance(event, e.InvokeScheduled)
        pending = self._pending[event.promise_id] = _Pending(event, queue, scheduled_at)
        if not replayed:
            self._requests.append(self._invoke(pending))
        return event.promise_id

    def abandon(self, promise_id: PromiseId) -> None:
        if self._timers.pop(promise_id, None) is not None:
            return
        pending = self._pending.pop(promise_id, None)
        if pending is None:
            for waiting in self._receivers.values():
                if promise_id in waiting:
                    waiting.remove(promise_id)
            return
        fresh = [r for r in self._requests if not (isinstance(r, Invoke) and r.promise_id == promise_id)]
        if len(fresh) == len(self._requests) and not self._script:
            fresh.append(Abandon(promise_id, pending.event.kind, pending.queue))
        self._requests = fresh

    def timer(self, duration: int) -> PromiseId:
        event = self._command(e.TimerScheduled(self._allocate(), duration, self._now + duration))
        assert isinstance(event, e.TimerScheduled)
        self._timers[event.promise_id] = event.fire_at
        heapq.heappush(self._alarms, (event.fire_at, event.promise_id))
        return event.promise_id

    def receive(self, name: str) -> tuple[PromiseId, Payload | None]:
        promise = self._allocate()
        buffered = self.ledger.oldest_unconsumed(name)
        if buffered is None:
            self._receivers.setdefault(name, deque()).append(promise)
            return promise, None
        delivery, payload = buffered
        self._command(e.SignalReceived(promise, name, payload, delivery))
        return promise, payload

    def random(self, size: int) -> bytes:
        event = self._command(e.RandomGenerated(self._allocate(), self._entropy.randbytes(size)))
        assert isinstance(event, e.RandomGenerated)
        return event.value

    def now(self) -> int:
        event = self._command(e.TimeRecorded(self._allocate(), self._now))
        assert isinstance(event, e.TimeRecorded)
        return event.time

    def join_set(self) -> JoinSetId:
        join_set = JoinSetId(self._allocate())
        self._command(e.JoinSetCreated(join_set))
        return join_set

    def submit(self, join_set: JoinSetId, promise_id: PromiseId) -> None:
        self._command(e.JoinSetSubmitted(join_set, promise_id))

    def consume(self, join_set: JoinSetId, promise_id: PromiseId, result: Outcome) -> None:
        self._command(e.JoinSetAwaited(join_set, promise_id, result))

    def patched(self, name: str) -> bool:
        marker = PATCH + name.encode()
        if self._script:
            upcoming = self._script[0].event
            if not (isinstance(upcoming, e.RandomGenerated) and upcoming.value == marker):
                return False
        self._command(e.RandomGenerated(self._allocate(), marker))
        return True


def _closing(yielded: Yielded, cancel_reason: str) -> e.Event:
    """The event that closes a turn that ended like this."""
    match yielded:
        case Waiting(waiting_on=waiting_on, kind=kind):
            return e.ExecutionAwaiting(waiting_on, kind)
        case Returned(value=value):
            return e.ExecutionCompleted(value)
        case Raised(failure=failure):
            return e.ExecutionFailed(failure)
        case Continued(input=payload):
            return e.ExecutionCompleted(Payload(payload.data, CONTINUED, payload.blob))
        case Stopped():
            return e.ExecutionCancelled(cancel_reason)
