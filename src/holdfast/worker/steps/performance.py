"""One attempt of a step or an act, and what the code inside it may say: that it is alive, and how far it is.

The context for ``heartbeat()``, ``report()`` and ``step_info()`` travels in a context variable.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.errors import NotInWorkflow
from holdfast.gate.effects import Arguments, Performable
from holdfast.journal.payload import ONCE, Payload, RetryPolicy
from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import AttemptFailed, CallSettled
from holdfast.kernel.requests import name_of
from holdfast.programs.function.values import encode
from holdfast.runs.payload_room import PayloadPlace
from holdfast.runs.tracing import TRACEPARENT
from holdfast.store.protocol import Key, ReceiptRow, Run
from holdfast.worker.steps.progress import ProgressReports

Outcome = CallSettled | AttemptFailed
Report = Callable[["Performance", Outcome], None]
Beats = Callable[["Performance", bytes], None]


class StepInfo(msgspec.Struct, frozen=True, gc=False):
    """What a running step may know of itself. ``key`` is the same for every attempt: use it as an idempotency key.

    ``begun_before`` says that this very attempt may have been begun before, by a worker that did not live to tell what
    came of it, or that handed it back unfinished; for an action, that an attempt of unknown outcome came before. Where
    it is set, look whether the act was done before you do it.
    """

    tenant: str
    run: str
    step: str
    attempt: int
    key: str
    progress: Any = None
    begun_before: bool = False


class Performance(msgspec.Struct):
    """One attempt. ``owner`` is whatever its caller wants to find again when it hears of it."""

    step: Performable
    key: Key
    promise: PromiseId
    attempt: int
    input: Payload
    report: Report
    beats: Beats
    owner: Any
    loop: asyncio.AbstractEventLoop
    given: Arguments | None = None  # the arguments, where they were read before
    act: str | None = None  # the idempotency key of the act that it does, or looks for
    mark: str = ""  # distinguishes it from other calls that had its place
    uncut: bool = False  # once begun, it is never called off
    begun_before: bool = False  # an earlier holder may have begun it
    retry: RetryPolicy = ONCE  # what the call itself says of its attempts
    run: Run | None = None  # where its row is at hand
    receipt: ReceiptRow | None = None  # of an act
    trace: str | None = None  # its run's trace, where its row is not at hand
    reports: ProgressReports | None = None  # of an effect of a cell that hears them
    arguments: PayloadPlace | None = None  # the room that large ones take, while it is under way
    result: PayloadPlace | None = None  # and a large result, until it is taken over
    begun: bool = False
    entered: bool = False  # its task has started
    done: bool = False  # the function returned, whatever came of its result
    unknown: bool = False  # it failed, and whether its act was done is not known
    called_off: bool = False
    stopped: bool = False  # its run wants it to end, and awaits that
    expired: bool = False
    progress: Any = None
    last_beat: float = 0.0
    task: asyncio.Task[None] | None = None  # while it is under way

    @property
    def info(self) -> StepInfo:
        key = self.name if self.act is None else self.act
        return StepInfo(
            self.key.tenant, self.key.run, self.step.name, self.attempt, key, self.progress, self.begun_before
        )

    @property
    def name(self) -> str:
        """What the other side knows the call by, where it has no other key. See ``Invoke.name``."""
        return name_of(self.promise, self.mark)

    @property
    def traceparent(self) -> str | None:
        """The trace that its run was started in."""
        return self.trace if self.run is None else self.run.attributes.get(TRACEPARENT)

    @property
    def under_way(self) -> bool:
        """Whether its task runs just now. A loop that is closed throws GeneratorExit into tasks that do not."""
        try:
            return self.task is not None and asyncio.current_task() is self.task
        except RuntimeError:  # no loop runs any more
            return False

    @property
    def timeout(self) -> float | None:
        """How many seconds it may take: the call's own word comes before the step's."""
        own = self.retry.attempt_timeout
        return self.step.timeout if own is None else own

    @property
    def writes(self) -> bool:
        """Whether it does something outside that must not be done twice: an act that writes, and not its probe."""
        return self.step.writes

    def take_result(self) -> PayloadPlace | None:
        """Take over its large result: the caller releases it once it is durable."""
        result, self.result = self.result, None
        return result

    def cancel(self) -> None:
        """Call the attempt off: no arrival comes of it. A plain function notices at its next ``heartbeat()``."""
        if self.uncut and self.begun:
            return
        self.called_off = True
        if self.task is not None and self.entered:  # cancelled before it starts, it never gives its place back
            self.task.cancel()

    def beat(self, details: object) -> None:
        if self.called_off or self.expired:
            raise asyncio.CancelledError("the step was called off")
        if self.stopped and not self.uncut:  # an act must come to its end, or its outcome would be unknown
            raise asyncio.CancelledError("the step was stopped")
        self.last_beat = self.loop.time()
        if details is not None:
            self.loop.call_soon_threadsafe(self.beats, self, encode(details, "a heartbeat's details").data)

    def tell(self, details: object) -> None:
        self.beat(None)
        if self.reports is not None:  # else nobody hears it
            self.reports.add(details)

    def end_reports(self, reports: ProgressReports) -> None:
        """Send the last report in front of what came of the attempt; of one that was called off, nothing more."""
        if self.called_off:
            reports.close()
        else:
            reports.finish()


_performance: contextvars.ContextVar[Performance | None] = contextvars.ContextVar("holdfast-performance", default=None)


def heartbeat(details: object = None) -> None:
    """Say that a long step is alive and how far it is. Raises CancelledError if the step was called off, or its run
    wants it to end. In an action it does not: what has begun comes to its end."""
    _current("heartbeat()").beat(details)


def report(details: object) -> None:
    """Tell the machine that asked for this step or action how far it is: its cell gets ``details`` as ``Progress``.

    Of several reports within a tenth of a second the newest is delivered; the last one always comes before ``Settled``.
    Where no machine asked, or it does not accept ``Progress``, nothing is sent. It also shows that a long step is
    alive, as ``heartbeat()`` does. Raises CancelledError where the step was called off, and PayloadTooLarge over 64
    KiB.
    """
    _current("report()").tell(details)


def step_info() -> StepInfo:
    """Which step this is, of which run, at which attempt, and the details of the last attempt's heartbeat."""
    return _current("step_info()").info


def performance_now() -> Performance | None:
    """The attempt that the present code belongs to, if it belongs to one."""
    return _performance.get()


def is_authored() -> bool:
    """Whether an author's step runs just now, and not the engine."""
    return _performance.get() is not None


def _current(what: str) -> Performance:
    performance = _performance.get()
    if performance is None:
        raise NotInWorkflow(f"{what} works only inside a step that the engine runs.")
    return performance
