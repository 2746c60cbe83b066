"""The arrivals: everything that can reach a run from outside its program."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast.journal.payload import Failure, Outcome, Payload
from holdfast.journal.promise import PromiseId


class CallSettled(msgspec.Struct, frozen=True, gc=False):
    """An attempt ended the invocation, with a value or with an error that a retry cannot cure."""

    promise_id: PromiseId
    outcome: Outcome
    attempt: int
    started_at: int
    begun_before: bool = False


class AttemptFailed(msgspec.Struct, frozen=True, gc=False):
    """An attempt failed, and another may succeed. ``retry_after_seconds`` is the delay that the other side wants.

    ``timeout_seconds`` is the limit of an attempt, ``waited`` how many microseconds the call has waited for people.
    """

    promise_id: PromiseId
    failure: Failure
    attempt: int
    started_at: int
    retry_after_seconds: float | None = None
    begun_before: bool = False
    timeout_seconds: float | None = None
    waited: int = 0


class Begun(msgspec.Struct, frozen=True, gc=False):
    """The worker that took the run over begins an attempt that may have begun before: its start is recorded now."""

    promise_id: PromiseId
    attempt: int
    started_at: int
    begun_before: bool = True


class SignalArrived(msgspec.Struct, frozen=True, gc=False):
    """Someone sent the run a signal. With ``expected_version`` it counts only at that version of the journal, with
    ``wait_token`` only while the run waits for it there. ``id`` is what its sender calls it."""

    name: str
    payload: Payload
    expected_version: int | None = None
    wait_token: str | None = None
    id: str | None = None


class CancelArrived(msgspec.Struct, frozen=True, gc=False):
    """Someone asked the run to stop."""

    reason: str


Arrival = CallSettled | AttemptFailed | Begun | SignalArrived | CancelArrived


def is_stale(signal: SignalArrived, version: int, waits: Iterable[PromiseId], pending: int) -> bool:
    """Whether a run at this version is no longer as the signal's sender saw it. ``waits`` are those for its name, the
    oldest first; to these goes what is ``pending``, so they wait for nothing more."""
    if signal.expected_version not in (None, version):
        return True
    return signal.wait_token is not None and signal.wait_token not in [str(promise) for promise in waits][pending:]
