"""After a retry, every act that was not undone has been done exactly once: where a journal can be cut for that."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.client.runs.retry_point import RetryPoint, retry_point
from holdfast.errors import RetryRefused
from holdfast.journal import events as e
from holdfast.journal.ledger import Ledger
from holdfast.programs.function.calls import continue_as_new
from holdfast.programs.function.decorators import Workflow, step, workflow
from tests.runs import Run, cancel, signal


@step(name="point.undo")
async def undo(value: str) -> None:
    raise AssertionError("the kernel runs no step")


@step(name="point.book", undo=undo)
async def book() -> str:
    raise AssertionError("the kernel runs no step")


@step(name="point.plain")
async def plain() -> str:
    raise AssertionError("the kernel runs no step")


@step(name="point.ship")
async def ship() -> str:
    raise AssertionError("the kernel runs no step")


STEPS = {"book": book, "plain": plain, "ship": ship}


@workflow(name="point.row")
async def row(*names: str) -> None:
    for name in names:
        await STEPS[name]()


@workflow(name="point.cleaning")
async def cleaning() -> None:
    try:
        await ship()
    except Exception:
        await plain()
        raise


@workflow(name="point.rescued")
async def rescued() -> None:
    try:
        await ship()
    except Exception:
        await plain()
    raise ArithmeticError("the body's own")


@workflow(name="point.side")
async def side() -> None:
    await asyncio.gather(ship(), plain(), book())


@workflow(name="point.rounds")
async def rounds(left: int) -> None:
    await book()
    if left:
        continue_as_new(left - 1)
    await ship()


def ended(run: Run, *fails: str) -> Run:
    """Take the run to its end: each call succeeds, but for those named."""
    run.advance()
    while not run.ended:
        wait = next(wait for wait in run.execution.waits() if wait.kind == "step")
        bad = wait.name.removeprefix("point.") in fails
        run.advance(
            run.err(wait.position, ValueError(wait.name))
            if bad
            else run.ok(wait.position, None if wait.name == undo.name else "done")
        )
    return run


def check(run: Run) -> RetryPoint:
    """The point keeps the laws of a journal, and a run rebuilt from it continues."""
    point = retry_point("r", run.journal, run.now)
    ledger = Ledger(run.id)
    for sequence, entry in enumerate(point.journal):
        ledger.append(entry.event, entry.timestamp, sequence)
    return point


def resumed(run: Run, point: RetryPoint) -> Run:
    entries = [e.Entry(sequence, entry.timestamp, entry.event) for sequence, entry in enumerate(point.journal)]
    other = run.rebuilt(entries)
    other.advance()
    return other


def test_what_was_undone_is_done_again_and_says_so() -> None:
    """Charge, ship fails, refund: a retry charges again, under another key."""
    run = ended(Run(row, "plain", "book", "ship"), "ship")
    point = check(run)
    assert point.again == ("point.book", "point.ship")
    other = resumed(run, point)
    assert other.open_calls() == ["point.book"]
    assert [invoke.mark for invoke in other.invokes.values()] == ["1"]
    again = ended(other, "ship")
    undos = [event for event in again.events if isinstance(event, e.InvokeScheduled) and event.undoes is not None]
    assert [undo.again for undo in undos] == [1]
    assert [invoke.mark for invoke in resumed(again, check(again)).invokes.values()] == ["2"]


def test_without_compensation_only_what_failed_is_done_again() -> None:
    """What succeeded before is kept."""
    run = ended(Run(row, "plain", "plain", "ship"), "ship")
    assert check(run).again == ("point.ship",)
    assert resumed(run, check(run)).open_calls() == ["point.ship"]


def test_what_could_not_be_undone_stands() -> None:
    """Its undo failed: a retry continues behind it."""
    run = ended(Run(row, "book", "ship"), "ship", "undo")
    assert check(run).again == ("point.ship",)


def test_a_step_between_what_was_undone_and_the_failure_is_kept() -> None:
    """It was not undone, so its result is given to the call that asks for it again; the journal is an ordinary one."""
    run = ended(Run(row, "book", "plain", "ship"), "ship")
    point = check(run)
    assert (point.again, point.kept) == (("point.book", "point.ship"), ("point.plain",))
    other = resumed(run, point)
    other.advance(other.ok(0, "done"))
    assert other.open_calls() == ["point.ship"]
    assert other.rebuilt().open_calls() == ["point.ship"]


def test_a_step_that_a_handler_did_after_the_failure_refuses_the_retry() -> None:
    """It may have taken back by hand what the run had done: a retry from before it could ship without a charge."""
    run = ended(Run(cleaning), "ship")
    with pytest.raises(RetryRefused, match=r"from before its failure, and 'point\.plain'"):
        check(run)


def test_the_body_s_own_error_is_retried_from_its_last_turn() -> None:
    """A call that failed long before, and was handled, has nothing to do with it."""
    run = ended(Run(rescued), "ship")
    point = check(run)
    assert point.again == ()
    assert isinstance(point.journal[-1].event, e.InvokeCompleted)


def test_a_cancelled_run_goes_on_from_before_its_cancellation() -> None:
    """What it did before and undid is done again; the request is gone."""
    run = Run(row, "plain", "ship")
    run.advance()
    run.advance(run.ok(0, "done"))
    run.advance(cancel())
    point = check(run)
    assert point.again == ("point.ship",)
    assert not any(isinstance(entry.event, e.CancelRequested) for entry in point.journal)

    run = Run(row, "book", "ship")
    run.advance()
    run.advance(run.ok(0, "done"))
    run.advance(cancel())
    run.advance(run.ok(2))
    assert check(run).again == ("point.book", "point.ship")


def test_what_ended_beside_the_failure_is_kept() -> None:
    """Its result came in the same turn, or later: it was called before the failure, so it is not done twice."""
    run = Run(side)
    run.advance()
    run.advance(run.err(0, ValueError("no")), run.ok(1, "plain"), signal("late", 1))
    point = check(run)
    assert point.again == ("point.ship", "point.book")
    assert [type(entry.event) for entry in point.journal[-2:]] == [e.InvokeCompleted, e.SignalDelivered]
    assert sorted(resumed(run, point).open_calls()) == ["point.book", "point.ship"]


def test_what_an_earlier_generation_did_cannot_be_done_again() -> None:
    """Its journal is another one."""
    run = Run(rounds, 1)
    run.advance()
    run.advance(run.ok(0, "first"))
    carried: Any = run.execution.ending
    run = ended(Run(rounds, 0, key="next", carried=carried.carried), "ship")
    with pytest.raises(RetryRefused, match="an earlier generation"):
        check(run)


def test_the_undoing_of_an_older_run_refuses_its_retry() -> None:
    """Its journal does not distinguish an undo from any other step, so it is not known which acts were undone."""
    run = ended(Run(row, "book", "ship", edition=0), "ship")
    with pytest.raises(RetryRefused, match=r"'point\.undo'"):
        check(run)


def test_a_cancellation_during_the_undoing_has_no_part_in_a_retry() -> None:
    """The run failed before it: the retry continues from its failure."""
    run = Run(row, "book", "ship")
    run.advance()
    run.advance(run.ok(0, "seat"))
    run.advance(run.err(1, ValueError("no")))
    run.advance(cancel())
    run.advance(run.err(2, ValueError("nor that")))
    assert run.ended
    assert check(run).again == ("point.ship",)


@pytest.mark.parametrize("saga", [side], ids=["gather"])
def test_two_failures_of_one_turn_are_both_tried_again(saga: Workflow[[], None]) -> None:
    """Else the one that is kept would fail the run once more."""
    run = Run(saga)
    run.advance()
    run.advance(run.err(0, ValueError("no")), run.err(1, ValueError("nor this")), run.ok(2, "seat"))
    run.advance(run.ok(3))
    assert run.ended
    assert check(run).again == ("point.ship", "point.plain", "point.book")
