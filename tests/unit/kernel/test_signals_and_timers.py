"""Signals, timers, the clock and pauses."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.journal import events as e
from holdfast.kernel.arrivals import SignalArrived
from holdfast.programs.function.calls import now, receive
from holdfast.programs.function.decorators import step, workflow
from holdfast.programs.function.values import encode
from tests.runs import NOW, SECOND, Run, check_replay, signal


@step(name="signals.work")
async def work() -> str:
    raise AssertionError("the kernel runs no step")


@workflow(name="signals.collect")
async def collect(count: int) -> list[object]:
    return [await receive("item") for _ in range(count)]


@workflow(name="signals.nap")
async def nap(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "awake"


@workflow(name="signals.approve")
async def approve() -> str:
    try:
        async with asyncio.timeout(10):
            return str(await receive("answer", str))
    except TimeoutError:
        return "too late"


@workflow(name="signals.both")
async def both() -> list[object]:
    return list(await asyncio.gather(work(), receive("item")))


def test_signals_are_received_first_in_first_out() -> None:
    """J-45: in the order in which they were delivered, however they came."""
    run = Run(collect, 3)
    run.advance()
    run.advance(signal("item", 1), signal("other", 9), signal("item", 2))
    run.advance(signal("item", 3), signal("item", 4))
    assert run.result() == [1, 2, 3]
    check_replay(run)


def test_signals_sent_before_the_first_turn_are_buffered() -> None:
    """J-46: a buffered signal is consumed without blocking."""
    run = Run(collect, 2)
    run.advance(signal("item", 1), resume=False)
    assert run.names() == ["ExecutionStarted", "SignalDelivered"]
    check_replay(run)
    run.advance(signal("item", 2))
    assert run.result() == [1, 2]
    check_replay(run)


def test_a_signal_nobody_waits_for_is_kept_without_resuming() -> None:
    """J-25: the delivery is the durable buffer."""
    run = Run(nap, 10)
    run.advance()
    run.advance(signal("item", 1))
    assert run.names()[-1] == "SignalDelivered"
    assert run.execution.ledger.signals.unconsumed()[0][0] == "item"
    check_replay(run)


def test_a_signal_in_the_same_turn_as_its_timeout_wins() -> None:
    """A signal that came in time is not lost because a worker was slow."""
    run = Run(approve)
    run.advance()
    run.advance(signal("answer", "yes"), after=60)
    assert run.result() == "yes"
    check_replay(run)


def test_a_timeout_that_passed_before_the_signal_came_wins() -> None:
    """The signal stays in the buffer."""
    run = Run(approve)
    run.advance()
    run.advance(after=10)
    assert run.result() == "too late"
    check_replay(run)


def test_a_received_signal_ends_its_timeout() -> None:
    """A timer ends with its scope: the run has nothing left to wake for."""
    run = Run(approve)
    run.advance()
    run.advance(signal("answer", "yes"), after=1)
    assert run.execution.next_due() is None
    assert "TimerFired" not in run.names()


def test_a_timer_never_fires_early() -> None:
    """CF-1: not a microsecond before its time."""
    run = Run(nap, 10)
    run.advance()
    assert run.execution.next_due() == NOW + 10 * SECOND
    assert run.advance(after=9.999999).events == []
    run.advance(after=0.000001)
    assert run.result() == "awake"
    check_replay(run)


def test_a_clock_that_goes_backwards_fires_nothing_early_and_breaks_no_law() -> None:
    """The run's own time never goes back."""
    run = Run(nap, 10)
    run.advance(after=5)
    run.now -= 1000 * SECOND
    assert run.advance().events == []
    run = run.rebuilt()
    assert run.execution.next_due() == NOW + 15 * SECOND
    run.now = NOW + 15 * SECOND
    run.advance()
    assert run.result() == "awake"
    stamps = [entry.timestamp for entry in run.journal]
    assert stamps == sorted(stamps)


@workflow(name="signals.told_then_nap")
async def told_then_nap() -> str:
    await receive("go")
    await asyncio.sleep(10)
    return "awake"


@pytest.mark.parametrize("rebuilt", [False, True])
def test_a_timer_set_after_a_clock_was_put_right_takes_its_duration(rebuilt: bool) -> None:
    """A clock was an hour ahead, and the journal keeps that time; a timer follows the present clock."""
    run = Run(told_then_nap)
    run.now += 3600 * SECOND
    run.advance()
    run.now -= 3600 * SECOND
    if rebuilt:
        run = run.rebuilt()
    run.advance(signal("go"))
    assert run.execution.next_due() == NOW + 10 * SECOND
    assert run.advance(after=9.999999).events == []
    run.advance(after=0.000001)
    assert run.result() == "awake"
    stamps = [entry.timestamp for entry in run.journal]
    assert stamps == sorted(stamps)
    check_replay(run)


@step(name="signals.tried_again", retries=1)
async def tried_again() -> str:
    raise AssertionError("the kernel runs no step")


@workflow(name="signals.trying_again")
async def trying_again() -> str:
    return await tried_again()


