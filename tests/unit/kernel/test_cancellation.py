"""Cancellation is a fact in the journal, then an exception in the body, then an end (J-48)."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.journal import events as e
from holdfast.programs.function.calls import receive
from holdfast.programs.function.decorators import Workflow, step, workflow
from tests.runs import Run, cancel, check_replay, signal


def tidy(*, swallow: bool = False) -> Workflow[[], str]:
    @step
    async def work() -> str:
        raise AssertionError("the kernel runs no step")

    @step
    async def clean() -> None:
        raise AssertionError("the kernel runs no step")

    @workflow
    async def careful() -> str:
        try:
            return await work()
        except asyncio.CancelledError:
            await clean()
            if swallow:
                return "kept"
            raise

    return careful


def test_cleanup_steps_run_between_the_request_and_the_end() -> None:
    """Two phases: the request is recorded at once, the end after the cleanup."""
    run = Run(tidy())
    run.advance()
    run.advance(cancel("by hand"))
    assert run.open_calls() == ["clean"]
    assert run.abandoned == [run.promise(0)]
    run.advance(run.ok(1))
    assert run.names() == [
        "ExecutionStarted",
        "InvokeScheduled",
        "ExecutionAwaiting",
        "CancelRequested",
        "InvokeScheduled",
        "ExecutionAwaiting",
        "InvokeStarted",
        "InvokeCompleted",
        "ExecutionResumed",
        "ExecutionCancelled",
    ]
    assert run.events[-1] == e.ExecutionCancelled("by hand")
    check_replay(run)


def test_a_cancellation_before_the_first_turn_runs_nothing_of_the_body() -> None:
    """It is recorded before the program begins, and the program ends without having done anything."""
    run = Run(tidy())
    turn = run.advance(cancel())
    assert turn.requests == []
    assert [type(event) for event in run.events[1:]] == [e.CancelRequested, e.ExecutionCancelled]
    check_replay(run)


def test_a_second_cancellation_is_ignored() -> None:
    """One request is recorded; the cleanup is not interrupted."""
    run = Run(tidy())
    run.advance()
    run.advance(cancel("one"), cancel("two"))
    assert run.advance(cancel("three")).events == []
    run.advance(run.ok(1))
    assert run.events[-1] == e.ExecutionCancelled("one")


def test_a_body_may_catch_the_cancellation_and_complete() -> None:
    """Cancelling asks; the body answers."""
    run = Run(tidy(swallow=True))
    run.advance()
    run.advance(cancel())
    run.advance(run.ok(1))
    assert run.result() == "kept"
    check_replay(run)


def test_a_cancellation_after_the_end_is_ignored() -> None:
    """S-4: nothing follows a terminal event."""
    run = Run(tidy())
    run.advance()
    run.advance(run.ok(0, "done"))
    assert run.advance(cancel(), signal("x")).events == []


def test_a_completion_in_the_same_turn_is_delivered_before_the_cancellation() -> None:
    """The completion is not lost: the run ends before the cancellation could reach it."""
    run = Run(tidy())
    run.advance()
    run.advance(cancel(), run.ok(0, "done"))
    assert run.result() == "done"
    assert "CancelRequested" not in run.names()


def test_a_shielded_step_is_not_given_up() -> None:
    """``asyncio.shield`` works: the step continues, and the body can still wait for it."""

    @step
    async def commit() -> str:
        raise AssertionError("the kernel runs no step")

    @workflow
    async def shielding() -> str:
        inner = asyncio.ensure_future(commit())
        try:
            return await asyncio.shield(inner)
        except asyncio.CancelledError:
            return await inner

    run = Run(shielding)
    run.advance()
    run.advance(cancel())
    assert run.abandoned == []
    assert run.open_calls() == ["commit"]
    run.advance(run.ok(0, "committed"))
    assert run.result() == "committed"
    check_replay(run)


def test_a_body_that_waits_for_nothing_can_be_cancelled() -> None:
    """A stall is visible, and the one way out of it works."""

    @workflow
    async def stuck() -> None:
        await asyncio.Event().wait()

    run = Run(stuck)
    run.advance()
    assert run.execution.waits_for_nothing
    assert run.execution.next_due() is None
    check_replay(run)
    run.advance(cancel())
    assert isinstance(run.events[-1], e.ExecutionCancelled)
    assert not run.execution.waits_for_nothing


def test_a_run_that_waits_for_something_does_not_wait_for_nothing() -> None:
    """A signal may always come."""

    @workflow
    async def patient() -> None:
        await receive("go")

    run = Run(patient)
    run.advance()
    assert not run.execution.waits_for_nothing


def test_a_stray_cancelled_error_is_a_failure_of_the_run() -> None:
    """S-5: nobody asked the run to stop, so a body that awaits a task it cancelled itself has failed."""

    @workflow
    async def astray() -> None:
        task = asyncio.ensure_future(asyncio.sleep(10))
        task.cancel()
        await task

    run = Run(astray)
    run.advance()
    assert run.failure().type == "asyncio.exceptions:CancelledError"
    check_replay(run)


@pytest.mark.parametrize("rebuild", [False, True])
def test_a_cancellation_while_paused_is_delivered_when_the_run_goes_on(rebuild: bool) -> None:
    """The request is recorded at once, and arrivals before the run resumes are recorded after it: nothing is lost."""
    run = Run(tidy())
    run.advance()
    run.advance(cancel(), resume=False)
    run.advance(run.ok(0, "done"), signal("later", 1), resume=False)
    assert run.names()[3:] == ["CancelRequested", "InvokeStarted", "InvokeCompleted", "SignalDelivered"]
    check_replay(run)
    if rebuild:
        run = run.rebuilt()
    run.advance()
    assert run.open_calls() == ["clean"]
    check_replay(run)
    run.advance(run.ok(1))
    assert isinstance(run.events[-1], e.ExecutionCancelled)
    check_replay(run)


@pytest.mark.parametrize("rebuild", [False, True])
def test_a_run_cancelled_while_paused_before_its_first_turn_never_runs(rebuild: bool) -> None:
    """Nothing of the body runs, so nothing needs cleaning up."""
    run = Run(tidy())
    run.advance(signal("early"), cancel(), signal("late"), resume=False)
    if rebuild:
        run = run.rebuilt()
    run.advance()
    assert run.names() == [
        "ExecutionStarted",
        "SignalDelivered",
        "SignalDelivered",
        "CancelRequested",
        "ExecutionCancelled",
    ]
    check_replay(run)


@pytest.mark.parametrize("rebuild", [False, True])
def test_a_signal_that_comes_after_a_cancellation_while_paused_stays_buffered(rebuild: bool) -> None:
    """The waiting receive is given up with the cancellation: it never got the signal."""

    @workflow
    async def patient() -> None:
        await asyncio.gather(receive("go"), asyncio.sleep(5))

    run = Run(patient)
    run.advance()
    run.advance(cancel(), resume=False)
    run.advance(signal("go", 1), resume=False)
    assert run.names()[-2:] == ["CancelRequested", "SignalDelivered"]
    check_replay(run)
    if rebuild:
        run = run.rebuilt()
    run.advance()
    assert isinstance(run.events[-1], e.ExecutionCancelled)
    check_replay(run)
