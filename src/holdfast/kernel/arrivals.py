"""What can arrive at a run from outside its program."""

from __future__ import annotations

import msgspec

from holdfast.journal.payload import Failure, Outcome, Payload
from holdfast.journal.promise import PromiseId


class Settled(msgspec.Struct, frozen=True, gc=False):
    """An attempt ended the invocation, with a value or with an error that no retry can mend."""

    promise_id: PromiseId
    outcome: Outcome
    attempt: int
    started_at: int
    begun_before: bool = False


class AttemptFailed(msgspec.Struct, frozen=True, gc=False):
    """An attempt failed in a way that another may mend. ``retry_after`` is what the other side asked for."""

    promise_id: PromiseId
    failure: Failure
    attempt: int
    started_at: int
    retry_after_seconds: float | None = None
    begun_before: bool = False


class Begun(msgspec.Struct, frozen=True, gc=False):
    """An attempt that may have been begun before is begun by whoever took the run over: its start is recorded now."""

    promise_id: PromiseId
    attempt: int
    started_at: int
    begun_before: bool = True


class SignalArrived(msgspec.Struct, frozen=True, gc=False):
    """Someone sent the run a signal, perhaps meant only for the version of its journal that the sender saw."""

    name: str
    payload: Payload
    expected_version: int | None = None


class CancelArrived(msgspec.Struct, frozen=True, gc=False):
    """Someone asked the run to stop."""

    reason: str


Arrival = Settled | AttemptFailed | Begun | SignalArrived | CancelArrived
