"""Compensation: every success is undone, once, to the end, and none is forgotten."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from holdfast.journal import events as e
from holdfast.journal.payload import Failure
from holdfast.kernel.program import Continued
from holdfast.programs.function.calls import continue_as_new, join_set, keep_done, receive
from holdfast.programs.function.decorators import Workflow, step, workflow
from holdfast.programs.function.values import decode
from tests.runs import Run, cancel, check_replay, signal


@step(name="saga.release")
async def release(seat: str, row: str = "") -> None:
    raise AssertionError("the kernel runs no step")


@step(name="saga.book", undo=release)
async def book(row: str) -> str:
    raise AssertionError("the kernel runs no step")


@step(name="saga.boom")
async def boom() -> None:
    raise AssertionError("the kernel runs no step")


def undone(run: Run) -> list[list[Any]]:
    """The arguments of each undo, in order."""
    return [
        decode(event.input)[0]
        for event in run.events
        if isinstance(event, e.InvokeScheduled) and event.undoes is not None
    ]


def finish(run: Run) -> None:
    """Let every requested step succeed, until the run has ended."""
    while not run.ended:
        (position,) = [wait.position for wait in run.execution.waits() if wait.kind == "step"][-1:]
        run.advance(run.ok(position))
        check_replay(run)


@workflow(name="saga.gathered")
async def gathered() -> None:
    await asyncio.gather(boom(), book("A"))


@workflow(name="saga.grouped")
async def grouped() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(boom())
        group.create_task(book("A"))


@workflow(name="saga.preferred")
async def preferred() -> None:
    tasks = [asyncio.create_task(boom()), asyncio.create_task(book("A"))]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    tasks[1].cancel()
    raise ValueError("the first one")


@workflow(name="saga.joined")
async def joined() -> None:
    calls = join_set()
    calls.submit(boom())
    calls.submit(book("A"))
    await calls.next()
    await calls.next()


@pytest.mark.parametrize("saga", [gathered, grouped, preferred, joined], ids=lambda saga: saga.name)
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_success_is_undone_though_its_sibling_ended_the_run_in_the_same_turn(
    saga: Workflow[[], None], order: tuple[int, int]
) -> None:
    """Every call with a recorded success and an undo is undone, whether or not a task ever got the value."""
    run = Run(saga)
    run.advance()
    first = 1 if saga is joined else 0
    ends = {0: run.err(first, ValueError("boom")), 1: run.ok(first + 1, "1A")}
    run.advance(*(ends[which] for which in order))
    finish(run)
    assert undone(run) == [["1A", "A"]]
    assert isinstance(run.events[-1], e.ExecutionFailed)


def test_a_member_that_nobody_waited_for_is_undone_when_the_run_is_cancelled() -> None:
    """Its success was recorded while the run waited for something else, and is delivered with the cancellation."""

    @workflow
    async def aside() -> None:
        join_set().submit(book("A"))
        await receive("never")

    run = Run(aside)
    run.advance()
    run.advance(run.ok(1, "1A"))
    run.advance(cancel())
    finish(run)
    assert undone(run) == [["1A", "A"]]
    assert isinstance(run.events[-1], e.ExecutionCancelled)


@workflow(name="saga.three")
async def three() -> None:
    for row in "ABC":
        await book(row)
    await boom()


def failing(saga: Workflow[[], None] = three) -> Run:
    """A run whose three bookings have succeeded and whose last step has failed: the first undo is requested."""
    run = Run(saga)
    run.advance()
    for position, row in enumerate("ABC"):
        run.advance(run.ok(position, f"1{row}"))
    run.advance(run.err(3, ValueError("boom")))
    return run


@pytest.mark.parametrize("undos", [0, 1, 2])
def test_a_cancellation_does_not_end_the_undoing(undos: int) -> None:
    """Once compensation has begun, it is finished; the run ends as it would have ended."""
    run = failing()
    for position in range(4, 4 + undos):
        run.advance(run.ok(position))
    run.advance(cancel())
    check_replay(run)
    finish(run)
    assert [seat for seat, _ in undone(run)] == ["1C", "1B", "1A"]
    assert isinstance(run.events[-1], e.ExecutionFailed)
    assert run.abandoned == []


def test_an_undo_that_fails_does_not_keep_the_others() -> None:
    """The run's failure reports it, and the rest is undone."""
    run = failing()
    run.advance(run.err(4, ValueError("no seat like that")))
    finish(run)
    assert [seat for seat, _ in undone(run)] == ["1C", "1B", "1A"]
    assert "boom; and what was done could not all be taken back: step saga.release failed" in run.failure().message


