"""The messages of a run's inbox: signals, cancellations, answers, and the outcomes of work done elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import cbor2
import msgspec

from holdfast.errors import StoreCorrupt
from holdfast.journal.cbor import canonical
from holdfast.journal.events import LEAVE_CHILDREN
from holdfast.journal.payload import NOTHING, Err, Failure, Ok, Outcome, Payload
from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import Arrival, AttemptFailed, CallSettled, CancelArrived, SignalArrived
from holdfast.runs.signals import RESERVED
from holdfast.store.protocol import CANCEL, Message, ReceiptRow, TaskRow


def signal(
    name: str,
    payload: Payload,
    at: int,
    id: str | None = None,
    expected_version: int | None = None,
    wait_token: str | None = None,
) -> Message:
    body: list[object] = [name, payload.data, payload.codec, expected_version]
    shown = None if name.startswith(RESERVED) else id
    if wait_token is not None or shown is not None:
        body += [wait_token, shown]
    return Message("signal", _write(body), at, id)


def cancel(reason: str, at: int) -> Message:
    return Message(CANCEL, _write([reason]), at)


def leave_children(at: int) -> Message:
    """The run is to end without waiting for the children that it has asked to stop."""
    return signal(LEAVE_CHILDREN, NOTHING, at)


def is_cancel(message: Message) -> bool:
    """Whether it asks the run to stop."""
    return message.kind == CANCEL


def settled(
    promise: PromiseId,
    outcome: Outcome,
    attempt: int,
    started_at: int,
    at: int,
    id: str | None = None,
    begun_before: bool = False,
) -> Message:
    """An invocation is settled: by queued work, or by a child that ended."""
    result: Sequence[object] = (
        [outcome.value.data, outcome.value.codec] if isinstance(outcome, Ok) else outcome.failure.fields()
    )
    body = [promise.root, promise.path[-1], attempt, started_at, isinstance(outcome, Ok), result]
    body += [True] if begun_before else []
    return Message("settled", _write(body), at, id)


ANSWERED: Final = "answered"
"""The kind of a message about a task that a person has changed."""


class CallChanged(msgspec.Struct, frozen=True, gc=False):
    """Something changed for a call at the gate: a task was answered, or a receipt closed. The kernel ignores it."""

    promise_id: PromiseId
    task: TaskRow | None = None


def answered(task: TaskRow, at: int) -> Message:
    """A task of the run was changed by a person."""
    body = [task.root, task.position, msgspec.json.encode(task)]
    return Message(ANSWERED, _write(body), at, f"task:{task.id}:{task.version}")


class _Named(msgspec.Struct, frozen=True, gc=False):
    id: str
    kind: str


def task_at_gate(message: Message) -> str | None:
    """The task of a call at the gate that the message is about; None of a form, and of any other message.

    A message that cannot be read is about none: ``read`` says so.
    """
    if message.kind != ANSWERED:
        return None
    try:
        task = msgspec.json.decode(cbor2.loads(message.body)[2], type=_Named)
    except (cbor2.CBORError, msgspec.MsgspecError, ValueError, TypeError, IndexError):
        return None
    return None if task.kind == "form" else task.id


def receipt_closed(receipt: ReceiptRow, at: int) -> Message:
    """A receipt of the run was closed after its worker had lost the run."""
    return Message("stirred", _write([receipt.root, receipt.position]), at)


def attempt_failed(arrival: AttemptFailed, at: int) -> Message:
    failure, promise = arrival.failure, arrival.promise_id
    body = [promise.root, promise.path[-1], arrival.attempt, arrival.started_at, arrival.retry_after_seconds]
    body.append(failure.fields())
    if arrival.timeout_seconds is not None:
        body += [arrival.begun_before, arrival.timeout_seconds]
    elif arrival.begun_before:
        body.append(True)
    return Message("failed", _write(body), at)


def read(message: Message, run: PromiseId) -> Arrival | CallChanged | None:
    """The message as the kernel's arrival; None where it is about a promise of an earlier lineage of the run.

    Raises StoreCorrupt where it cannot be read.
    """
    try:
        fields = cbor2.loads(message.body)
        match message.kind:
            case "signal":
                name, data, codec, *more = fields  # the version, token and id
                return SignalArrived(name, Payload(data, codec), *more)
            case "cancel":
                return CancelArrived(fields[0])
            case "settled" | "failed" | "answered" | "stirred" if fields[0] != run.root:
                return None
            case "settled":
                _, position, attempt, started_at, good, result, *begun_before = fields
                outcome = Ok(Payload(result[0], result[1])) if good else Err(Failure(*result))
                return CallSettled(run.child(position), outcome, attempt, started_at, *begun_before)
            case "failed":
                # ``more`` is whether the attempt was begun before, and its time-out.
                _, position, attempt, started_at, after, failure, *more = fields
                return AttemptFailed(run.child(position), Failure(*failure), attempt, started_at, after, *more)
            case "answered":
                return CallChanged(run.child(fields[1]), msgspec.json.decode(fields[2], type=TaskRow))
            case "stirred":
                return CallChanged(run.child(fields[1]))
            case other:
                raise ValueError(f"unknown kind {other!r}")
    except (cbor2.CBORError, msgspec.MsgspecError, ValueError, TypeError, IndexError) as error:
        raise StoreCorrupt(
            f"a message in the run's inbox cannot be read ({error}): it was damaged, or a newer Holdfast wrote it."
        ) from error


def _write(fields: list[Any]) -> bytes:
    return canonical(fields)
