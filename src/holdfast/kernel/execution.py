"""One run in memory: its ledger, its program, and the turns that advance both.

The law of replay: a run rebuilt from its journal is where it was. It holds because rebuilding and advancing are the
same code. What arrived is taken from the journal instead of the world, each command is compared with the recorded one
instead of being recorded, and where the journal ends, in the middle of a turn or between two, the run is live.

Within a turn: what settles promises is recorded first, then ``ExecutionResumed`` if the wait is over, then the
deliveries in journal order, each run to rest before the next. A cancellation comes after all that. What arrives before
the first turn is recorded before the program begins.

The law of signals: a delivered signal is consumed by a receive that the program saw return, or stays buffered for the
next receive of its name, in order. So a signal is recorded as received only when nothing can come before it: as the
first of what one resumption delivers, one at a time. Anything before it could make the program give that receive up,
and the signal would be gone. It is also why a signal that came in time is not lost to its own timeout.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from holdfast.errors import EngineError
from holdfast.journal import events as e
from holdfast.journal.ledger import Ledger
from holdfast.journal.payload import Err, Ok, Outcome
from holdfast.journal.promise import PromiseId
from holdfast.journal.status import Blocked
from holdfast.kernel.arrivals import Arrival, AttemptFailed, Begun, CancelArrived, Settled, SignalArrived
from holdfast.kernel.checkpoint import Checkpoint, CheckpointUnusable, Rest, give, take
from holdfast.kernel.closing import closing
from holdfast.kernel.outstanding import Outstanding, Wait
from holdfast.kernel.pen import Halt, Pen, Stamped
from holdfast.kernel.program import Program, Waiting, Yielded
from holdfast.kernel.replay import Replay
from holdfast.kernel.requests import Abandon, Invoke, Request
from holdfast.kernel.scribing import Entropy, KernelScribe

__all__ = ["Entropy", "Execution", "Halt", "Turn", "Wait"]


class Turn(msgspec.Struct, gc=False):
    """What one advance made: events to append, then requests to carry out.

    ``unheard`` is a cancellation that came too late for this generation of the run; the next one must hear it.
    """

    events: list[Stamped]
    requests: list[Request]
    unheard: CancelArrived | None = None


class Execution:
    """A run being advanced. Make one with ``begin``, ``rebuild`` or ``restore``; after an exception, drop it.

    ``offered_at`` is the version at which its program was last asked for a checkpoint, or was restored from one;
    ``has_checkpoint`` tells whether there was one.
    """

    def __init__(self, run: PromiseId, program: Program, now: int, entropy: Entropy) -> None:
        self.program = program
        self.ending: Yielded | None = None
        self.offered_at = 0
        self.has_checkpoint = False
        self._entropy = entropy
        self._pen = Pen(run, now)
        self._open = Outstanding()
        self._scribe = KernelScribe(run, self._pen, self._open, entropy)
        self._settled: list[tuple[PromiseId, Outcome | None]] = []
        self._heard: deque[str] = deque()  # the names of buffered signals that a receive waited for when they came
        self._begun = False
        self._cancel_told = False

    @classmethod
    def begin(
        cls, run: PromiseId, program: Program, started: e.ExecutionStarted, now: int, entropy: Entropy
    ) -> Execution:
        """A new run. Its first turn is taken by the next ``advance``."""
        self = cls(run, program, now, entropy)
        self._pen.record(started)
        return self

    @classmethod
    def rebuild(
        cls, run: PromiseId, program: Program, entries: Iterable[e.Entry], now: int, entropy: Entropy
    ) -> Execution:
        """A run from its journal. Raises Nondeterminism, LawBroken, or what the program's code raises on purpose."""
        self = cls(run, program, now, entropy)
        self._pen.load(list(entries))
        Replay(self, self._pen, self._open).walk()
        self._heard.extend(self.ledger.buffered(self._open.receivers))
        return self

    @classmethod
    def restore(
        cls,
        run: PromiseId,
        program: Program,
        checkpoint: Checkpoint,
        tail: Iterable[e.Entry],
        now: int,
        entropy: Entropy,
        blobs: Mapping[bytes, bytes] | None = None,
    ) -> Execution:
        """A run from a checkpoint and the entries after it: as if rebuilt from its whole journal.

        Raises CheckpointUnusable where the checkpoint cannot be read, and what ``rebuild`` raises.
        """
        self = cls(run, program, now, entropy)
        rest = take(checkpoint, run, blobs or {}, self._pen, self._open)
        self._settled, self._cancel_told, self.ending = rest.settled, rest.cancel_told, rest.ending
        self._scribe.next_child = rest.next_child
        self._begun = self.has_checkpoint = True
        self.offered_at = checkpoint.version
        try:
            program.restore(self._scribe, self.started, checkpoint.program)
        except ValueError as error:
            raise CheckpointUnusable(f"the program does not know it ({error})") from error
        self._pen.load(list(tail))
        Replay(self, self._pen, self._open).walk_tail()
        self._heard.extend(self.ledger.buffered(self._open.receivers))
        return self

    def checkpoint(self) -> Checkpoint | None:
        """What ``restore`` needs to go on from here; None where the program gives none, or does not wait."""
        self.offered_at = self._pen.ledger.version
        ending = self.ending
        if type(ending) is not Waiting or self.ended or (state := self.program.checkpoint()) is None:
            return None
        self.has_checkpoint = True
        rest = Rest(self._settled, self._cancel_told, self._scribe.next_child, ending)
        return give(self._pen, self._open, rest, state)

    # -- what the worker asks ------------------------------------------------------------------------------------

    @property
    def ledger(self) -> Ledger:
        return self._pen.ledger

    @property
    def started(self) -> e.ExecutionStarted:
        """The event that the journal begins with."""
        if self._pen.started is None:
            raise EngineError("the journal does not begin with ExecutionStarted")
        return self._pen.started

    @property
    def ended(self) -> bool:
        return self._pen.ledger.ended

    @property
    def must_hear_cancel(self) -> bool:
        """Whether a cancellation was requested that the program has not been told of."""
        return self._pen.ledger.cancel_requested and not self._cancel_told

    @property
    def waits_for_nothing(self) -> bool:
        """Whether the run is blocked and no arrival but a cancellation could ever move it."""
        status = self.ledger.status
        return type(status) is Blocked and not status.waiting_on and type(status.kind) is not e.Open

    def next_due(self) -> int | None:
        """When the run next wants a turn without being told: its earliest timer or retry."""
        return self._open.next_due()

    def outstanding(self) -> list[Request]:
        """A request for every invocation not settled, as a worker that takes the run over must make; retries wait."""
        return self._open.requests()

    def request_of(self, promise_id: PromiseId) -> Invoke | None:
        """The request for an invocation that is not settled; None where it is, or waits for its retry."""
        pending = self._open.invocations.get(promise_id)
        return None if pending is None or pending.retry_at is not None else pending.request()

    def waits(self) -> list[Wait]:
        """What the run waits for, in order of position."""
        return self._open.waits()

    def standing(self) -> e.Event | None:
        """The event that closed, or would close, the last turn of the program."""
        return None if self.ending is None else closing(self.ending, self.program, self._pen, self._open)

    def advance(self, arrivals: Sequence[Arrival], now: int, *, resume: bool = True) -> Turn:
        """Take one turn. With ``resume=False`` (a paused run) arrivals are recorded and the program is left alone.

        Raises AuthorError where the program's code is at fault: nothing of this turn must be kept then, and the
        arrivals can be recorded by a rebuilt execution with ``resume=False``.
        """
        pen = self._pen
        ledger = pen.ledger
        pen.tell(now)
        going = resume and self._begun
        buffered, cancel = self._take_in(arrivals, going)
        if going:
            self._ring()
        if going and not ledger.ended and ledger.is_satisfied():
            self._resume(buffered)
        else:
            for signal in buffered:
                self._deliver(signal)
        if cancel is not None and not ledger.ended and not ledger.cancel_requested:
            pen.record(e.CancelRequested(cancel.reason))
            cancel = None
        if resume and not self._begun:
            self.start()
        elif resume and self.must_hear_cancel:
            self.tell_cancel()
            self.go()
            self._resume_while_satisfied()
        return Turn(pen.written(), self._scribe.take_requests(), cancel)

    # -- arrivals ------------------------------------------------------------------------------------------------

    def _take_in(self, arrivals: Sequence[Arrival], going: bool) -> tuple[list[SignalArrived], CancelArrived | None]:
        """Record what settles promises; give back the signals that nobody waits for, and a cancellation."""
        buffered: list[SignalArrived] = []
        cancel: CancelArrived | None = None
        if self.ended:
            return buffered, cancel
        for arrival in arrivals:
            if type(arrival) is SignalArrived:
                self._hear(arrival, buffered)
            elif type(arrival) is CancelArrived:
                cancel = cancel or arrival
        if going and self._heard:
            self._receive_next()
        for arrival in arrivals:
            if type(arrival) is Settled:
                self._settle(arrival)
            elif type(arrival) is AttemptFailed:
                self._fail_attempt(arrival)
            elif type(arrival) is Begun and arrival.promise_id in self._open.invocations:
                self._begin_attempt(arrival)
        return buffered, cancel

    def _hear(self, signal: SignalArrived, buffered: list[SignalArrived]) -> None:
        if signal.expected_version is not None and signal.expected_version != self._pen.ledger.version:
            return  # the run has moved on since: a stale signal changes nothing
        if signal.name in self._open.receivers:
            self._deliver(signal)
        else:
            buffered.append(signal)

    def _receive_next(self) -> None:
        """Record that a waiting receive gets its signal, if that is the first thing that the program will be told."""
        heard, ledger = self._heard, self._pen.ledger
        if type(ledger.status) is not Blocked or ledger.is_satisfied():
            return
        while heard:
            name = heard.popleft()
            promise, buffered = self._open.first_receive(name), ledger.oldest_unconsumed(name)
            if promise is not None and buffered is not None:  # else that receive was given up meanwhile
                delivery, payload = buffered
                self._pen.record(e.SignalReceived(promise, name, payload, delivery))
                self._open.end_receive(promise)
                self._settled.append((promise, Ok(payload)))
                return

    def _settle(self, arrival: Settled) -> None:
        pending = self._open.invocations.get(arrival.promise_id)
        # A second completion, one of an attempt that was given up, one of an abandoned promise: all come too late.
        if pending is None or pending.attempt != arrival.attempt:
            return
        self._begin_attempt(arrival)
        self._complete(arrival.promise_id, arrival.outcome, arrival.attempt)

    def _begin_attempt(self, arrival: Settled | AttemptFailed | Begun) -> None:
        # A journal may have the start of an attempt and not its end: then the run was taken over meanwhile. Only the
        # first takeover of an attempt is recorded: each record would count as progress of a run that kills workers.
        if self._pen.ledger.invocations[arrival.promise_id].attempt < arrival.attempt:
            event = e.InvokeStarted(arrival.promise_id, arrival.attempt, arrival.begun_before)
            self._pen.record(event, min(arrival.started_at, self._pen.now))

    def _fail_attempt(self, arrival: AttemptFailed) -> None:
        promise, attempt = arrival.promise_id, arrival.attempt
        pending = self._open.invocations.get(promise)
        if pending is None or pending.attempt != attempt:
            return
        self._begin_attempt(arrival)
        policy = pending.event.retry_policy
        delay = policy.delay_seconds(attempt, self._entropy.random())
        if arrival.retry_after_seconds is not None:
            delay = max(delay, arrival.retry_after_seconds)
        retry_at = self._pen.clock + round(delay * 1e6)
        late = policy.deadline is not None and retry_at > pending.scheduled_at + policy.deadline * 1e6
        if attempt >= policy.max_attempts or late:
            self._complete(promise, Err(arrival.failure), attempt)
            return
        self._pen.record(e.InvokeRetrying(promise, attempt, arrival.failure, retry_at))
        self._open.set_retry(pending, attempt, retry_at)
        if pending.queue is not None:  # the queue keeps it until its time has come
            self._scribe.request(pending.request())

    def _complete(self, promise: PromiseId, outcome: Outcome, attempt: int) -> None:
        self._pen.record(e.InvokeCompleted(promise, outcome, attempt))
        pending = self._open.invocations.pop(promise)
        if pending.queue is not None:  # its place in the queue is no longer needed
            self._scribe.request(Abandon(promise, pending.event.kind, pending.queue))
        self._settled.append((promise, outcome))

    def _deliver(self, signal: SignalArrived) -> None:
        name = signal.name
        self._pen.record(e.SignalDelivered(name, signal.payload, self._pen.ledger.next_delivery(name)))
        if name in self._open.receivers:
            self._heard.append(name)

    def settle(self, promise: PromiseId, outcome: Outcome | None) -> None:
        """A promise is settled; the program learns of it when the run resumes."""
        self._settled.append((promise, outcome))

    def _ring(self) -> None:
        """Fire the timers and begin the retries whose time has come, oldest first."""
        while not self.ended and (promise := self._open.pop_due(self._pen.clock)) is not None:
            if self._open.timers.pop(promise, None) is not None:
                self._pen.record(e.TimerFired(promise))
                self._settled.append((promise, None))
            else:
                pending = self._open.invocations[promise]
                pending.retry_at = None
                self._scribe.request(pending.request())

    # -- the program ---------------------------------------------------------------------------------------------

    def _resume(self, buffered: Sequence[SignalArrived] = ()) -> None:
        self._pen.record(e.ExecutionResumed())
        for signal in buffered:
            self._deliver(signal)
        self.hand_over()
        self._resume_while_satisfied()

    def _resume_while_satisfied(self) -> None:
        while not self.ended:
            if self._heard:
                self._receive_next()
            if not self.ledger.is_satisfied():
                return
            self._pen.record(e.ExecutionResumed())
            self.hand_over()

    def start(self) -> None:
        """Begin the program and run it to its first rest."""
        self._begun = True
        self.program.start(self._scribe, self.started)
        if self.ledger.cancel_requested:  # while it was paused: nothing of the body runs
            self.tell_cancel()
        self.go()

    def tell_cancel(self) -> None:
        """Let the program know of the cancellation that the journal records, then of all that was settled before it.

        A success that the program is never told of could not be undone. In edition 0 it was not told here.
        """
        self._cancel_told = True
        self.program.cancel(self._pen.cancel_reason)
        if self._settled and self.started.edition:
            self._deliver_settled()

    def hand_over(self) -> None:
        """Deliver what was settled, in journal order, each run to rest before the next."""
        if not self._settled:  # it would resume for ever
            raise EngineError("the program waits for a promise that it was given before")
        self._deliver_settled()
        self.go()

    def _deliver_settled(self) -> None:
        settled, self._settled = self._settled, []
        for promise, outcome in settled:
            self.program.settle(promise, outcome)

    def go(self) -> None:
        """Run the program to rest and record how that ended."""
        pen = self._pen
        self.ending = self.program.run()
        try:
            pen.command(closing(self.ending, self.program, pen, self._open))
        except Halt as halt:
            raise pen.halted or halt from None
        self._open.all_named()
        if self.ended:
            self._open.timers.clear()
            for promise in list(self._open.invocations):
                self._scribe.abandon(promise)
