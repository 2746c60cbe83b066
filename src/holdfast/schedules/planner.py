"""The planner: what is to be done next about a schedule, as a pure function.

| a tick that is due | and | becomes |
|---|---|---|
| late by more than a minute | catch-up ``none``; ``latest`` and a later one is due; out of its window | missed |
| any | nothing is under way, or overlap ``allow`` | started |
| any | the last run is under way, overlap ``skip`` | skipped |
| any | the same, ``queue_one`` and none waits; ``queue_all`` | waits |
| any | the same, ``cancel_other`` | waits, and the last run is cancelled; a tick that waited before it is skipped |
| any | its owner may not start it, or it cannot be started | refused |
| any | its template is paused | waits if it is the only one, else skipped |

**The law.** Each call gives one move. Made in the order of the schedule's versions, the moves account for every tick
once: it is started or found, or it is skipped, missed or refused with a reason. This holds for calls at any times, by
any number of planners: a move is made only on the version that it was planned for, and the cursor never goes back.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from holdfast.schedules.schedule import Outcome, Schedule, What, run_id
from holdfast.schedules.timing import SECOND, Once, Timing, count_ticks, last_tick, next_tick, written

ON_TIME: Final = 60 * SECOND
"""A tick that is planned within this time is on time: a busy scheduler misses nothing."""
CATCH_UP_LIMIT: Final = 1_000
"""So many late ticks are caught up at most, the newest ones. A backfill starts the others."""
QUEUE_LIMIT: Final = 1_000
"""So many ticks wait at most for the run before them."""


class Clearance(msgspec.Struct, frozen=True, gc=False):
    """Whether a tick may start now: by its owner and its template, as they are."""

    verdict: Literal["open", "hold", "refuse", "end"] = "open"
    reason: str = ""


OPEN: Final = Clearance()


class Situation(msgspec.Struct, frozen=True, gc=False):
    """What a plan depends on beside the schedule: the time, and whether its runs are under way; ``live`` are those."""

    now: int
    under_way: bool = False
    gate: Clearance = OPEN
    offset: int = 0
    live: tuple[str, ...] = ()

    @property
    def horizon(self) -> int:
        """Ticks up to here are due."""
        return self.now - self.offset


class Move(msgspec.Struct, frozen=True, gc=False):
    """One thing to do: what becomes of a tick, the schedule after it, and perhaps a run to start or runs to cancel."""

    outcome: Outcome
    schedule: Schedule
    start: int | None = None
    cancel: tuple[str, ...] = ()


def plan(id: str, schedule: Schedule, situation: Situation) -> Move | None:
    """The next move; None where there is nothing to do before the next tick, or the end of the run under way."""
    if schedule.status not in ("active", "waiting"):
        return None
    tick = next_tick(schedule.timing, schedule.cursor)
    due = tick if tick is not None and tick <= situation.horizon else None
    if due is None and not schedule.queue:
        return None
    if situation.gate.verdict == "end":
        return _end(schedule, situation)
    move = _missed(schedule, due, situation) if due is not None else None
    if move is None and schedule.queue:
        move = _from_queue(id, schedule, situation)
    if move is None and due is not None:
        move = _of_tick(id, schedule, due, situation)
    return None if move is None else _closed(move)


def found(move: Move) -> Move:
    """The move, where the run that it would start is there already."""
    outcome = replace(move.outcome, what="found", reason="its run was there already: by hand, or by a backfill")
    return Move(outcome, replace(move.schedule, recent=(*move.schedule.recent[:-1], outcome)))


def refused(before: Schedule, move: Move, reason: str) -> Move:
    """The move, where its run cannot be started."""
    outcome = replace(move.outcome, what="refused", reason=reason, run=None)
    recent = (*move.schedule.recent[:-1], outcome)
    return Move(outcome, replace(move.schedule, recent=recent, last_run=before.last_run, beside=before.beside))


def taken_in(schedule: Schedule, now: int, offset: int) -> tuple[Schedule, tuple[Outcome, ...]]:
    """The schedule with all ticks that are due in its queue, and what was missed of them. Its timing may then change:
    no tick of the old one is lost."""
    situation = Situation(now, offset=offset)
    ticks: list[int] = []
    missed: list[Outcome] = []
    while (tick := next_tick(schedule.timing, schedule.cursor)) is not None and tick <= situation.horizon:
        move = _missed(schedule, tick, situation)
        if move is not None:
            missed.append(move.outcome)
            schedule = move.schedule
        else:
            ticks.append(tick)
            schedule = replace(schedule, cursor=tick)
    return replace(schedule, queue=(*schedule.queue, *ticks)), tuple(missed)


def retimed(schedule: Schedule, timing: Timing, now: int, offset: int) -> tuple[Schedule, tuple[Outcome, ...]]:
    """The schedule with another timing from now on, and what becomes of ticks of the old one that are not to start."""
    if schedule.paused is None:
        after, outcomes = taken_in(schedule, now, offset)
    else:
        after, outcomes = passed_over(schedule, now, offset, f"the schedule was paused: {schedule.paused}")
    after = replace(after, timing=timing, cursor=max(after.cursor, now), over=None)
    if isinstance(timing, Once) and timing.at <= now and timing.at not in after.queue:  # it is due at once
        after = replace(after, queue=(*after.queue, timing.at))
    return after, outcomes


def passed_over(schedule: Schedule, now: int, offset: int, reason: str) -> tuple[Schedule, tuple[Outcome, ...]]:
    """The schedule with all ticks that are due skipped, for one reason; and that they were."""
    last = last_tick(schedule.timing, schedule.cursor, now - offset)
    if last is None:
        return schedule, ()
    outcome = _range(schedule, last, "skipped", reason, now)
    return replace(schedule, cursor=last).with_outcome(outcome), (outcome,)


def ended(schedule: Schedule, now: int, offset: int, reason: str) -> tuple[Schedule, tuple[Outcome, ...]]:
    """The schedule without what is due and what waits, and that all of that is skipped."""
    after, due = passed_over(schedule, now, offset, reason)
    waited = tuple(Outcome("skipped", tick, now, reason) for tick in schedule.queue)
    return replace(after, queue=()), (*waited, *due)


def resumed(schedule: Schedule, now: int, offset: int) -> tuple[Schedule, tuple[Outcome, ...]]:
    """The schedule without its pause. Ticks of the time of the pause are skipped; a single one is started now."""
    if isinstance(schedule.timing, Once):
        after, _ = taken_in(replace(schedule, catch_up="latest", window=None), now, offset)
        return replace(after, paused=None, catch_up=schedule.catch_up, window=schedule.window), ()
    after, skipped = passed_over(schedule, now, offset, f"the schedule was paused: {schedule.paused or 'no reason'}")
    return replace(after, paused=None), skipped


# -- late ticks --------------------------------------------------------------------------------------------------------


def _missed(schedule: Schedule, due: int, situation: Situation) -> Move | None:
    """The ticks that are too late, as one move; None where there are none."""
    boundary = situation.horizon - ON_TIME - 1
    if due > boundary:
        return None
    following = next_tick(schedule.timing, due)
    newest = due  # as nearly always: what is late by little is one tick
    if following is not None and following <= boundary:
        newest = last_tick(schedule.timing, due, boundary) or due
    last, reason = _last_missed(schedule, due, newest, situation)
    if last is None:
        return None
    outcome = _range(schedule, last, "missed", reason, situation.now)
    return Move(outcome, replace(schedule, cursor=last).with_outcome(outcome))


def _last_missed(schedule: Schedule, due: int, newest: int, situation: Situation) -> tuple[int | None, str]:
    """The last tick that is not caught up, of those from ``due`` to ``newest``; and why."""
    timing, cursor = schedule.timing, schedule.cursor
    if schedule.catch_up == "none":
        return newest, "no scheduler was there at its time, and late ticks are not caught up"
    if schedule.window is not None:
        oldest = situation.horizon - max(schedule.window, ON_TIME)
        if due < oldest and (last := last_tick(timing, cursor, min(newest, oldest - 1))) is not None:
            return last, "no scheduler was there within the catch-up window"
    if schedule.catch_up == "latest":
        later = next_tick(timing, newest)
        if later is not None and later <= situation.horizon:
            return newest, "no scheduler was there at its time, and a later tick is started in its place"
        before = None if newest == due else last_tick(timing, cursor, newest - 1)
        return before, "no scheduler was there at its time, and the latest is caught up"
    if newest == due:
        return None, ""
    surplus = _before_newest(timing, cursor, newest, CATCH_UP_LIMIT)
    return surplus, f"no scheduler was there at its time, and at most {CATCH_UP_LIMIT} ticks are caught up"


def _before_newest(timing: Timing, after: int, until: int, count: int) -> int | None:
    """The last tick that is not one of the ``count`` newest ones; None where there are not more."""

    def is_more(since: int) -> bool:
        ticks = count_ticks(timing, since, until)
        return ticks is None or ticks > count

    if not is_more(after):
        return None
    begin, end = after, until
    while end - begin > 1:
        middle = (begin + end) // 2
        begin, end = (middle, end) if is_more(middle) else (begin, middle)
    return last_tick(timing, after, end)


def _range(schedule: Schedule, last: int, what: What, reason: str, now: int) -> Outcome:
    """What became of all ticks from the cursor to the last one."""
    first = next_tick(schedule.timing, schedule.cursor)
    count = count_ticks(schedule.timing, schedule.cursor, last)
    return Outcome(what, last if first is None else first, now, reason, last=None if count == 1 else last, count=count)


# -- ticks that are on time, and those that wait -----------------------------------------------------------------------


def _from_queue(id: str, schedule: Schedule, situation: Situation) -> Move | None:
    """The move of the first tick that waits; None where it goes on waiting."""
    tick, gate = schedule.queue[0], situation.gate
    rest = replace(schedule, queue=schedule.queue[1:])
    if gate.verdict == "hold":
        return None
    if gate.verdict == "refuse":
        return _move(rest, "refused", tick, situation, gate.reason)
    if not _is_busy(schedule, situation):
        return _start(id, rest, tick, situation)
    busy = _busy(schedule, situation)
    return _move(rest, "skipped", tick, situation, busy) if schedule.overlap == "skip" else None


def _of_tick(id: str, schedule: Schedule, tick: int, situation: Situation) -> Move:
    """The move of a tick that is due."""
    gate, moved = situation.gate, replace(schedule, cursor=tick)
    if gate.verdict == "refuse":
        return _move(moved, "refused", tick, situation, gate.reason)
    if gate.verdict == "hold":
        if isinstance(schedule.timing, Once):
            return _wait(moved, tick, situation, gate.reason)
        return _move(moved, "skipped", tick, situation, gate.reason)
    if not _is_busy(schedule, situation):
        return _start(id, moved, tick, situation)
    busy = _busy(schedule, situation)
    match schedule.overlap:
        case "queue_one" if not schedule.queue:
            return _wait(moved, tick, situation, busy)
        case "queue_one":
            return _move(moved, "skipped", tick, situation, f"{busy}, and one tick waits already")
        case "queue_all" if len(schedule.queue) < QUEUE_LIMIT:
            return _wait(moved, tick, situation, busy)
        case "queue_all":
            return _move(moved, "skipped", tick, situation, f"{busy}, and {QUEUE_LIMIT} ticks wait already")
        case "cancel_other" if schedule.queue:  # the tick itself is next
            left = replace(schedule, queue=schedule.queue[1:])
            return _move(left, "skipped", schedule.queue[0], situation, "a later tick took its place while it waited")
        case "cancel_other":
            waits = _wait(moved, tick, situation, f"{busy} and is cancelled")
            return replace(waits, cancel=_in_the_way(schedule, situation))
        case _:
            return _move(moved, "skipped", tick, situation, busy)


def _is_busy(schedule: Schedule, situation: Situation) -> bool:
    return situation.under_way and schedule.overlap != "allow"


def _in_the_way(schedule: Schedule, situation: Situation) -> tuple[str, ...]:
    return situation.live or (() if schedule.last_run is None else (schedule.last_run,))


def _busy(schedule: Schedule, situation: Situation) -> str:
    runs = _in_the_way(schedule, situation)
    return f"run {runs[-1] if runs else None} is under way"


def _start(id: str, schedule: Schedule, tick: int, situation: Situation) -> Move:
    outcome = Outcome("started", tick, situation.now, run=run_id(id, tick))
    return Move(outcome, replace(schedule, last_run=outcome.run, beside=()).with_outcome(outcome), start=tick)


def _wait(schedule: Schedule, tick: int, situation: Situation, reason: str) -> Move:
    outcome = Outcome("waits", tick, situation.now, reason)
    return Move(outcome, replace(schedule, queue=(*schedule.queue, tick)).with_outcome(outcome))


def _move(schedule: Schedule, what: What, tick: int, situation: Situation, reason: str) -> Move:
    outcome = Outcome(what, tick, situation.now, reason)
    return Move(outcome, schedule.with_outcome(outcome))


def _end(schedule: Schedule, situation: Situation) -> Move:
    """The schedule is over, with all that is due and all that waits."""
    waiting = len(schedule.queue)
    reason = situation.gate.reason
    due, _ = passed_over(schedule, situation.now, situation.offset, reason)
    count = count_ticks(schedule.timing, schedule.cursor, due.cursor)
    first = min((*schedule.queue, next_tick(schedule.timing, schedule.cursor) or due.cursor))
    last = max((*schedule.queue, due.cursor)) if waiting or due.cursor > schedule.cursor else first
    total = None if count is None else count + waiting
    outcome = Outcome("ended", first, situation.now, reason, last=None if last == first else last, count=total)
    return Move(outcome, replace(schedule, cursor=due.cursor, queue=(), over=reason).with_outcome(outcome))


def _closed(move: Move) -> Move:
    """The move; where no tick is left, the schedule is over with it."""
    after = move.schedule
    if after.queue or next_tick(after.timing, after.cursor) is not None:
        return move
    return replace(move, schedule=replace(after, over=f"its last tick was {written(after.cursor)}"))
