"""Attempts: retries by the recorded policy, and reports that come too late."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.journal import events as e
from holdfast.journal.payload import RetryPolicy
from holdfast.programs.function.decorators import Workflow, step, workflow
from tests.runs import SECOND, Run, check_replay


def one_step(retry: RetryPolicy | None = None, queue: str | None = None) -> Workflow[[], str]:
    @step(retry=retry, queue=queue)
    async def charge() -> str:
        raise AssertionError("the kernel runs no step")

    @workflow
    async def pay() -> str:
        try:
            return await charge()
        except ValueError as error:
            return f"caught {error}"

    return pay


STEADY = RetryPolicy(max_attempts=3, initial=10.0, factor=2.0, jitter=0.0)


def test_a_failed_attempt_is_retried_when_its_time_has_come() -> None:
    """J-44: the promise stays, the attempt counts, and nothing is asked for before ``retry_at``."""
    run = Run(one_step(STEADY))
    assert [request.attempt for request in run.advance().requests] == [1]
    assert run.advance(run.failed(0)).requests == []
    assert run.execution.next_due() == run.now + 10 * SECOND
    assert run.advance(after=9.999999).requests == []
    [again] = run.advance(after=0.000001).requests
    assert (again.promise_id, again.attempt) == (run.promise(0), 2)
    run.advance(run.ok(0, "paid"))
    assert run.result() == "paid"
    check_replay(run)


def test_the_policy_is_exhausted_by_its_last_attempt() -> None:
    """J-61: the last failure settles the promise with its error, which the body can catch."""
    run = Run(one_step(STEADY))
    run.advance()
    for delay in (10, 20):
        run.advance(run.failed(0))
        run.advance(after=delay)
    run.advance(run.failed(0, "third"))
    assert run.names()[3:] == [
        *["InvokeStarted", "InvokeRetrying"] * 2,
        "InvokeStarted",
        "InvokeCompleted",
        "ExecutionResumed",
        "ExecutionCompleted",
    ]
    assert "third" in run.result()
    check_replay(run)


def test_the_other_side_may_ask_for_more_patience() -> None:
    """``retry_after_seconds`` lengthens the delay and never shortens it."""
    run = Run(one_step(STEADY))
    run.advance()
    run.advance(run.failed(0, retry_after=100.0))
    assert run.execution.next_due() == run.now + 100 * SECOND
    run.advance(after=100)
    run.advance(run.failed(0, retry_after=1.0))
    assert run.execution.next_due() == run.now + 20 * SECOND


def test_no_attempt_begins_after_the_deadline() -> None:
    """A retry that would begin too late is not made: the promise fails."""
    run = Run(one_step(RetryPolicy(max_attempts=9, initial=10.0, jitter=0.0, deadline=25.0)))
    run.advance()
    for after in (10, 14):
        run.advance(run.failed(0))
        run.advance(after=after)
    run.advance(run.failed(0, "late"))
    assert "late" in run.result()


def test_the_last_attempt_begins_its_time_out_before_the_deadline() -> None:
    """G-36a: the policy's own delay is shortened to that, and to a second where no attempt has a time-out."""
    for timeout, begins in ((5.0, 20), (0.2, 24), (None, 24)):
        policy = RetryPolicy(max_attempts=9, initial=10.0, jitter=0.0, deadline=25.0, attempt_timeout=timeout)
        run = Run(one_step(policy))
        run.advance()
        start = run.now
        run.advance(run.failed(0))
        run.advance(after=10)
        run.advance(run.failed(0))
        assert run.execution.next_due() == start + begins * SECOND
        run.advance(after=begins - 10)
        run.advance(run.failed(0, "late"))
        assert "late (the deadline of 25 s ended the retries)" in run.result()


def test_the_time_out_of_the_step_counts_where_the_policy_has_none() -> None:
    """The attempt's report says it: no journal has it."""
    run = Run(one_step(RetryPolicy(max_attempts=9, initial=30.0, jitter=0.0, deadline=25.0)))
    run.advance()
    failed = msgspec.structs.replace(run.failed(0), timeout_seconds=10.0)
    run.advance(failed)
    assert run.execution.next_due() == run.now + 15 * SECOND