def test_a_result_that_cannot_be_read_any_more_is_told_and_does_not_keep_the_others() -> None:
    """An undo that cannot be made is one that failed; by the present edition it is made with the value as it is."""

    @step(name="saga.count", undo=release)
    async def count() -> int:
        raise AssertionError("the kernel runs no step")

    @workflow
    async def mixed() -> None:
        await book("A")
        join_set().submit(count())
        await boom()

    run = Run(mixed, edition=1)
    run.advance()
    run.advance(run.ok(0, "1A"))
    run.advance(run.ok(2, "many"))
    run.advance(run.err(3, ValueError("boom")))
    finish(run)
    assert undone(run) == [["1A", "A"]]
    assert "the result of saga.count was stored as 'many'" in run.failure().message


@pytest.mark.parametrize(
    "end", [SystemExit, GeneratorExit, KeyboardInterrupt, BaseException], ids=lambda kind: kind.__name__
)
def test_whatever_ends_the_body_what_was_done_is_undone(end: type[BaseException]) -> None:
    """A BaseException is no way around compensation."""

    @workflow
    async def leaving() -> None:
        await book("A")
        if end is SystemExit:
            sys.exit(3)
        raise end("enough")

    run = Run(leaving)
    run.advance()
    run.advance(run.ok(0, "1A"))
    finish(run)
    assert undone(run) == [["1A", "A"]]
    assert run.failure().type == f"builtins:{end.__name__}"


@workflow(name="saga.rounds")
async def rounds(left: int, *, keep: bool = False) -> None:
    await book(str(left))
    if keep:
        keep_done()
    if left:
        continue_as_new(left - 1, keep=keep)
    await boom()


def next_generation(run: Run) -> Run:
    """The run's next generation, as a worker begins it."""
    last = run.events[-1]
    assert isinstance(last, e.ExecutionCompleted)
    args, kwargs = decode(last.result)
    ending = run.execution.ending
    assert isinstance(ending, Continued)
    return Run(rounds, *args, key=f"after {run.key}", carried=ending.carried, **kwargs)


@pytest.mark.parametrize("keep", [False, True])
def test_what_earlier_generations_did_is_undone_by_the_one_that_fails(keep: bool) -> None:
    """``continue_as_new`` carries compensation over, unless the acts were declared done."""
    run = Run(rounds, 2, keep=keep)
    for seat in ("s2", "s1"):
        run.advance()
        run.advance(run.ok(0, seat))
        run = next_generation(run)
    run.advance()
    run.advance(run.ok(0, "s0"))
    run.advance(run.err(1, ValueError("boom")))
    check_replay(run)
    finish(run)
    assert [seat for seat, _ in undone(run)] == ([] if keep else ["s0", "s1", "s2"])


@pytest.mark.parametrize("inside", [True, False], ids=["in the group's body", "in a task of the group"])
def test_a_run_continues_as_new_out_of_a_task_group(inside: bool) -> None:
    """The group wraps the exception that ends it; the request to continue is found in there, and cancelled tasks stay
    cancelled."""

    @workflow
    async def again(left: int) -> None:
        async def leave() -> None:
            continue_as_new(left - 1)

        async with asyncio.TaskGroup() as group:
            group.create_task(receive("never"))
            if inside:
                await asyncio.sleep(0)
                await leave()
            else:
                group.create_task(leave())

    run = Run(again, 3)
    run.advance()
    last = run.events[-1]
    assert isinstance(last, e.ExecutionCompleted)
    assert last.result.codec == "continued"
    assert decode(last.result)[0] == [2]
    check_replay(run)


