"""One run in memory: its ledger, its program, and the turns that advance both.

The law of replay: a run rebuilt from its journal has the state that it had. This holds because rebuilding and advancing
are the same code. Arrivals are taken from the journal instead of the world. Each command is compared with the recorded
one instead of being recorded. Where the journal ends, in the middle of a turn or between two, the run is live.

The order within a turn: first the events that settle promises are recorded, then ``ExecutionResumed`` if the wait is
over. Then the settled promises are delivered in journal order; after each the program runs until it waits again. A
cancellation comes last. Arrivals before the first turn are recorded before the program begins.

A cancellation comes first where an earlier turn has recorded it (no wait is over then), or where the worker asks for
it: the program may fail on what it would get before. Then the settled promises follow it, without ``ExecutionResumed``.

The law of signals: a delivered signal is consumed by a receive that the program saw return, or stays buffered for the
next receive of its name, in order. So a signal is recorded as received only as the first delivery of a resumption, one
signal at a time. A delivery before it could make the program give up that receive, and the signal would be lost. For
the same reason a signal that came in time wins against its own timeout.

A revision replaces a program's code. It comes as a reserved signal, ends any wait, and is the first of a resumption.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from holdfast.errors import EngineError
from holdfast.journal import events as e
from holdfast.journal.ledger import Ledger
from holdfast.journal.payload import Err, Failure, Ok, Outcome
from holdfast.journal.promise import PromiseId
from holdfast.journal.status import Blocked
from holdfast.kernel.arrivals import Arrival, AttemptFailed, Begun, CallSettled, CancelArrived, SignalArrived
from holdfast.kernel.attempts import Attempts
from holdfast.kernel.carried_signals import CarriedSignals
from holdfast.kernel.checkpoint import Checkpoint, CheckpointUnusable, Rest, give, take
from holdfast.kernel.outstanding import Outstanding
from holdfast.kernel.pen import Halt, Pen
from holdfast.kernel.program import Program, Waiting, Yielded
from holdfast.kernel.replay import Replay
from holdfast.kernel.requests import Invoke, Request
from holdfast.kernel.scribe import Entropy, KernelScribe
from holdfast.kernel.turn import Turn
from holdfast.kernel.turn_end import awaiting, closing
from holdfast.kernel.waits import Wait

__all__ = ["Entropy", "Execution", "Halt", "Turn"]

_STOPPED: Final = Err(Failure("asyncio.exceptions:CancelledError", "it was stopped before its next attempt"))


class Execution:
    """A run being advanced. Make one with ``begin``, ``rebuild`` or ``restore``; after an exception, drop it.

    ``offered_at`` is the version at which its program was last asked for a checkpoint, or was restored from one;
    ``has_checkpoint`` is whether it gave or had one, and ``checkpoint_bytes`` its size, which the worker notes.
    """

    def __init__(self, run: PromiseId, program: Program, now: int, entropy: Entropy) -> None:
        self.program = program
        self.ending: Yielded | None = None
        self.offered_at = 0
        self.has_checkpoint = False
        self.checkpoint_bytes = 0
        self._entropy = entropy
        self._pen = Pen(run, now)
        self._open = Outstanding()
        self._scribe = KernelScribe(run, self._pen, self._open, entropy)
        self._settled: list[tuple[PromiseId, Outcome | None]] = []
        self._attempts = Attempts(self._pen, self._open, self._scribe, entropy, self._settled)
        self._heard: deque[str] = deque()  # names of buffered signals for which a receive was waiting when they came
        self._stale: list[SignalArrived] = []
        self._begun = False
        self._cancel_told = False

    @classmethod
    def begin(
        cls, run: PromiseId, program: Program, started: e.ExecutionStarted, now: int, entropy: Entropy
    ) -> Execution:
        """A new run. Its first turn is taken by the next ``advance``."""
        self = cls(run, program, now, entropy)
        self._pen.note(started)
        return self

    @classmethod
    def rebuild(
        cls,
        run: PromiseId,
        program: Program,
        entries: Iterable[e.Entry],
        now: int,
        entropy: Entropy,
        nodes: dict[bytes, bytes] | None = None,
    ) -> Execution:
        """A run from its journal; ``nodes`` are the blobs at hand of the signals that it carries.

        Raises Nondeterminism, LawBroken, an error that the program's code raises on purpose, or, as any turn may,
        SignalsMissing.
        """
        self = cls(run, program, now, entropy)
        self._pen.nodes = {} if nodes is None else nodes
        self._pen.load(list(entries))
        Replay(self, self._pen, self._open).walk()
        self._heard.extend(self.ledger.signals.buffered(self._open.receivers))
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

        Raises CheckpointUnusable where the checkpoint cannot be read, and the errors of ``rebuild``.
        """
        self = cls(run, program, now, entropy)
        rest = take(checkpoint, run, blobs or {}, self._pen, self._open)
        self._settled[:] = rest.settled
        self._cancel_told, self.ending = rest.cancel_told, rest.ending
        self._scribe.next_child = rest.next_child
        self._scribe.carry_former(self.started, rest.met)
        self._begun = self.has_checkpoint = True
        self.offered_at = checkpoint.version
        try:
            program.restore(self._scribe, self.started, checkpoint.program)
        except ValueError as error:
            raise CheckpointUnusable(f"the program does not know it ({error})") from error
        self._pen.load(list(tail))
        Replay(self, self._pen, self._open).walk_tail()
        self._heard.extend(self.ledger.signals.buffered(self._open.receivers))
        return self

    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint for ``restore`` at this point; None where the program gives none or does not wait.

        A run that carries signals has none: only functions begin new generations, and these give none.
        """
        self.offered_at = self._pen.ledger.version
        if self._pen.carried is not None:
            return None
        ending = self.ending
        if type(ending) is not Waiting or self.ended or (state := self.program.checkpoint()) is None:
            return None
        self.has_checkpoint = True
        met = () if self._scribe.former is None else sorted(self._scribe.former.met)
        rest = Rest(self._settled, self._cancel_told, self._scribe.next_child, ending, met)
        return give(self._pen, self._open, rest, state)

    # -- questions of the worker ---------------------------------------------------------------------------------

    @property
    def ledger(self) -> Ledger:
        return self._pen.ledger

    @property
    def carried(self) -> CarriedSignals | None:
        """The signals that it carries from earlier generations."""
        return self._pen.carried

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
        """Whether a cancellation was requested and the program has not got it yet."""
        return self._pen.ledger.cancel_requested and not self._cancel_told

    @property
    def waits_for_nothing(self) -> bool:
        """Whether the run is blocked and no arrival but a cancellation could ever move it."""
        status = self.ledger.status
        return type(status) is Blocked and not status.waiting_on and type(status.kind) is not e.Open

    def stop_clock(self, promise_id: PromiseId, waited: int, *, still: bool) -> None:
        """A call has waited so long for people, or still does: a timer that counts its own time fires as much later."""
        timer = self.program.clock_of(promise_id)
        if timer is not None:
            self._open.postpone(timer, None if still else waited)

    def undelivered(self) -> list[PromiseId]:
        """The promises that are settled and that the program gets when the run resumes."""
        return [promise for promise, _ in self._settled]

    @property
    def has_news(self) -> bool:
        """Whether the program gets something when the run resumes, although nothing more arrives."""
        return bool(self._settled or self._heard)

    def next_due(self) -> int | None:
        """When the run next needs a turn without any arrival: its earliest timer or retry."""
        return self._open.next_due()

    def outstanding(self) -> list[Request]:
        """A request for every open invocation that does not wait for a retry: for a worker that takes the run over."""
        return self._open.requests()

    def request_of(self, promise_id: PromiseId) -> Invoke | None:
        """The request for an open invocation; None where it is settled or waits for its retry."""
        pending = self._open.invocations.get(promise_id)
        return None if pending is None or pending.retry_at is not None else pending.request()

    def waits(self) -> list[Wait]:
        """The waits of the run, in order of position."""
        return self._open.waits()

    def standing(self) -> e.Event | None:
        """The event that closed, or would close, the last turn of the program."""
        return None if self.ending is None else closing(self.ending, self.program, self._pen, self._open)

    def advance(
        self, arrivals: Sequence[Arrival], now: int, *, resume: bool = True, cancel_first: bool = False
    ) -> Turn:
        """Take one turn. With ``resume=False`` (a paused run) arrivals are recorded and the program is left alone. With
        ``cancel_first`` a cancellation among the arrivals, if it is the program's first, comes before everything else
        that the program gets.

        Raises AuthorError where the program's code is at fault. Then nothing of this turn may be kept; a rebuilt
        execution can record the arrivals with ``resume=False``.
        """
        pen = self._pen
        ledger = pen.ledger
        pen.tell(now)
        going = resume and self._begun
        buffered, cancel = self._take_in(arrivals, going)
        if going:
            self._ring()
        going = going and not (cancel_first and cancel is not None and not self._cancel_told)
        if going and not ledger.ended and ledger.is_satisfied():
            self._resume(buffered)
        else:
            for signal in buffered:
                self._deliver(signal)
            if going and buffered:  # one of them may be a revision
                self._resume_while_satisfied()
        if cancel is not None and not ledger.ended and not ledger.cancel_requested:
            pen.note(e.CancelRequested(cancel.reason))
            cancel = None
        if resume and not self._begun:
            self.start()
            if self._settled:  # calls that were made before a retry have their outcomes at once
                self._resume_while_satisfied()
        elif ledger.cancel_requested and resume and self.must_hear_cancel:
            self.tell_cancel()
            self.go()
            self._resume_while_satisfied()
        turn = Turn(pen.written(), self._scribe.take_requests(), cancel)
        if self._stale:
            turn.stale, self._stale = self._stale, []
        scribe = self._scribe
        if scribe.undone or scribe.kept or scribe.inherited:
            turn.undone, turn.kept, turn.former = scribe.undone, scribe.kept, scribe.inherited
            scribe.undone, scribe.kept, scribe.inherited = [], [], []
        return turn

    # -- arrivals ------------------------------------------------------------------------------------------------

    def _take_in(self, arrivals: Sequence[Arrival], going: bool) -> tuple[list[SignalArrived], CancelArrived | None]:
        """Record the arrivals that settle promises. Gives the signals that no receive waits for, and a cancellation."""
        buffered: list[SignalArrived] = []
        cancel: CancelArrived | None = None
        if self._pen.ledger.ended:
            return buffered, cancel
        for arrival in arrivals:
            if type(arrival) is SignalArrived:
                self._hear(arrival, buffered)
            elif type(arrival) is CancelArrived:
                cancel = cancel or arrival
        if going and self._heard:
            self._receive_next()
        for arrival in arrivals:
            if type(arrival) is CallSettled:
                self._attempts.settle(arrival)
            elif type(arrival) is AttemptFailed:
                self._attempts.fail(arrival)
            elif type(arrival) is Begun and arrival.promise_id in self._open.invocations:
                self._attempts.begin(arrival)
        return buffered, cancel

    def _hear(self, signal: SignalArrived, buffered: list[SignalArrived]) -> None:
        if signal.expected_version is not None and signal.expected_version != self._pen.ledger.version:
            self._stale.append(signal)  # the journal has a later version
            return
        if signal.name in self._open.receivers:
            self._deliver(signal)
        else:
            buffered.append(signal)

    def _receive_next(self) -> None:
        """Record that a waiting receive gets its signal, if that will be the first delivery to the program."""
        names, ledger = self._heard, self._pen.ledger
        if type(ledger.status) is not Blocked or ledger.is_satisfied():
            return
        while names:
            name = names.popleft()
            promise, buffered = self._open.first_receive(name), ledger.oldest_unconsumed(name)
            if promise is not None and buffered is not None:  # else that receive was given up since
                delivery, payload = buffered
                self._pen.record(e.SignalReceived(promise, name, payload, delivery))
                self._open.end_receive(promise)
                self._settled.append((promise, Ok(payload)))
                return

    def _deliver(self, signal: SignalArrived) -> None:
        name = signal.name
        self._pen.record(e.SignalDelivered(name, signal.payload, self._pen.ledger.next_delivery(name)))
        if name in self._open.receivers:
            self._heard.append(name)

    def settle(self, promise: PromiseId, outcome: Outcome | None) -> None:
        """A promise is settled. The program gets it when the run resumes."""
        self._settled.append((promise, outcome))

    def _ring(self) -> None:
        """Fire the timers and begin the retries whose time has come, oldest first."""
        pen = self._pen
        while not pen.ledger.ended and (promise := self._open.pop_due(pen.clock)) is not None:
            if self._open.timers.pop(promise, None) is not None:
                pen.record(e.TimerFired(promise))
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
        ledger = self._pen.ledger
        while not ledger.ended:
            if self._heard:
                self._receive_next()
            if not ledger.is_satisfied():
                return
            self._pen.record(e.ExecutionResumed())
            self.hand_over()

    def start(self) -> None:
        """Begin the program and run it until it first waits or ends."""
        self._begun = True
        self._scribe.carry_former(self.started)
        self.program.start(self._scribe, self.started)
        self._revise()
        if self.ledger.cancel_requested:  # while the run was paused: nothing of the body runs
            self.tell_cancel()
        self.go()

    def tell_cancel(self) -> None:
        """Deliver the recorded cancellation to the program, then everything that was settled before it.

        A success that the program never got could not be undone. In edition 0 successes were not delivered here.
        """
        self._cancel_told = True
        self.program.cancel(self._pen.cancel_reason)
        if self._settled and self.started.edition:
            self._deliver_settled()

    def hand_over(self) -> None:
        """Deliver the settled promises in journal order; after each the program runs until it waits again."""
        is_revised = e.REVISION in self._pen.ledger.signals and self._revise()
        if not is_revised and not self._settled:  # it would resume for ever
            raise EngineError("the program waits for a promise that it was given before")
        self._deliver_settled()
        self.go()

    def _revise(self) -> bool:
        """Give the program the revisions of its code that have come; whether there were any."""
        before = self.ledger.version
        while (payload := self._scribe.take_revision()) is not None:
            self.program.revise(payload)
        return self.ledger.version != before

    def _deliver_settled(self) -> None:
        settled = self._settled.copy()
        self._settled.clear()
        for promise, outcome in settled:
            self.program.settle(promise, outcome)

    def go(self) -> None:
        """Run the program until it waits or ends, and record which."""
        pen = self._pen
        program = self.program
        ending = self.ending = program.run()
        try:
            if type(ending) is Waiting:  # nearly always
                pen.command(awaiting(ending, program, pen, self._open))
            else:
                pen.command(closing(ending, program, pen, self._open))
        except Halt as halt:
            raise pen.halted or halt from None
        self._open.all_named()
        if pen.ledger.ended:
            self._open.timers.clear()
            for promise in list(self._open.invocations):
                self._scribe.abandon(promise)
        else:
            for pending in self._scribe.take_resting():
                self._attempts.complete(pending.event.promise_id, _STOPPED, pending.attempt - 1)
            for promise, outcome in self._scribe.take_former():
                self._attempts.take_former(promise, outcome)
