"""What a time-out, a race or a cancellation closes: nothing more begins, and what must end is awaited."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.journal import events as e
from holdfast.programs.definition import model as m
from tests.definitions import begun, end, node, put, sleep, step, wait
from tests.runs import Run, cancel, signal
from tests.unit.programs.definition.test_interpreter import go, result

RETRY = m.NodeRetry(max=5, first=10_000_000, jitter=0.0)
LATE = m.Handlers(timeout=(put("late", late=True),))


def book(name: str = "book", **parts: Any) -> m.Node:
    """A call with an undo."""
    return step(name, "definitions.book", with_={"what": "x"}, **parts)


def child(name: str = "child", **parts: Any) -> m.Node:
    return node(name, m.RunVerb(workflow="other", arguments={}), **parts)


def attempts(run: Run) -> list[int]:
    """The attempts that were requested of the call at position 1."""
    return [invoke.attempt for promise, invoke in run.invokes.items() if promise == run.promise(1)]


def test_no_attempt_begins_after_a_time_out() -> None:
    """The call rests between two attempts when its time is over: nothing is under way, so nothing is awaited."""
    run = begun(book(retry=RETRY, timeout=m.Timeout(whole=5_000_000), on=LATE), end("=state.late"))
    run = go(run, run.failed(1))
    run = go(run, after=5)
    assert result(run) is True
    assert attempts(run) == []


def test_no_attempt_follows_one_that_fails_after_the_time_out() -> None:
    run = begun(book(retry=RETRY, timeout=m.Timeout(whole=5_000_000), on=LATE), end("=state.late"))
    run = go(run, after=5)
    assert run.open_calls() == ["definitions.book"]
    run = go(run, run.failed(1))
    assert result(run) is True
    assert not any(isinstance(event, e.InvokeRetrying) for event in run.events)


def test_a_checkpoint_knows_that_a_call_is_stopped() -> None:
    run = begun(book(retry=RETRY, timeout=m.Timeout(whole=5_000_000), on=LATE), end("=state.late"))
    run.advance(after=5)
    checkpoint = run.execution.checkpoint()
    assert checkpoint is not None
    restored = run.restored(checkpoint)
    restored.advance(restored.failed(1))
    assert result(restored) is True


def test_an_attempt_that_succeeds_after_the_time_out_is_undone() -> None:
    run = begun(book(retry=RETRY, timeout=m.Timeout(whole=15_000_000), on=LATE), end("=state.late"))
    run.advance(run.failed(1))
    run.advance(after=10)
    run.advance(after=5)
    assert attempts(run) == [2]
    run = go(run, run.ok(1, "booked"))
    assert run.open_calls() == ["definitions.free"]
    assert result(go(run, run.ok(2))) is True


def test_a_retry_that_is_due_in_the_turn_of_the_time_out_does_not_begin() -> None:
    run = begun(book(retry=RETRY, timeout=m.Timeout(whole=10_000_000), on=LATE), end("=state.late"))
    run.advance(run.failed(1))
    turn = run.advance(after=60)
    assert turn.requests == []
    assert result(run) is True


def test_a_retry_that_another_process_may_have_begun_is_awaited() -> None:
    """The run was taken over: whether its last holder began the attempt that is due now is not known."""
    run = begun(book(retry=RETRY, timeout=m.Timeout(whole=10_000_000), on=LATE), end("=state.late"))
    run.advance(run.failed(1))
    run = run.rebuilt()
    run.advance(after=60)
    assert attempts(run) == [2]
    assert not run.ended
    assert result(go(run, run.failed(1))) is True


def test_no_attempt_begins_after_a_cancellation() -> None:
    run = begun(book(retry=RETRY))
    run = go(run, run.failed(0))
    run = go(run, cancel())
    assert isinstance(run.events[-1], e.ExecutionCancelled)


def test_a_call_that_is_lost_in_the_turn_in_which_it_is_made_never_begins() -> None:
    branches = (m.Branch(name="a", do=(book(),)), m.Branch(name="b", do=(put("b", b=1),)))
    run = begun(node("race", m.ForkVerb(join=1, branches=branches)), end("over"))
    assert result(run) == "over"
    assert run.invokes == {}


@pytest.mark.parametrize("ending", ["completed", "failed", "cancelled"])
def test_a_child_that_is_out_of_time_is_stopped_and_awaited(ending: str) -> None:
    block = m.BlockVerb(do=(child(), wait("w", "never")))
    run = begun(node("in_time", block, timeout=m.Timeout(whole=5_000_000), on=LATE), end("=state.late"))
    run = go(run, after=5)
    assert run.open_calls() == ["other"]
    assert not run.ended
    outcome = run.ok(1, 7) if ending == "completed" else run.err(1, ValueError(ending))
    assert result(go(run, outcome)) is True


def test_a_stop_is_asked_for_once() -> None:
    """By the turn that closes the node; a cancellation that comes later changes nothing for the child."""
    run = begun(child(timeout=m.Timeout(whole=5_000_000), on=LATE), end("=state.late"))
    run.advance(after=5)
    assert run.stopped == [run.promise(1)]
    run.advance(cancel())
    assert run.stopped == [run.promise(1)]
    assert run.abandoned == []
    run.advance(run.err(1, ValueError("cancelled")))
    assert isinstance(run.events[-1], e.ExecutionCancelled)


def test_a_fork_goes_on_when_the_child_of_a_loser_has_ended() -> None:
    branches = (m.Branch(name="fast", do=(sleep("nap", 1),)), m.Branch(name="slow", do=(child(),)))
    run = begun(node("race", m.ForkVerb(join=1, branches=branches)), end("over"))
    (position,) = [wait.position for wait in run.execution.waits() if wait.name == "other"]
    run = go(run, after=1)
    assert not run.ended
    assert result(go(run, run.err(position, ValueError("cancelled")))) == "over"


def test_a_cancelled_run_ends_when_its_child_has() -> None:
    run = begun(child())
    run = go(run, cancel())
    assert run.open_calls() == ["other"]
    run = go(run, run.err(0, ValueError("cancelled")))
    assert isinstance(run.events[-1], e.ExecutionCancelled)


def test_an_undo_that_fails_for_a_loser_fails_the_race_that_was_won() -> None:
    """The inner race was undoing its loser when the outer one was won: the outer one hears of the failure."""
    inner = m.ForkVerb(
        join=1, branches=(m.Branch(name="i", do=(book(), wait("w", "never"))), m.Branch(name="j", do=(sleep("a", 1),)))
    )
    outer = m.ForkVerb(
        join=1, branches=(m.Branch(name="x", do=(node("inner", inner),)), m.Branch(name="y", do=(sleep("b", 2),)))
    )
    caught = m.Handlers(failure=(put("note", code="=error.code"),))
    run = begun(node("outer", outer, on=caught), end("=state.code"))
    (position,) = [wait.position for wait in run.execution.waits() if wait.name == "definitions.book"]
    run = go(run, run.ok(position, "booked"))
    run = go(run, after=1)
    (undo,) = [wait.position for wait in run.execution.waits() if wait.name == "definitions.free"]
    run = go(run, after=1)
    assert not run.ended
    assert result(go(run, run.err(undo, ValueError("stuck")))) == "UNDO"


def test_the_time_limit_of_a_node_that_is_lost_while_it_closes_is_given_up() -> None:
    """A run that is restored does not know of it, and would wait for something else than its journal says."""
    inner = m.ForkVerb(join=1, branches=(m.Branch(name="i", do=(book(),)), m.Branch(name="j", do=(sleep("a", 1),))))
    limited = node("inner", inner, timeout=m.Timeout(whole=60_000_000))
    outer = m.ForkVerb(join=1, branches=(m.Branch(name="x", do=(limited,)), m.Branch(name="y", do=(sleep("b", 2),))))
    run = begun(node("outer", outer), wait("then", "go"), end("over"))
    (position,) = [wait.position for wait in run.execution.waits() if wait.name == "definitions.book"]
    run = go(run, after=1)
    run = go(run, after=1)
    assert [wait.kind for wait in run.execution.waits()] == ["step"]
    run = go(run, run.err(position, ValueError("no")))
    assert [wait.kind for wait in run.execution.waits()] == ["receive"]
    assert result(go(run, signal("go"))) == "over"