def test_a_retry_after_a_clock_was_put_right_takes_its_delay() -> None:
    """Like a timer."""
    run = Run(trying_again)
    run.now += 3600 * SECOND
    run.advance()
    run.now -= 3600 * SECOND
    run.advance(run.failed(0, retry_after=5))
    assert run.execution.next_due() == NOW + 5 * SECOND
    assert run.advance(after=4.999999).requests == []
    assert run.advance(after=0.000001).requests
    check_replay(run)


def test_a_timer_survives_a_rebuild_with_its_own_time() -> None:
    """J-23: the recorded ``fire_at`` decides, not the time of the rebuild."""
    run = Run(nap, 10)
    run.advance()
    run.now += 4 * SECOND
    other = run.rebuilt()
    assert other.execution.next_due() == NOW + 10 * SECOND


def test_timers_fire_in_the_order_of_their_times() -> None:
    """A worker that comes back sees them in the order in which they were due."""

    @workflow
    async def alarms() -> list[int]:
        rung: list[int] = []

        async def alarm(seconds: int) -> None:
            await asyncio.sleep(seconds)
            rung.append(seconds)

        await asyncio.gather(alarm(3), alarm(1), alarm(2))
        return rung

    run = Run(alarms)
    run.advance()
    run.advance(after=100)
    assert run.result() == [1, 2, 3]
    check_replay(run)


@pytest.mark.parametrize("seconds", [0, -5, 0.0000001])
def test_a_sleep_of_no_time_does_not_wait(seconds: float) -> None:
    """Nothing to wait for, or due in the same turn it was asked for."""
    run = Run(nap, seconds)
    run.advance()
    run.advance()
    assert run.result() == "awake"
    check_replay(run)


def test_now_is_recorded() -> None:
    """J-22: the same in every replay, at any time of the clock."""

    @workflow
    async def stamp() -> list[float]:
        first = now()
        await asyncio.sleep(60)
        return [first.timestamp(), now().timestamp()]

    run = Run(stamp)
    run.advance()
    run.advance(after=60)
    assert run.result() == [NOW / SECOND, NOW / SECOND + 60]
    run.now += 10**12
    check_replay(run)


def test_a_paused_run_records_what_arrives_and_does_not_go_on() -> None:
    """Pausing loses nothing: completions and signals are in the journal, and no signal is received before the run goes
    on."""
    run = Run(both)
    run.advance()
    turn = run.advance(run.ok(0, "done"), signal("item", 1), resume=False)
    assert [type(event) for _, event in turn.events] == [e.SignalDelivered, e.InvokeStarted, e.InvokeCompleted]
    check_replay(run)
    assert run.advance(resume=False).events == []
    run.advance()
    assert run.result() == ["done", 1]
    check_replay(run)


def test_a_timer_of_a_paused_run_fires_when_the_run_goes_on() -> None:
    """Pausing stops the clock's effects, not the clock."""
    run = Run(nap, 10)
    run.advance()
    assert run.advance(after=20, resume=False).events == []
    run.advance()
    assert run.result() == "awake"
    check_replay(run)


def test_a_run_paused_before_its_first_turn_does_not_begin() -> None:
    """Not even its first command is issued."""
    run = Run(nap, 10)
    assert len(run.advance(resume=False).events) == 1
    check_replay(run)
    run.advance()
    assert run.names()[-1] == "ExecutionAwaiting"


def test_a_journal_that_ends_between_delivery_and_receipt_goes_on() -> None:
    """The prefix property inside a turn: the receipt is recorded when the run is rebuilt."""
    run = Run(collect, 2)
    run.advance()
    run.advance(signal("item", 1))
    cut = run.names().index("SignalDelivered") + 1
    other = run.rebuilt(run.journal[:cut])
    other.advance()
    assert other.names() == run.names()
    other.advance(signal("item", 2))
    assert other.result() == [1, 2]


def test_a_signal_for_another_version_changes_nothing() -> None:
    """It counts only at the version that its sender saw. Of two for one version the first is delivered."""
    run = Run(collect, 2)
    run.advance()
    seen = len(run.events)
    stale, fresh = (SignalArrived("item", encode(value), seen + offset) for value, offset in ((0, -1), (1, 0)))
    assert run.advance(stale).events == []
    run.advance(fresh, SignalArrived("item", encode(9), seen))
    run.advance(signal("item", 2))
    assert run.result() == [1, 2]
    check_replay(run)


def test_a_timer_may_fire_later_than_the_journal_planned_and_a_replay_does_the_same() -> None:
    """For a clock that stands still: that it fired, and when, is recorded."""
    run = Run(nap, 10.0)
    run.advance()
    open_timers = run.execution._open
    open_timers.postpone(run.promise(0), None)
    assert run.execution.next_due() is None
    run.advance(after=100)
    assert not run.ended
    open_timers.postpone(run.promise(0), 500 * SECOND)
    assert run.execution.next_due() == NOW + 510 * SECOND
    run.advance(after=409)
    assert not run.ended
    run.advance(after=1)
    assert run.ended
    check_replay(run)