def test_a_wish_for_patience_is_not_shortened() -> None:
    """G-36a: one that ends before the deadline is kept, one beyond it ends the retries."""
    for wish, ends in ((24.5, False), (25.5, True)):
        run = Run(one_step(RetryPolicy(max_attempts=9, initial=1.0, jitter=0.0, deadline=25.0)))
        run.advance()
        run.advance(run.failed(0, "busy", retry_after=wish))
        if ends:
            assert "busy (the deadline of 25 s ended the retries)" in run.result()
        else:
            assert run.execution.next_due() == run.now + round(wish * SECOND)


def test_a_step_whose_attempts_are_used_up_says_nothing_of_its_deadline() -> None:
    """Only where another attempt would have followed."""
    run = Run(one_step(RetryPolicy(max_attempts=1, initial=90.0, jitter=0.0, deadline=25.0)))
    run.advance()
    run.advance(run.failed(0, "no"))
    assert "deadline" not in run.result()


def test_the_deadline_counts_from_the_schedule_after_a_rebuild_too() -> None:
    """The recorded time decides, not the time when the run was loaded."""
    run = Run(one_step(RetryPolicy(max_attempts=9, initial=10.0, jitter=0.0, deadline=25.0)))
    run.advance()
    run.advance(run.failed(0))
    run = run.rebuilt()
    run.advance(after=10)
    run.advance(run.failed(0))
    run = run.rebuilt()
    assert run.execution.next_due() == run.now + 14 * SECOND
    run.advance(after=14)
    run.advance(run.failed(0, "late"))
    assert "late" in run.result()


def test_a_queued_step_is_asked_for_at_once_with_its_time() -> None:
    """The queue keeps a retry until its time has come, so the run itself has nothing to wake for."""
    run = Run(one_step(STEADY, queue="slow"))
    run.advance()
    [again] = run.advance(run.failed(0)).requests
    assert (again.queue, again.attempt, again.not_before) == ("slow", 2, run.now + 10 * SECOND)
    assert run.execution.next_due() is None


def test_a_step_that_asks_for_no_retry_is_tried_once() -> None:
    """By default a step with effects is not repeated unless its author asks for it."""
    run = Run(one_step())
    run.advance()
    run.advance(run.failed(0))
    assert "caught" in run.result()


@pytest.mark.parametrize("late", ["twice", "stale attempt", "future attempt", "unknown promise", "stale failure"])
def test_what_comes_too_late_changes_nothing(late: str) -> None:
    """Workers may report twice, or report an attempt that was given up: the first report of the live attempt counts."""
    run = Run(one_step(STEADY))
    run.advance()
    run.advance(run.failed(0))
    run.advance(after=10)
    arrival = {
        "twice": run.ok(0, "b"),
        "stale attempt": run.ok(0, "b", attempt=1),
        "future attempt": run.ok(0, "b", attempt=3),
        "unknown promise": run.ok(7, "b"),
        "stale failure": run.failed(0, attempt=1),
    }[late]
    arrivals = [run.ok(0, "a"), arrival] if late == "twice" else [arrival, run.ok(0, "a")]
    run.advance(*arrivals)
    assert run.result() == "a"
    assert run.advance(*arrivals).events == []
    check_replay(run)


def test_a_run_taken_over_asks_again_for_what_is_not_settled() -> None:
    """A worker that rebuilds a run makes the requests that the last one may have lost, with the same attempt."""
    run = Run(one_step(STEADY))
    run.advance()
    run.advance(run.failed(0))
    assert run.rebuilt().invokes == {}
    run.advance(after=10)
    other = run.rebuilt()
    [due] = other.advance().requests
    assert due.attempt == 2
    other.advance(other.ok(0, "paid", attempt=2))
    assert other.result() == "paid"


def test_the_start_of_an_attempt_keeps_its_own_time() -> None:
    """A timeline shows when the attempt began, not when its end was recorded; no stamp lies in the future."""
    run = Run(one_step())
    run.advance()
    early = run.ok(0, "paid")
    run.advance(early, after=5)
    stamps = {type(entry.event): entry.timestamp for entry in run.journal}
    assert stamps[e.InvokeCompleted] - stamps[e.InvokeStarted] == 5 * SECOND


def test_a_journal_that_ends_between_start_and_end_of_an_attempt_goes_on() -> None:
    """The prefix property inside a turn: the start is not recorded a second time."""
    run = Run(one_step(STEADY))
    run.advance()
    run.advance(run.ok(0, "paid"))
    cut = [type(entry.event) for entry in run.journal].index(e.InvokeStarted) + 1
    other = run.rebuilt(run.journal[:cut])
    other.advance(other.ok(0, "paid"))
    assert other.result() == "paid"
    assert other.names() == run.names()
