"""One event of every type, and short helpers to write journals with."""

from __future__ import annotations

from typing import Final

from holdfast.journal import events as e
from holdfast.journal.payload import CONTINUED, SIGNALS, Err, Failure, Ok, Payload, RetryPolicy
from holdfast.journal.promise import JoinSetId, PromiseId

RUN: Final = PromiseId.of_run("digest", None, "key")
VALUE: Final = Payload(b"\x01")
OTHER: Final = Payload(b"\x02")
FAILURE: Final = Failure("builtins:ValueError", "no", "trace")
POLICY: Final = RetryPolicy(max_attempts=2, deadline=30.0)


def at(position: int) -> PromiseId:
    return RUN.child(position)


def join(position: int) -> JoinSetId:
    return JoinSetId(at(position))


STARTED: Final = e.ExecutionStarted("digest", Payload(b"\x82\x80\xa0"), None, "key")

FIRST_SAMPLES: Final[list[e.Event]] = [
    STARTED,
    e.ExecutionStarted("digest", VALUE, RUN.child(3).child(1), ""),
    e.ExecutionCompleted(VALUE),
    e.ExecutionCompleted(Payload(b"\x82\x81\x05\xa0", CONTINUED)),
    e.ExecutionCompleted(Payload(b"", "cbor", b"\x11" * 32)),
    e.ExecutionFailed(FAILURE),
    e.CancelRequested("enough"),
    e.ExecutionCancelled("enough"),
    e.InvokeScheduled(at(0), "step", "charge", Payload(b"\x82\x81\x18\x2a\xa1cfoo\xf5"), POLICY),
    e.InvokeStarted(at(0), 1),
    e.InvokeCompleted(at(0), Ok(VALUE), 1),
    e.InvokeCompleted(at(0), Err(FAILURE), 2),
    e.InvokeRetrying(at(0), 1, FAILURE, 99),
    e.RandomGenerated(at(1), b"\xab\xcd"),
    e.TimeRecorded(at(2), 1_700_000_000_000_000),
    e.TimerScheduled(at(3), 1_500_000, 2_000_000),
    e.TimerFired(at(3)),
    e.SignalDelivered("approval", VALUE, 1),
    e.SignalReceived(at(4), "approval", VALUE, 1),
    e.ExecutionAwaiting((at(0),), e.Single()),
    e.ExecutionAwaiting((at(0), at(3)), e.Any()),
    e.ExecutionAwaiting((at(0), at(3)), e.All()),
    e.ExecutionAwaiting((at(4),), e.Signal("approval", at(4))),
    e.ExecutionResumed(),
    e.JoinSetCreated(join(5)),
    e.JoinSetSubmitted(join(5), at(0)),
    e.JoinSetAwaited(join(5), at(0), Ok(VALUE)),
]
"""Events as the first version wrote them."""

SAMPLES: Final[list[e.Event]] = [
    *FIRST_SAMPLES,
    e.ExecutionStarted("digest", VALUE, None, "key", 1, Payload(b"\x80")),
    e.ExecutionStarted("digest", VALUE, None, "key", 1, None, (e.Inherited(3, "other", b"r" * 32),)),
    e.ExecutionStarted("digest", VALUE, None, "key", 2, signals=Payload(b"\x82\x05\x41\x00", SIGNALS)),
    e.InvokeStarted(at(0), 1, begun_before=True),
    e.InvokeScheduled(at(1), "step", "refund", Payload(b"\x82\x80\xa0"), POLICY, at(0)),
    e.ExecutionAwaiting((at(0), at(4)), e.Any(), (e.Signal("approval", at(4)),)),
    e.ExecutionAwaiting((), e.Open(), (e.Signal("approval", at(4)),)),
]
"""The same, and those with fields that came later."""
