"""What a program is to the kernel, and what the kernel is to a program.

A program is started, told what was settled, cancelled, and run. Running means: go on until everything waits, issuing
commands through the ``Scribe`` on the way, and say how that ended. The same journal must always give the same commands.

A program may give a checkpoint of itself. One that is restored from it must go on like one that replayed the journal.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from holdfast.journal.events import AwaitKind, ExecutionStarted
from holdfast.journal.payload import Failure, Outcome, Payload, RetryPolicy
from holdfast.journal.promise import JoinSetId, PromiseId


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """The program can go no further by itself. A wait of kind ``Open`` lists nothing: see ``Program.waiting_on``."""

    waiting_on: tuple[PromiseId, ...]
    kind: AwaitKind


class Returned(msgspec.Struct, frozen=True, gc=False):
    """The program ended with a value."""

    value: Payload


class Raised(msgspec.Struct, frozen=True, gc=False):
    """The program ended with an error."""

    failure: Failure


class Stopped(msgspec.Struct, frozen=True, gc=False):
    """The program let a cancellation through."""


class Continued(msgspec.Struct, frozen=True, gc=False):
    """The program goes on as a new generation of its run, with these arguments.

    ``carried`` is what was done and must be undone where a later generation fails.
    """

    input: Payload
    carried: Payload | None = None


Ending = Returned | Raised | Stopped | Continued
Yielded = Waiting | Ending


class Scribe(Protocol):
    """The commands that a program may issue. Each that names a promise takes the next child position."""

    def invoke(
        self,
        kind: str,
        function_name: str,
        input: Payload,
        retry_policy: RetryPolicy,
        queue: str | None = None,
        undoes: PromiseId | None = None,
    ) -> PromiseId:
        """Record the intent of a side effect and ask for it; one that compensates names what it ``undoes``."""
        ...

    def abandon(self, promise_id: PromiseId) -> None:
        """Give up an invocation, a timer or a receive: its settlement will not be delivered."""
        ...

    def timer(self, duration: int) -> PromiseId:
        """Ask to be told after so many microseconds."""
        ...

    def receive(self, name: str) -> tuple[PromiseId, Payload | None]:
        """Consume the oldest buffered signal of that name, or begin to wait for the next."""
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

    def patched(self, name: str) -> bool:
        """Whether the journal has, or from here on gets, the marker of a code change."""
        ...


class Program(Protocol):
    """Anything that advances deterministically. One instance serves one run."""

    def start(self, scribe: Scribe, started: ExecutionStarted) -> None:
        """Prepare the first turn, by the rules of the edition that the run began with."""
        ...

    def settle(self, promise_id: PromiseId, outcome: Outcome | None) -> None:
        """Deliver a settled promise: an invocation's outcome, a signal's payload, or None for a timer; then go on."""
        ...

    def cancel(self, reason: str) -> None:
        """Deliver a cancellation; then go on."""
        ...

    def run(self) -> Yielded:
        """Go on until everything waits, and say how it stands."""
        ...

    def waiting_on(self) -> tuple[PromiseId, ...]:
        """All that it waits for, for a journal that lists it."""
        ...

    def checkpoint(self) -> bytes | None:
        """Its whole state, in a format that it knows again; None where it gives none. Asked between turns only."""
        ...

    def restore(self, scribe: Scribe, started: ExecutionStarted, checkpoint: bytes) -> None:
        """In place of ``start``: be where the checkpoint was given. Nothing is run or commanded.

        Raises ValueError where it is no checkpoint that this code knows.
        """
        ...

    def close(self) -> None:
        """Forget everything without running any of the program's code."""
        ...