def test_an_error_beside_the_wish_to_continue_fails_the_run() -> None:
    """No failure is swallowed."""

    @workflow
    async def torn() -> None:
        async def leave() -> None:
            continue_as_new()

        async def fail() -> None:
            raise ValueError("no")

        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            group.create_task(leave())

    run = Run(torn)
    run.advance()
    assert run.failure().type == "builtins:BaseExceptionGroup"


def test_an_older_run_compensates_as_it_did() -> None:
    """In edition 0 a success that no task got was not undone, and its journal is still replayed like that."""
    run = Run(gathered, edition=0)
    run.advance()
    run.advance(run.err(0, ValueError("boom")), run.ok(1, "1A"))
    assert run.failure() == Failure("builtins:ValueError", "boom", run.failure().trace)
    assert undone(run) == []
    check_replay(run)


@step(name="saga.free")
async def free(seat: str, row: str, color: str, count: int) -> None:
    raise AssertionError("the kernel runs no step")


@step(name="saga.reserve", undo=free)
async def reserve(row: str, color: str = "red", *, count: int = 1) -> str:
    raise AssertionError("the kernel runs no step")


def test_an_undo_gets_the_arguments_in_their_order_with_their_defaults() -> None:
    """Given by position, by name or not at all."""

    @workflow
    async def reserving() -> None:
        await reserve("x", count=5)
        await reserve(row="y")
        await boom()

    run = Run(reserving)
    run.advance()
    run.advance(run.ok(0, "1"))
    run.advance(run.ok(1, "2"))
    run.advance(run.err(2, ValueError("boom")))
    finish(run)
    assert undone(run) == [["2", "y", "red", 1], ["1", "x", "red", 5]]


def test_what_the_body_left_behind_begins_nothing_more() -> None:
    """A task that goes on for ever would be undone for ever; one that cancels all tasks cannot reach the undoing."""

    @workflow
    async def leaving() -> None:
        async def beat() -> None:
            try:
                while True:
                    await book("A")
            finally:
                for task in asyncio.all_tasks():
                    task.cancel()

        asyncio.create_task(beat())  # noqa: RUF006
        await boom()

    run = Run(leaving)
    run.advance()
    run.advance(run.ok(1, "1A"))
    run.advance(run.err(0, ValueError("boom")))
    assert run.open_calls() == ["saga.book"]
    run.advance(run.ok(2, "2A"))
    check_replay(run)
    finish(run)
    assert [seat for seat, _ in undone(run)] == ["2A", "1A"]
    assert run.failure().message == "boom"


def test_an_undo_that_cannot_be_made_is_told_by_a_later_generation() -> None:
    """The success is carried along with the reason."""

    @step(name="saga.number", undo=release)
    async def number() -> int:
        raise AssertionError("the kernel runs no step")

    @workflow(name="saga.counting")
    async def counting(left: int) -> None:
        if left:
            join_set().submit(number())
            await receive("go")
            continue_as_new(left - 1)
        await boom()

    run = Run(counting, 1, edition=1)
    run.advance()
    run.advance(run.ok(1, "many"))
    run.advance(signal("go"))
    ending = run.execution.ending
    assert isinstance(ending, Continued)
    run = Run(counting, 0, key="next", carried=ending.carried, edition=1)
    run.advance()
    run.advance(run.err(0, ValueError("boom")))
    assert "the result of saga.number was stored as 'many'" in run.failure().message
    check_replay(run)


def test_a_signal_that_comes_while_the_run_is_undone_changes_nothing() -> None:
    """Nobody waits for it any more."""
    run = failing()
    run.advance(signal("late", 1))
    finish(run)
    assert [seat for seat, _ in undone(run)] == ["1C", "1B", "1A"]
