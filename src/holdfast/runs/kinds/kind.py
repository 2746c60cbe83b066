"""What a kind of invocation says of its calls: where they are done, what a commit carries for them, how they are shown.

A call is scheduled by a program, planned with the turn that records it, carried out, and settled by an outcome. A kind
decides each of these by a value and does none of them itself. A new kind is one file with a subclass of ``Kind``, and
one line in ``table``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import ClassVar, Protocol

import msgspec

from holdfast.errors import EngineError
from holdfast.journal.events import InvokeScheduled
from holdfast.journal.payload import Err, Failure, Outcome
from holdfast.journal.promise import PromiseId
from holdfast.journal.render import arguments
from holdfast.kernel.outstanding import Wait
from holdfast.kernel.requests import Abandon, Invoke
from holdfast.runs.birth import Pin
from holdfast.store.protocol import Also, Answer, Key, Run, Store

Pins = Callable[[str], Pin]
"""Which code a run of that workflow is started with."""


class Place(enum.Enum):
    """Where a call is done."""

    HERE = "by the worker that holds the run"
    GATE = "by the worker that holds the run, once the gate lets it through"
    COMMIT = "by a change that the turn's commit carries along"


class CallingRun(Protocol):
    """What a kind may know of the run that calls."""

    @property
    def key(self) -> Key: ...
    @property
    def id(self) -> PromiseId: ...
    @property
    def row(self) -> Run: ...
    @property
    def generation(self) -> int: ...
    @property
    def lineage(self) -> int: ...
    @property
    def version(self) -> int: ...


class Errand(msgspec.Struct, gc=False):
    """A change that a turn's commit carries along.

    Where the commit settles the promise, ``read`` gives the outcome from the store's answer. ``meets`` is whether it
    starts a child that may be there already: then the run must hear of that child, see ``children.met_again``.
    """

    change: Also
    promise_id: PromiseId | None = None
    read: Callable[[Answer], Outcome] | None = None
    meets: bool = False


class Shown(msgspec.Struct, frozen=True, gc=False):
    """A call in a run's timeline: its heading, and what is known of it."""

    label: str
    detail: str


class Kind:
    """One kind of invocation. What is not said otherwise here is the usual."""

    name: ClassVar[str]
    has_step: ClassVar[bool] = False
    """Whether it calls a step by its name: a worker without that step cannot go on with the run."""

    def place(self, queue: str | None) -> Place:
        """Where a call is done that was scheduled for this queue, or for none."""
        return Place.COMMIT

    def plan(self, run: CallingRun, request: Invoke, now: int, pins: Pins) -> Errand:
        """What the commit carries for a call that is done by it. A call may be planned again: that must do no more."""
        raise EngineError(f"a call of kind {self.name!r} is not done by a commit")

    def give_up(self, run: CallingRun, request: Abandon, now: int) -> Errand | None:
        """What the commit carries where nobody waits for the call any more."""
        return None

    def waits(self, run: CallingRun, wait: Wait) -> Wait:
        """A wait for a call as the run's row keeps it, with what only the run knows."""
        return wait

    def is_late(self, wait: Wait, now: int) -> bool:
        """Whether its time has come and nobody was there: a worker would have taken the run up."""
        return False

    async def explain(self, store: Store, run: Run, wait: Wait, now: int) -> str:
        """What a run waits for that waits for such a call, and what would move it."""
        return f"{wait.kind} {wait.name}"

    def show(self, event: InvokeScheduled) -> Shown:
        """The call in a timeline. Secrets are masked already."""
        return Shown(f"{event.function_name} ({event.kind})", f"({arguments(event.input)})")

    def is_repeated(self, edition: int) -> bool:
        """Whether a retried run that makes the call again does it again, although it has succeeded. The usual call is
        found by its name or its key."""
        return False


def failed(error: str, message: str) -> Err:
    """The outcome of a call that the store refused, as an error of that name."""
    return Err(Failure(f"holdfast.errors:{error}", message))
