"""A delivered signal is consumed by a receive that the program saw return, or stays buffered, in order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.errors import Nondeterminism
from holdfast.journal import events as e
from holdfast.programs.function.calls import continue_as_new, receive
from holdfast.programs.function.decorators import step, workflow
from tests.runs import Run, check_replay, signal


@step(name="raced.work")
async def work() -> str:
    raise AssertionError("the kernel runs no step")


@workflow(name="raced.first")
async def first(*names: str) -> list[Any]:
    """The first of them wins, the others are cancelled; then all of them are received, one after the other."""
    tasks = {name: asyncio.create_task(receive(name)) for name in names}
    done, losers = await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_COMPLETED)
    for loser in losers:
        loser.cancel()
    seen = [task.result() for name, task in tasks.items() if task in done]
    for name, task in tasks.items():
        if task in losers:
            seen.append(await receive(name))
    return seen


def test_of_two_signals_in_one_turn_the_loser_s_is_received_next() -> None:
    """Both came in one turn: the first wins the race, the other is there for the receive that follows."""
    run = Run(first, "left", "right")
    run.advance()
    run.advance(signal("right", 2), signal("left", 1))
    assert run.result() == [2, 1]
    check_replay(run)


def test_signals_of_one_name_are_received_in_order_though_a_receive_was_given_up() -> None:
    """Three of one name, one of them waited for twice: the second receive never got its signal."""

    @workflow
    async def twice() -> list[Any]:
        one, two = asyncio.create_task(receive("item")), asyncio.create_task(receive("item"))
        await asyncio.wait([one, two], return_when=asyncio.FIRST_COMPLETED)
        two.cancel()
        return [one.result(), await receive("item"), await receive("item")]

    run = Run(twice)
    run.advance()
    run.advance(signal("item", 1), signal("item", 2), signal("item", 3))
    assert run.result() == [1, 2, 3]
    check_replay(run)


def test_a_step_that_ends_in_the_same_turn_does_not_take_the_signal_away() -> None:
    """The completion makes the program give up the receive. The signal came first, or is kept."""

    @workflow
    async def either() -> list[Any]:
        signal, worked = asyncio.create_task(receive("go")), asyncio.create_task(work())
        await asyncio.wait([signal, worked], return_when=asyncio.FIRST_COMPLETED)
        if signal.done():
            return ["heard", signal.result(), await worked]
        signal.cancel()
        return ["worked", worked.result(), await receive("go")]

    run = Run(either)
    run.advance()
    run.advance(run.ok(1, "done"), signal("go", 7))
    assert run.result() == ["heard", 7, "done"]
    check_replay(run)


def test_signals_of_a_paused_run_are_received_one_at_a_time_when_it_goes_on() -> None:
    """Recorded while it was paused, also by a rebuilt run."""
    run = Run(first, "left", "right")
    run.advance()
    run.advance(signal("left", 1), resume=False)
    run = run.rebuilt()
    run.advance(signal("right", 2), resume=False)
    run = run.rebuilt()
    run.advance()
    assert run.result() == [1, 2]
    check_replay(run)


def test_a_run_that_continues_as_new_leaves_the_signal_it_did_not_see() -> None:
    """The next generation inherits every signal that no receive returned."""

    @workflow
    async def on() -> None:
        tasks = [asyncio.create_task(receive(name)) for name in ("left", "right")]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        continue_as_new()

    run = Run(on)
    run.advance()
    run.advance(signal("left", 1), signal("right", 2))
    assert run.ended
    assert [name for name, _ in run.execution.ledger.signals.unconsumed()] == ["right"]


def test_receives_are_named_in_the_journal() -> None:
    """By the await at which they begin to wait; a single receive is named by the kind."""
    run = Run(first, "left", "right")
    run.advance()
    awaiting = run.events[-1]
    assert isinstance(awaiting, e.ExecutionAwaiting)
    assert [(signal.name, signal.promise_id) for signal in awaiting.receives] == [
        ("left", run.promise(0)),
        ("right", run.promise(1)),
    ]
    run.advance(signal("left", 1))
    assert isinstance(run.events[-1], e.ExecutionAwaiting)
    assert run.events[-1].receives == ()


def test_a_renamed_receive_is_noticed_before_a_signal_comes() -> None:
    """Even with a timeout: otherwise the approval would stay in the buffer for ever."""

    def asking(name: str) -> Any:
        @workflow(name="raced.asking")
        async def asking() -> Any:
            async with asyncio.timeout(60):
                return await receive(name)

        return asking

    run = Run(asking("approval"))
    run.advance()
    with pytest.raises(Nondeterminism, match="approved"):
        run.rebuilt(workflow=asking("approved"))
    run.rebuilt(workflow=asking("approval"))
