"""A cancellation comes first where the program would fail on what it gets before."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidDefinition
from holdfast.journal import events as e
from holdfast.programs.definition import model as m
from holdfast.programs.function.decorators import Workflow, step, workflow
from tests import definitions as d
from tests.runs import Run, cancel, check_replay


@step(name="first.undo_work")
async def undo_work(result: str) -> None:
    raise AssertionError("the kernel runs no step")


@step(name="first.work", undo=undo_work)
async def work() -> str:
    raise AssertionError("the kernel runs no step")


@step(name="first.more")
async def more() -> str:
    raise AssertionError("the kernel runs no step")


def two_steps() -> Workflow[[], str]:
    @workflow
    async def both() -> str:
        return await work() + await more()

    return both


def recorded_while_paused() -> Run:
    run = Run(two_steps())
    run.advance()
    run.advance(run.ok(0, "done"), cancel("enough"), resume=False)
    return run


def test_a_cancellation_that_an_earlier_turn_recorded_comes_before_what_was_settled() -> None:
    """A replay of the journal tells it first, so the live run must, too."""
    run = recorded_while_paused()
    run.advance()
    assert run.open_calls() == ["first.undo_work"]
    check_replay(run)
    run.advance(run.ok(1))
    assert run.events[-1] == e.ExecutionCancelled("enough")
    check_replay(run)


def test_so_does_one_of_a_run_that_was_rebuilt() -> None:
    run = recorded_while_paused().rebuilt()
    run.advance()
    assert run.open_calls() == ["first.undo_work"]
    assert "ExecutionResumed" not in run.names()


def test_a_second_cancellation_does_not_hold_back_what_is_settled() -> None:
    """The program has heard the first one: it gets the end of the call that it waits for, and nothing would move it
    later."""
    run = Run(two_steps())
    run.advance()
    run.advance(cancel("enough"), cancel_first=True)
    assert run.open_calls() == ["first.work"]
    run.advance(run.ok(0, "done"), cancel("enough, says its parent"), cancel_first=True)
    assert run.open_calls() == ["first.undo_work"]
    check_replay(run)
    run.advance(run.ok(1), cancel("now"), cancel_first=True)
    assert run.events[-1] == e.ExecutionCancelled("enough")
    check_replay(run)


def failing(*before: m.Node) -> Run:
    return d.begun(*before, d.put("fails", x="=1 / 0"))


def test_a_turn_that_fails_can_be_taken_with_the_cancellation_first() -> None:
    """The result that came with it is not lost: its success is undone."""
    run = failing(d.step("work", "first.work"))
    with pytest.raises(InvalidDefinition):
        run.advance(run.ok(0, "done"), cancel("enough"))
    fresh = run.rebuilt()
    fresh.advance(fresh.ok(0, "done"), cancel("enough"), cancel_first=True)
    assert fresh.open_calls() == ["first.undo_work"]
    check_replay(fresh)
    fresh.advance(fresh.ok(1))
    assert fresh.events[-1] == e.ExecutionCancelled("enough")
    check_replay(fresh)


def test_it_changes_nothing_where_nothing_is_cancelled() -> None:
    run = Run(two_steps())
    run.advance()
    run.advance(run.ok(0, "done"), cancel_first=True)
    assert run.open_calls() == ["first.more"]
    check_replay(run)


def test_a_definition_that_is_cancelled_before_its_first_turn_evaluates_nothing() -> None:
    """Not even its business reference: that may be what fails."""
    definition = m.Definition(name="test", version=1, steps=(d.put("fails", x="=1 / 0"),), reference="=start.none")
    run = Run(d.Defined(definition), {})  # type: ignore[arg-type]
    run.advance(cancel("enough"))
    assert [type(event) for event in run.events[1:]] == [e.CancelRequested, e.ExecutionCancelled]
    check_replay(run)
