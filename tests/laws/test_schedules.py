"""The law of schedules: every tick is started once, or is skipped or missed with a reason; never both, never twice."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.schedules.planner import CATCH_UP_LIMIT, Clearance, Move, Situation, found, plan, resumed, taken_in
from holdfast.schedules.schedule import Outcome, Schedule
from holdfast.schedules.timing import SECOND, Cron, Interval, Once, Timing, count_ticks, last_tick, next_tick
from tests.scope import volume

BEGIN = 1_806_200_000 * SECOND  # a few hours before clocks are set forward in Vienna
HOUR = 3_600 * SECOND

timings = st.one_of(
    st.builds(Interval, st.sampled_from([SECOND, 7 * SECOND, 61 * SECOND, HOUR]), st.just(BEGIN + 5)),
    st.builds(
        Cron,
        st.sampled_from(["* * * * *", "*/7 * * * *", "30 2 * * *", "0 */3 * * *", "*/20 * * * * *"]),
        st.sampled_from(["UTC", "Europe/Vienna", "Australia/Lord_Howe"]),
    ),
    st.builds(Once, st.integers(BEGIN, BEGIN + 30 * HOUR)),
)
schedules = st.builds(
    Schedule,
    timing=timings,
    workflow=st.just("w"),
    overlap=st.sampled_from(["skip", "queue_one", "queue_all", "cancel_other", "allow"]),
    catch_up=st.sampled_from(["latest", "all", "none"]),
    window=st.sampled_from([None, 0, 90 * SECOND, 2 * HOUR]),
    cursor=st.just(BEGIN),
)
OPEN, HOLD, REFUSE = Clearance(), Clearance("hold", "paused"), Clearance("refuse", "demoted")
gates = st.sampled_from([OPEN, OPEN, OPEN, HOLD, REFUSE])
looks = st.tuples(
    st.integers(0, 2),  # which planner looks
    st.integers(-3 * HOUR, 6 * HOUR) | st.integers(-SECOND, 120 * SECOND),  # how far its clock moves
    st.booleans(),  # whether the last run is under way
    gates,
    st.sampled_from(["commits", "commits", "commits", "dies", "finds"]),
)


def ticks_of(timing: Timing, outcome: Outcome) -> list[int]:
    """All ticks that an outcome is about."""
    ticks = [outcome.tick]
    while outcome.last is not None and ticks[-1] < outcome.last:
        following = next_tick(timing, ticks[-1])
        assert following is not None
        ticks.append(following)
    assert outcome.count == len(ticks)
    return ticks


class Book:
    """What became of each tick, by the moves that were made."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.version = schedule, 1
        self.final: Counter[int] = Counter()

    def make(self, move: Move, version: int) -> bool:
        """Make a move that was planned for a version; refused where another was made before it."""
        if version != self.version:
            return False
        timing = self.schedule.timing
        if move.outcome.what != "waits":
            self.final.update(ticks_of(timing, move.outcome))
            assert move.outcome.what in ("started", "found") or move.outcome.reason
        self.schedule, self.version = move.schedule, version + 1
        return True


@given(schedules, st.lists(looks, max_size=40))
@settings(max_examples=volume(125, 250), deadline=None)
def test_every_tick_is_accounted_for_once(
    schedule: Schedule, steps: list[tuple[int, int, bool, Clearance, str]]
) -> None:
    """Three planners, each with a clock of its own that may go back, each with what it read last; some die."""
    book, now = Book(schedule), BEGIN
    seen = dict.fromkeys(range(3), (book.schedule, 1))
    for planner, moved, under_way, gate, fate in steps:
        now += moved
        for _ in range(30):
            read, version = seen[planner]
            move = plan("s", read, Situation(now, under_way, gate))
            if move is None or fate == "dies":
                break
            if move.start is not None:
                under_way = True
                move = found(move) if fate == "finds" else move
            if not book.make(move, version):
                break
            seen[planner] = book.schedule, book.version
        seen[planner] = book.schedule, book.version
    expected = _ticks(schedule.timing, BEGIN, book.schedule.cursor)
    assert Counter(expected) == book.final + Counter(book.schedule.queue)


def _ticks(timing: Timing, after: int, until: int) -> list[int]:
    found: list[int] = []
    while (tick := next_tick(timing, found[-1] if found else after)) is not None and tick <= until:
        found.append(tick)
    return found


@given(schedules, st.integers(0, 40 * HOUR), st.sampled_from(["change", "resume"]))
@settings(max_examples=volume(75, 150), deadline=None)
def test_a_change_and_a_pause_lose_no_tick(schedule: Schedule, later: int, act: str) -> None:
    """What was due before waits, or was missed or skipped; the rest comes after it."""
    now = BEGIN + later
    after, outcomes = taken_in(schedule, now, 0) if act == "change" else resumed(replace(schedule, paused="x"), now, 0)
    accounted = [*after.queue, *(tick for each in outcomes for tick in ticks_of(schedule.timing, each))]
    assert sorted(accounted) == _ticks(schedule.timing, BEGIN, now)
    assert len(after.queue) <= CATCH_UP_LIMIT + 61


@given(timings, st.integers(0, 50 * HOUR), st.integers(0, 10 * HOUR))
@settings(max_examples=volume(75, 150), deadline=None)
def test_ticks_are_counted_and_the_last_is_found_as_if_one_by_one(timing: Timing, begin: int, length: int) -> None:
    after, until = BEGIN + begin, BEGIN + begin + length // (60 if isinstance(timing, Interval) else 1)
    expected = _ticks(timing, after, until)
    assert count_ticks(timing, after, until) == len(expected)
    assert last_tick(timing, after, until) == (expected[-1] if expected else None)


@pytest.mark.parametrize("catch_up", ["latest", "all", "none"])
def test_a_week_of_seconds_is_planned_in_few_moves(catch_up: str) -> None:
    """What was missed is one entry, with its count; and no plan goes through the ticks one by one."""
    week = 7 * 86_400
    schedule = Schedule(timing=Cron("* * * * * *"), workflow="w", cursor=BEGIN, catch_up=catch_up, overlap="allow")  # type: ignore[arg-type]
    now, outcomes = BEGIN + week * SECOND, []
    while (move := plan("s", schedule, Situation(now))) is not None:
        outcomes.append(move.outcome)
        schedule = move.schedule
    missed = [each for each in outcomes if each.what == "missed"]
    started = [each for each in outcomes if each.what == "started"]
    assert len(started) == {"latest": 61, "none": 61, "all": 61 + CATCH_UP_LIMIT}[catch_up]
    assert len(missed) == 1
    assert (missed[0].count or 0) + len(started) == week
