"""Replay: a walk through a recorded journal, which brings the run to the state that it had.

Arrivals are taken from the journal. The program runs at each recorded resumption and cancellation, and the pen compares
its commands with the recorded ones. Where the journal ends, in the middle of a turn or between two, the run is live.
"""

from __future__ import annotations

from typing import NoReturn, Protocol

from holdfast.errors import EngineError, Nondeterminism
from holdfast.journal import events as e
from holdfast.journal.payload import Ok, Outcome
from holdfast.journal.promise import PromiseId
from holdfast.journal.render import line
from holdfast.kernel.outstanding import Outstanding
from holdfast.kernel.pen import Pen


class Replayed(Protocol):
    """The execution, as replay sees it."""

    def start(self) -> None: ...

    def go(self) -> None: ...

    def hand_over(self) -> None: ...

    def tell_cancel(self) -> None: ...

    def settle(self, promise: PromiseId, outcome: Outcome | None) -> None: ...

    def standing(self) -> e.Event | None: ...

    @property
    def must_hear_cancel(self) -> bool: ...


class Replay:
    """One walk through one journal."""

    def __init__(self, run: Replayed, pen: Pen, outstanding: Outstanding) -> None:
        self._run = run
        self._pen = pen
        self._open = outstanding

    def walk(self) -> None:
        """Walk the recorded journal. The program is not begun where only its start and early arrivals are recorded."""
        if self._pen.upcoming() is None:
            raise EngineError("an empty journal cannot be rebuilt")
        self._pen.take()
        self._take_while((e.SignalDelivered, e.CancelRequested))
        if self._pen.upcoming() is not None:
            self._run.start()
        self._walk_on()

    def walk_tail(self) -> None:
        """Walk the entries after the checkpoint that the run was restored from."""
        if self._run.must_hear_cancel:
            self._cancel()
        self._walk_on()

    def _walk_on(self) -> None:
        while (entry := self._pen.upcoming()) is not None:
            self._replay(entry)

    def _take_while(self, kinds: tuple[type[e.Event], ...]) -> None:
        while (entry := self._pen.upcoming()) is not None and isinstance(entry.event, kinds):
            self._pen.take()

    def _replay(self, entry: e.Entry) -> None:
        """Feed one recorded resumption, cancellation or arrival to the program."""
        kind = type(entry.event)
        if kind is e.ExecutionResumed:
            self._pen.take()
            self._take_while((e.SignalDelivered,))
            self._run.hand_over()
        elif kind is e.CancelRequested:
            self._pen.take()
            self._cancel()
        else:
            self._arrive(entry)

    def _cancel(self) -> None:
        """A cancellation was requested: the program gets it after the arrivals of the time when the run was paused."""
        while (following := self._pen.upcoming()) is not None and self._is_arrival(following.event):
            self._arrive(following)
        if self._pen.upcoming() is not None:
            self._run.tell_cancel()
            self._run.go()

    def _arrive(self, entry: e.Entry) -> None:
        match entry.event:
            case e.InvokeStarted() | e.SignalDelivered():
                pass
            case e.InvokeCompleted(promise_id=promise, result=result):
                if self._open.invocations.pop(promise, None) is not None:
                    self._run.settle(promise, result)
            case e.InvokeRetrying(promise_id=promise, failed_attempt=attempt, retry_at=retry_at):
                if (pending := self._open.invocations.get(promise)) is not None:
                    self._open.set_retry(pending, attempt, retry_at)
            case e.TimerFired(promise_id=promise):
                if self._open.timers.pop(promise, None) is not None:
                    self._run.settle(promise, None)
            case e.SignalReceived(promise_id=promise, signal_name=name, payload=payload):
                if self._open.first_receive(name) != promise:
                    self._diverged(entry)
                self._open.end_receive(promise)
                self._run.settle(promise, Ok(payload))
            case _:
                self._diverged(entry)
        self._pen.take()

    def _is_arrival(self, event: e.Event) -> bool:
        """Whether the recorded event came from outside and is not a command of the program."""
        if isinstance(event, e.SignalReceived):
            return event.promise_id in self._open.receivers.get(event.signal_name, ())
        return isinstance(
            event, (e.InvokeStarted, e.InvokeCompleted, e.InvokeRetrying, e.TimerFired, e.SignalDelivered)
        )

    def _diverged(self, entry: e.Entry) -> NoReturn:
        standing = self._run.standing()
        raise Nondeterminism(entry.sequence, line(entry.event), "nothing" if standing is None else line(standing))
