"""Schedules go by the store's clock: a worker whose own is off starts nothing, and a jump is looked at twice."""

from __future__ import annotations

import asyncio
import datetime
import logging

import pytest

from holdfast import Holdfast
from holdfast.schedules.timing import microseconds, moment
from holdfast.testing.virtual import VirtualClock
from holdfast.worker.roles.store_clock import JUMP, SECOND_LOOK_SECONDS, StoreClock, clock_ahead
from tests.unit.worker.ground import Ground, Line
from tests.unit.worker.scheduled import acts_of, quick_report, runs_of, words_of

SECOND = 1_000_000
NOW = 1_800_000_000 * SECOND


def clock_of(app: Holdfast) -> VirtualClock:
    assert isinstance(app.clock, VirtualClock)
    return app.clock


@pytest.mark.parametrize(
    ("before", "store", "after", "ahead"),
    [(10, 10, 10, 0), (10, 15, 20, 0), (10, 20, 12, -8), (30, 20, 40, 10), (10, 10, 99, 0)],
)
def test_a_clock_is_off_by_what_the_time_of_the_question_does_not_explain(
    before: int, store: int, after: int, ahead: int
) -> None:
    assert clock_ahead(before, store, after) == ahead


def test_a_reading_is_believed_or_looked_at_twice() -> None:
    """Readings in order: the store's clock and this process's, both in seconds since the first; what is thought."""
    look = SECOND_LOOK_SECONDS
    table = [
        (0, 0, True),
        (86_400, 86_400, True),  # a day without a look
        (86_000, 86_405, True),  # it went back
        (86_410, 86_406, True),  # and came again: less than ten minutes
        (99_999, 86_410, False),  # a jump
        (99_999 + 1, 86_411, False),  # too early for a second look
        (86_416, 86_412, True),  # it came back, and nothing was done
        (99_999, 86_420, False),
        (200_000, 86_430, False),  # another jump: the first was not confirmed
        (200_000 + look, 86_430 + look, True),
        (200_000 + look + JUMP / 1e6, 86_430 + look, True),  # not a jump
    ]
    clock = StoreClock()
    assert [clock.believes(NOW + int(now * SECOND), time) for now, time, _ in table] == [each[2] for each in table]
    assert clock.now(86_430 + look + 3) == NOW + int((200_000 + look + 3) * SECOND) + JUMP


@pytest.mark.parametrize("skew", [3_600.0, -3_600.0, 5.5])
def test_a_worker_whose_clock_is_off_starts_nothing_and_says_so(
    skew: float, virtual: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in its log alone: it stands in its row, and in the explanation. Once its clock is right, it schedules."""

    async def main(ground: Ground) -> None:
        store_clock = ground.clock
        ground.clock = VirtualClock(asyncio.get_running_loop(), skew)
        async with ground.engine(quick_report) as app:
            ground.clock = store_clock
            await app.schedules.create("s", quick_report, every=60)
            await asyncio.sleep(200)
            assert await runs_of(app, "s") == []
            assert words_of(await acts_of(ground.store, "s")) == ["schedule_workflow"]
            (worker,) = await ground.store.workers()
            assert abs(worker.clock_ahead / 1e6 - skew) < 0.1
            assert f"{abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} the store's" in caplog.text
            clock_of(app).skew_seconds = 0.0
            explained = await app.schedules.explain("s")
            assert any("No worker may start it" in each for each in explained)
            await asyncio.sleep(20)
            assert len(await runs_of(app, "s")) == 1
            assert words_of(await acts_of(ground.store, "s"))[1:] == ["miss_scheduled", "trigger_scheduled"]
            assert [each.clock_ahead for each in await ground.store.workers()] == [0]

    with caplog.at_level(logging.INFO, "holdfast.scheduler"):
        virtual.play(main)


def test_a_worker_whose_clock_is_off_a_little_writes_no_tick_of_the_future(virtual: Ground) -> None:
    async def main(ground: Ground) -> None:
        store_clock = ground.clock
        ground.clock = VirtualClock(asyncio.get_running_loop(), 4.5)
        async with ground.engine(quick_report) as app:
            await app.schedules.create("s", quick_report, every=10)
            await asyncio.sleep(58)
            ticks = [run.created_at for run in await runs_of(app, "s")]
            assert len(ticks) == 5
            assert max(ticks) <= store_clock.now()

    virtual.play(main)


def test_a_caller_whose_clock_is_off_passes_over_nothing(virtual: Ground) -> None:
    """What people do with a schedule goes by the store's clock, too: made or resumed by a clock that is an hour ahead,
    it would be silent for an hour; behind, it would start what was before."""

    async def main(ground: Ground) -> None:
        store_clock = ground.clock
        async with ground.engine(quick_report):
            for skew in (3_600.0, -3_600.0):
                name, begin = f"s{skew:.0f}", store_clock.now()
                ground.clock = VirtualClock(asyncio.get_running_loop(), skew)
                async with Holdfast(Line(ground.store), worker=False, clock=ground.clock) as caller:  # type: ignore[arg-type]
                    await caller.schedules.create(name, quick_report, every=100)
                    await caller.schedules.pause(name)
                    await caller.schedules.resume(name)
                    await caller.schedules.change(name, every=50)
                    run = await caller.schedules.run_now(name)
                    assert 0 <= microseconds_in(run) - begin < SECOND
                    await asyncio.sleep(120)
                    assert len(await runs_of(caller, name)) == 3
                    await caller.schedules.backfill(name, moment(begin), moment(store_clock.now()))

    virtual.play(main)


def microseconds_in(run: str) -> int:
    """The tick of a run, by its id."""
    return microseconds(datetime.datetime.fromisoformat(run.partition("@")[2]))


@pytest.mark.parametrize("seconds", [3.0, 60.0])
def test_ticks_are_called_missed_only_when_a_jump_was_looked_at_twice(seconds: float, virtual: Ground) -> None:
    """The clock of the one host of all jumps ahead by a day: one that comes back at once misses nothing."""

    async def main(ground: Ground) -> None:
        async with ground.engine(quick_report) as app:
            await app.schedules.create("s", quick_report, every=3_600, catch_up="none")
            await asyncio.sleep(10)
            clock_of(app).skew_seconds = 88_200.0  # the store's clock is the same
            await asyncio.sleep(seconds)
            clock_of(app).skew_seconds = 0.0
            await asyncio.sleep(60)
            expected = [] if seconds < SECOND_LOOK_SECONDS else ["miss_scheduled"]
            assert words_of(await acts_of(ground.store, "s"))[1:] == expected
            await asyncio.sleep(2 * 3_600)
            assert len(await runs_of(app, "s")) == (2 if seconds < SECOND_LOOK_SECONDS else 0)

    virtual.play(main)
