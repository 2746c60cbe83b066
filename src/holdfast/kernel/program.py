"""The contract between the kernel and a program.

The kernel starts a program, delivers settled promises and cancellations to it, and runs it. ``run`` continues until
everything waits, issues commands through the ``Scribe`` on the way, and gives the wait or the end. The same journal
must always give the same commands.

A program may give a checkpoint of itself. A program restored from it must act like one that replayed the journal.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from holdfast.journal.events import AwaitKind, Event, ExecutionStarted
from holdfast.journal.payload import Failure, Outcome, Payload, RetryPolicy
from holdfast.journal.promise import JoinSetId, PromiseId


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """The program waits. A wait of kind ``Open`` lists no promises: see ``Program.waiting_on``."""

    waiting_on: tuple[PromiseId, ...]
    kind: AwaitKind


class Returned(msgspec.Struct, frozen=True, gc=False):
    """The program ended with a value."""

    value: Payload


class Raised(msgspec.Struct, frozen=True, gc=False):
    """The program ended with an error."""

    failure: Failure


class Stopped(msgspec.Struct, frozen=True, gc=False):
    """The program let a cancellation through. ``note`` is added to the recorded reason."""

    note: str = ""


class Continued(msgspec.Struct, frozen=True, gc=False):
    """The program continues as a new generation of its run, with these arguments.

    ``carried`` are the acts that must be undone if a later generation fails.
    """

    input: Payload
    carried: Payload | None = None


Ending = Returned | Raised | Stopped | Continued
Yielded = Waiting | Ending


class Scribe(Protocol):
    """The commands that a program may issue. A command that names a promise takes the next child position."""

    @property
    def run(self) -> PromiseId:
        """The run that the program is executed for."""
        ...

    @property
    def version(self) -> int:
        """How many events the journal has before what the program does now, live and in a replay."""
        ...

    def invoke(
        self,
        kind: str,
        function_name: str,
        input: Payload,
        retry_policy: RetryPolicy,
        queue: str | None = None,
        undoes: PromiseId | None = None,
        *,
        repeatable: bool = False,
    ) -> PromiseId:
        """Record the intent of a side effect and request it. A compensation names the promise that it ``undoes``. In a
        retried run a ``repeatable`` one is done again, although it was done before."""
        ...

    def note(self, kind: str, function_name: str, input: Payload, freight: object) -> None:
        """Record a call that the turn's own commit carries out, with ``freight``: it is settled at once."""
        ...

    def abandon(self, promise_id: PromiseId) -> None:
        """Give up an invocation, a timer or a receive: its settlement will not be delivered."""
        ...

    def keep(self, calls: Sequence[PromiseId]) -> None:
        """Declare the acts of these calls done: whatever becomes of the run, it relies on them."""
        ...

    def stop(self, promise_id: PromiseId) -> None:
        """Ask for the end of an invocation: no further attempt of it begins, a child is cancelled. Its outcome is still
        delivered, a failure where nothing of it was under way."""
        ...

    def timer(self, duration: int) -> PromiseId:
        """Begin a timer of so many microseconds."""
        ...

    def receive(self, name: str) -> tuple[PromiseId, Payload | None]:
        """Consume the oldest buffered signal of that name, or begin to wait for the next."""
        ...

    def is_buffered(self, name: str) -> bool:
        """Whether a signal of that name has come and was not received.

        For a program that decides by it whether it receives, and in a replay goes by ``upcoming`` instead.
        """
        ...

    def random(self, size: int) -> bytes:
        """Recorded entropy."""
        ...

    def now(self) -> int:
        """The recorded time, in microseconds since 1970."""
        ...

    def join_set(self) -> JoinSetId:
        """Create a join set."""
        ...

    def submit(self, join_set: JoinSetId, promise_id: PromiseId) -> None:
        """Make an invocation a member of the set."""
        ...

    def consume(self, join_set: JoinSetId, promise_id: PromiseId, result: Outcome) -> None:
        """Record that this member's result was taken here."""
        ...

    def upcoming(self) -> Event | None:
        """The recorded event that a replay has next; None where the run is live.

        For a program that repeats recorded commands without running its author's code.
        """
        ...

    def upcoming_call(self, kind: str) -> str | None:
        """The name of the call of this kind that a replay has next; None where there is none, or the run is live.

        For names that are resolved when a call is scheduled: a replay must take what was recorded.
        """
        ...

    def patched(self, name: str) -> bool:
        """Whether the journal has, or from here on gets, the marker of a code change."""
        ...


class Program(Protocol):
    """Anything that advances deterministically. One instance serves one run.

    ``names`` is set from outside: what names mean that a turn needs, and that only the store knows.
    """

    names: Mapping[str, str | None]

    @property
    def needs(self) -> Collection[str]:
        """The steps and actions that a worker should have to go on with it. One that lacks some leaves it to others."""
        ...

    @property
    def reference(self) -> str | None:
        """The business reference that it gives its run; None where it gives none."""
        ...

    def start(self, scribe: Scribe, started: ExecutionStarted) -> None:
        """Prepare the first turn, by the rules of the edition that the run began with."""
        ...

    def settle(self, promise_id: PromiseId, outcome: Outcome | None) -> None:
        """Deliver a settled promise: an invocation's outcome, a signal's payload, or None for a timer. The program
        continues with it."""
        ...

    def cancel(self, reason: str) -> None:
        """Deliver a cancellation. The program continues with it."""
        ...

    def revise(self, payload: Payload) -> None:
        """Go on with other code from here, as the payload says. It comes before anything else of a resumption."""
        ...

    def run(self) -> Yielded:
        """Continue until everything waits or the program has ended, and give which."""
        ...

    def waiting_on(self) -> tuple[PromiseId, ...]:
        """All promises that it waits for, for a journal that lists them."""
        ...

    def clock_of(self, promise_id: PromiseId) -> PromiseId | None:
        """The timer that stands still while this call waits for a person; None where none does."""
        ...

    def checkpoint(self) -> bytes | None:
        """Its whole state, in a format of its own; None where it gives none. Called between turns only."""
        ...

    def restore(self, scribe: Scribe, started: ExecutionStarted, checkpoint: bytes) -> None:
        """In place of ``start``: take over the state of the checkpoint. Nothing is run or commanded.

        Raises ValueError where this code does not know the checkpoint.
        """
        ...

    def close(self) -> None:
        """Forget everything without running any of the program's code."""
        ...
