"""A checkpoint: the whole state of an execution between two turns, so that it can continue without the journal before.

The law: a run restored from a checkpoint and the entries after it has the state of a run rebuilt from its whole
journal, and takes the same turns. So a checkpoint omits what a rebuild cannot know: whether a due retry was begun
already, and the order in which buffered signals met a waiting receive.

A checkpoint is only a cache. Where it cannot be used, the run is rebuilt from its journal, and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.errors import HoldfastError
from holdfast.journal import events as e
from holdfast.journal.ledger_state import (
    Stamped,
    State,
    at,
    read,
    read_events,
    read_ledger,
    write,
    write_events,
    write_ledger,
)
from holdfast.journal.payload import Outcome
from holdfast.journal.promise import PromiseId
from holdfast.kernel.outstanding import Outstanding, Pending
from holdfast.kernel.pen import Pen
from holdfast.kernel.program import Waiting


class CheckpointUnusable(Exception):
    """The run cannot be restored from this checkpoint: rebuild it from its whole journal."""


class Checkpoint(msgspec.Struct, frozen=True, gc=False):
    """The state at a version: of the ledger, the kernel and the program. ``blobs`` are the digests they refer to."""

    version: int
    ledger: bytes
    kernel: bytes
    program: bytes
    blobs: tuple[bytes, ...] = ()


class Rest(msgspec.Struct, gc=False):
    """The state that an execution itself keeps between two turns."""

    settled: list[tuple[PromiseId, Outcome | None]]
    cancel_told: bool
    next_child: int
    ending: Waiting
    met: Sequence[int] = ()  # the calls of earlier generations that were met, see ``former_calls``


class _Call(State, frozen=True):
    queue: str | None
    attempt: int
    retry_at: int | None
    stopped: bool = False


class _KernelState(State, frozen=True):
    recorded_at: int
    cancel_reason: str
    cancel_told: bool
    next_child: int
    started: bytes
    waiting: bytes
    settled: bytes  # completed calls and fired timers, in journal order
    scheduled: bytes  # the open calls, each with its time
    calls: list[_Call]  # further facts about these
    timers: list[tuple[int, int]]
    again: list[tuple[int, int]]
    receives: list[tuple[str, int]]


class _RetriedState(_KernelState, frozen=True):
    """The same of a retried run. Others are written without it, as they always were."""

    met: tuple[int, ...] = ()


def give(pen: Pen, outstanding: Outstanding, rest: Rest, program: bytes) -> Checkpoint:
    """The checkpoint of an execution with this state of its program."""
    assert pen.started is not None
    blobs: dict[bytes, bytes] = {}
    waits = e.ExecutionAwaiting(rest.ending.waiting_on, rest.ending.kind)
    calls = outstanding.invocations.values()
    state = _KernelState(
        pen.recorded_at,
        pen.cancel_reason,
        rest.cancel_told,
        rest.next_child,
        write_events([(0, pen.started)], blobs),
        write_events([(0, waits)], blobs),
        write_events([_as_event(promise, outcome) for promise, outcome in rest.settled], blobs),
        write_events([(call.scheduled_at, call.event) for call in calls], blobs),
        [_Call(call.queue, call.attempt, call.last_retry_at, call.stopped) for call in calls],
        [(at(promise), fire_at) for promise, fire_at in outstanding.timers.items()],
        [(at(promise), times) for promise, times in outstanding.again.items()],
        [(name, at(promise)) for promise, name in outstanding.receives()],
    )
    if rest.met:
        state = _RetriedState(**msgspec.structs.asdict(state), met=tuple(rest.met))
    ledger = write_ledger(pen.ledger, blobs)
    return Checkpoint(pen.ledger.version, ledger, write(state), program, tuple(sorted(blobs)))


def _as_event(promise: PromiseId, outcome: Outcome | None) -> Stamped:
    return 0, e.TimerFired(promise) if outcome is None else e.InvokeCompleted(promise, outcome, 0)


def take(
    checkpoint: Checkpoint, run: PromiseId, blobs: Mapping[bytes, bytes], pen: Pen, outstanding: Outstanding
) -> Rest:
    """Fill a new pen and its outstanding requests. Raises CheckpointUnusable."""
    try:
        return _take(checkpoint, run, blobs, pen, outstanding)
    except (ValueError, AssertionError, LookupError, HoldfastError) as error:
        raise CheckpointUnusable(f"it cannot be read ({type(error).__name__}: {error})") from error


def _take(
    checkpoint: Checkpoint, run: PromiseId, blobs: Mapping[bytes, bytes], pen: Pen, outstanding: Outstanding
) -> Rest:
    ledger = read_ledger(checkpoint.ledger, run, blobs)
    if ledger.version != checkpoint.version:
        raise ValueError(f"it is of version {checkpoint.version}, its ledger of {ledger.version}")
    state = read(checkpoint.kernel, _RetriedState)
    ((_, started),) = read_events(state.started, run, blobs)
    ((_, waits),) = read_events(state.waiting, run, blobs)
    assert isinstance(started, e.ExecutionStarted)
    assert isinstance(waits, e.ExecutionAwaiting)
    pen.go_on_from(ledger, started, state.cancel_reason, state.recorded_at)
    _take_outstanding(state, run, blobs, outstanding)
    settled = [_as_settled(event) for _, event in read_events(state.settled, run, blobs)]
    return Rest(settled, state.cancel_told, state.next_child, Waiting(waits.waiting_on, waits.kind), state.met)


def _as_settled(event: e.Event) -> tuple[PromiseId, Outcome | None]:
    assert isinstance(event, (e.InvokeCompleted, e.TimerFired))
    return event.promise_id, None if isinstance(event, e.TimerFired) else event.result


def _take_outstanding(
    state: _KernelState, run: PromiseId, blobs: Mapping[bytes, bytes], outstanding: Outstanding
) -> None:
    scheduled = read_events(state.scheduled, run, blobs)
    for (scheduled_at, event), call in zip(scheduled, state.calls, strict=True):
        assert isinstance(event, e.InvokeScheduled)
        pending = Pending(event, call.queue, scheduled_at, stopped=call.stopped)
        outstanding.add_call(pending)
        if call.retry_at is not None:
            outstanding.set_retry(pending, call.attempt - 1, call.retry_at)
    for position, fire_at in state.timers:
        outstanding.set_timer(run.child(position), fire_at)
    outstanding.again.update((run.child(position), times) for position, times in state.again)
    for name, position in state.receives:
        outstanding.add_receive(run.child(position), name)
    outstanding.all_named()
