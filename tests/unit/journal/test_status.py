"""The status is a fold over the journal."""

from __future__ import annotations

import pytest

from holdfast.journal import events as e
from holdfast.journal.status import (
    CHANGING,
    RUNNING,
    Blocked,
    Cancelled,
    Cancelling,
    Completed,
    Failed,
    Status,
    after,
    fold,
    satisfied,
)
from tests.unit.journal.samples import FAILURE, SAMPLES, STARTED, VALUE, at

WAIT = e.ExecutionAwaiting((at(0),), e.Single())
BLOCKED = Blocked((at(0),), e.Single())


@pytest.mark.parametrize(
    ("events", "status"),
    [
        ([STARTED], RUNNING),
        ([STARTED, WAIT], BLOCKED),
        ([STARTED, WAIT, e.ExecutionResumed()], RUNNING),
        ([STARTED, e.CancelRequested("x")], Cancelling()),
        ([STARTED, WAIT, e.CancelRequested("x")], Cancelling()),
        ([STARTED, e.CancelRequested("x"), e.ExecutionCancelled("x")], Cancelled()),
        ([STARTED, e.ExecutionCompleted(VALUE)], Completed()),
        ([STARTED, e.ExecutionFailed(FAILURE)], Failed()),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, list) else str(len(value)),
)
def test_the_fold_gives_the_status(events: list[e.Event], status: Status) -> None:
    """J-32, J-33, J-36: the status is derived from the events alone, and resuming is one of them."""
    assert fold(events) == status


def test_exactly_seven_event_types_change_the_status() -> None:
    """J-33: the other thirteen leave it as it is."""
    assert len(e.EVENTS) == 20
    changing = {type(event) for event in SAMPLES if after(Cancelled(), event) != Cancelled()}
    assert changing | {e.ExecutionCancelled} == CHANGING
    assert len(CHANGING) == 7


@pytest.mark.parametrize(
    ("kind", "waiting_on", "resolved", "over"),
    [
        (e.Single(), (0,), (), False),
        (e.Single(), (0,), (0,), True),
        (e.All(), (0, 1), (0,), False),
        (e.All(), (0, 1), (1, 0), True),
        (e.Any(), (0, 1), (), False),
        (e.Any(), (0, 1), (1,), True),
        (e.Any(), (), (1,), False),
        (e.Signal("s", at(2)), (2,), (0,), False),
        (e.Signal("s", at(2)), (2,), (2,), True),
    ],
    ids=str,
)
def test_a_wait_is_over_by_its_kind(
    kind: e.AwaitKind, waiting_on: tuple[int, ...], resolved: tuple[int, ...], over: bool
) -> None:
    """J-34, J-35: all of single and all, one of any, the promise of a signal."""
    blocked = Blocked(tuple(map(at, waiting_on)), kind)
    assert satisfied(blocked, [at(position) for position in resolved]) is over
