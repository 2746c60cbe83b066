"""A call that was made and never awaited was not done: the run fails, and names the line."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.programs.function.calls import continue_as_new, join_set
from holdfast.programs.function.decorators import Workflow, step, workflow
from tests.runs import Run, check_replay


@step(name="forgotten.release")
async def release(seat: str) -> None:
    raise AssertionError("the kernel runs no step")


@step(name="forgotten.book", undo=release)
async def book() -> str:
    raise AssertionError("the kernel runs no step")


@step(name="forgotten.charge")
async def charge(order: str) -> str:
    raise AssertionError("the kernel runs no step")


@workflow(name="forgotten.child")
async def child() -> None: ...


@workflow(name="forgotten.statement")
async def statement() -> str:
    charge("a book")  # type: ignore[unused-coroutine]
    return await book()


@workflow(name="forgotten.of_a_child")
async def of_a_child() -> str:
    child()  # type: ignore[unused-coroutine]
    return await book()


@pytest.mark.parametrize(
    ("saga", "what"), [(statement, "step forgotten.charge"), (of_a_child, "workflow forgotten.child")]
)
def test_a_call_that_is_thrown_away_fails_the_run_at_once(saga: Workflow[[], str], what: str) -> None:
    """Before anything that comes after it is done."""
    run = Run(saga)
    run.advance()
    line = saga.function.__code__.co_firstlineno + 2
    assert run.failure().type == "holdfast.errors:NotAwaited"
    assert run.failure().message.startswith(f"{what} was called and never awaited, so it was not done: ")
    assert f"{__file__}, line {line}, in " in run.failure().message
    assert run.open_calls() == []
    check_replay(run)


def test_a_call_that_is_kept_and_never_awaited_fails_the_run_at_its_end() -> None:
    """What was done is undone."""

    @workflow
    async def kept() -> str:
        call = charge("a book")
        seat = await book()
        return f"{seat} {call is not None}"

    run = Run(kept)
    run.advance()
    run.advance(run.ok(0, "1A"))
    assert run.open_calls() == ["forgotten.release"]
    run.advance(run.ok(1))
    assert run.failure().type == "holdfast.errors:NotAwaited"
    check_replay(run)


def test_a_run_that_continues_as_new_is_held_to_it_too() -> None:
    """The call would be lost with the generation."""

    @workflow
    async def on() -> None:
        calls = [charge("a book")]
        assert calls
        continue_as_new()

    run = Run(on)
    run.advance()
    assert run.failure().type == "holdfast.errors:NotAwaited"


def test_a_call_that_somebody_sees_to_is_not_complained_of() -> None:
    """Awaited, gathered, submitted, given to a task, or closed on purpose."""

    @workflow
    async def careful() -> int:
        results = join_set()
        results.submit(charge("submitted"))
        charge("not wanted").close()
        task = asyncio.create_task(charge("in a task"))
        await asyncio.gather(charge("gathered"), charge("too"))
        task.cancel()
        return len(results)

    run = Run(careful)
    run.advance()
    run.advance(run.ok(3, "a"), run.ok(4, "b"))
    assert run.result() == 1
    check_replay(run)


def test_calls_that_other_code_makes_are_not_complained_of() -> None:
    """``map()`` and the like make the calls inside a statement whose own value is dropped."""

    @workflow
    async def mapped() -> int:
        calls: list[object] = []
        calls.extend(map(charge, ["a", "b"]))
        async with asyncio.TaskGroup() as group:
            list(map(group.create_task, map(charge, ["c"])))
        return len(await asyncio.gather(*calls))  # type: ignore[call-overload,no-any-return]

    run = Run(mapped)
    run.advance()
    run.advance(run.ok(0, "c"))
    run.advance(run.ok(1, "a"), run.ok(2, "b"))
    assert run.result() == 2
    check_replay(run)


def test_an_older_run_goes_on_as_it_did() -> None:
    """In edition 0 nobody looked."""
    run = Run(statement, edition=0)
    run.advance()
    run.advance(run.ok(0, "1A"))
    assert run.result() == "1A"
    check_replay(run)
