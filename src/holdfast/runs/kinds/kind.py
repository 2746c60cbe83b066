"""A kind of invocation: where its calls are done, which changes a commit carries for them, and how they are shown.

A call is scheduled by a program, planned with the turn that records it, carried out, and settled by an outcome. A kind
decides each of these by a value and does none of them itself. A new kind is one file with a subclass of ``Kind`` and
one line in ``table``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

import msgspec

from holdfast.errors import EngineError
from holdfast.journal.events import InvokeScheduled
from holdfast.journal.payload import Err, Failure, Outcome
from holdfast.journal.promise import PromiseId
from holdfast.journal.render import arguments
from holdfast.kernel.requests import Abandon, Carry, Invoke, Stop
from holdfast.kernel.waits import Wait
from holdfast.runs.advice import AdviceCode, Awaited
from holdfast.runs.birth import Pin
from holdfast.runs.lanes import CellOrigin
from holdfast.runs.times import when
from holdfast.store.protocol import FUNCTION, Answer, Attachable, KeepCode, Key, Run, Store

Pins = Callable[[str], Pin]
"""The code that a run of that workflow is started with."""


class Place(enum.Enum):
    """Where a call is done."""

    HERE = "by the worker that holds the run"
    GATE = "by the worker that holds the run, once the gate lets it through"
    COMMIT = "by a change that the turn's commit carries along"


class CallingRun(Protocol):
    """The facts about the calling run that a kind may use."""

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
    @property
    def hears_progress(self) -> bool: ...
    def origin_of(self, promise: PromiseId) -> CellOrigin | None: ...


class Errand(msgspec.Struct, gc=False):
    """A change that a turn's commit carries along.

    Where the commit settles the promise, ``read`` gives the outcome from the store's answer, or None where the answer
    does not settle it. ``meets`` is whether it starts a child that may exist already: then the run must be notified of
    that child, see ``children.met_again``.
    """

    change: Attachable
    promise_id: PromiseId | None = None
    read: Callable[[Answer], Outcome | None] | None = None
    meets: bool = False
    attempt: int = 1


class Shown(msgspec.Struct, frozen=True, gc=False):
    """A call in a run's timeline: its heading and its details."""

    label: str
    detail: str


class Kind:
    """One kind of invocation, with the usual behaviour; subclasses override what differs."""

    name: ClassVar[str]
    has_step: ClassVar[bool] = False
    """Whether it calls a step by its name: a worker without that step cannot continue the run."""

    def place(self, queue: str | None) -> Place:
        """The place of a call that was scheduled for this queue, or for none."""
        return Place.COMMIT

    def plan(self, run: CallingRun, request: Invoke, now: int, pins: Pins) -> Errand:
        """The errand for a call that is done by the commit. A call may be planned twice: the second time must have no
        further effect."""
        raise EngineError(f"a call of kind {self.name!r} is not done by a commit")

    def carry(self, run: CallingRun, request: Carry, now: int) -> Sequence[Errand]:
        """The errands for a call that was settled when it was recorded."""
        raise EngineError(f"a call of kind {self.name!r} carries nothing")

    def give_up(self, run: CallingRun, request: Abandon, now: int) -> Errand | None:
        """The errand for a call that nobody waits for any more, if it needs one."""
        return None

    def stop(self, run: CallingRun, request: Stop, now: int) -> Errand | None:
        """The errand for a call that must end, and whose end is awaited. The usual call ends by itself."""
        return None

    def waits(self, run: CallingRun, wait: Wait) -> Wait:
        """The wait for a call as the run's row keeps it, with the facts that only the run knows."""
        return wait

    async def explain(self, store: Store, run: Run, wait: Wait, now: int) -> Awaited:
        """What a run that waits for such a call waits for, and what would move it. The call is not late."""
        what = f"{wait.kind} {wait.name}"
        if wait.due is not None:
            return next_attempt(what, wait.due, now)
        return Awaited(AdviceCode.WAIT_CALL, what, wait.name)

    def show(self, event: InvokeScheduled) -> Shown:
        """The call in a timeline. Secrets are masked already."""
        return Shown(f"{event.function_name} ({event.kind})", f"({arguments(event.input)})")

    def is_repeated(self, edition: int) -> bool:
        """Whether a retried run that reaches the call again performs it again, although it has succeeded. The usual
        call is recognised by its name or its key."""
        return False


def next_attempt(what: str, due: int, now: int) -> Awaited:
    """A call that failed and is tried again at a time."""
    words = "due" if due > now else "which was due"
    return Awaited(AdviceCode.WAIT_ATTEMPT, f"the next attempt of {what}, {words} at {when(due, now)}", what)


def kept_code(run: CallingRun, pin: Pin) -> tuple[KeepCode, ...]:
    """The code that a started run brings along. That of a definition's children was kept when the definition's run was
    started; a function names no code before it calls it."""
    return tuple(KeepCode(run.key.tenant, code) for code in pin.keep) if run.row.program_kind == FUNCTION else ()


def failed(error: str, message: str) -> Err:
    """The outcome of a call that the store refused, as an error of that name."""
    return Err(Failure(f"holdfast.errors:{error}", message))
