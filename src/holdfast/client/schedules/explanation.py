"""A schedule in words: what it does, why it did or did not start something, and what comes next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from holdfast.client.views.schedules import OutcomeInfo, ScheduleInfo, schedule_info
from holdfast.client.views.times import clock, moment, span
from holdfast.client.views.workers import off_by
from holdfast.runs.hints import command
from holdfast.schedules.planner import Clearance
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

LATE_SECONDS: Final = 5.0

_OVERLAP: Final = {
    "skip": "A tick is skipped while the run before it is under way",
    "queue_one": "One tick waits while the run before it is under way, and others are skipped",
    "queue_all": "Ticks wait while the run before them is under way",
    "cancel_other": "A tick cancels the run before it, and starts when that has ended",
    "allow": "A tick starts whatever is under way",
}
_CATCH_UP: Final = {
    "latest": "of late ticks the latest is started",
    "all": "late ticks are all started",
    "none": "late ticks are not started",
}


async def explain(app: Holdfast, row: p.ItemRow, gate: Clearance) -> Sequence[str]:
    """Sentences about a schedule, the most important first."""
    now = app.clock.now()
    info = schedule_info(row, now)
    target = f"template {info.template}" if info.template else info.workflow
    sentences = [f"Schedule {info.id} starts {target}: {info.timing}."]
    sentences += _standing(info, now)
    if gate.verdict != "open" and info.status in ("active", "waiting"):
        sentences.append(f"Now nothing would start: {gate.reason}.")
    if _is_late(info, now):
        sentences += _hindered(await app.store.workers())
    sentences.append(f"{_OVERLAP[info.overlap]}; {_CATCH_UP[info.catch_up]}.")
    sentences += _history(info.last)
    return sentences


def _standing(info: ScheduleInfo, now: int) -> Iterator[str]:
    if info.problem is not None:
        yield f"It cannot be followed on this computer: {info.problem}."
    match info.status:
        case "paused":
            resuming = command("schedules", "resume", info.id, tenant=info.tenant)
            yield f"It is paused ({info.paused_reason}): `{resuming}` lets it go on."
        case "deleted":
            yield "It is deleted: nothing starts it again."
        case "done":
            yield f"It is over: {info.over}."
        case "waiting":
            first = info.waiting[0]
            more = f" and {len(info.waiting) - 1} more" if len(info.waiting) > 1 else ""
            yield f"The tick of {clock(first)}{more} waits{_for_what(info)}."
    if info.due_at is not None:
        ahead = info.due_at - moment(now)
        if _is_late(info, now):
            yield f"A tick is due since {clock(info.due_at)}, and nobody has started it yet."
        else:
            jitter = f", {info.jitter_seconds:g} s of jitter included" if info.jitter_seconds else ""
            yield f"The next tick is started at {clock(info.due_at)}, in {span(ahead)}{jitter}."


def _for_what(info: ScheduleInfo) -> str:
    waits = [each for each in info.last if each.what == "waits"]
    return f": {waits[-1].reason}" if waits else ""


def _hindered(workers: Sequence[p.WorkerRow]) -> Iterator[str]:
    """What keeps all workers from starting it."""
    if not workers:
        yield "No worker is running: start one with `holdfast worker`."
    elif all(worker.clock_ahead for worker in workers):
        first = workers[0]
        yield f"No worker may start it: of {first.id} on {first.host}, {off_by(first.clock_ahead)}. Correct its clock."


def _is_late(info: ScheduleInfo, now: int) -> bool:
    return info.due_at is not None and (moment(now) - info.due_at).total_seconds() > LATE_SECONDS


def _history(outcomes: Sequence[OutcomeInfo]) -> Iterator[str]:
    started = [each for each in outcomes if each.what in ("started", "found")]
    others = [each for each in outcomes if each.what in ("skipped", "missed", "refused", "ended")]
    if started:
        yield f"The last tick that was started is {clock(started[-1].tick)}, as run {started[-1].run}."
    else:
        yield "No tick of it was started lately." if others else "No tick of it has been due yet."
    if others:
        yield f"The last that was not started: {outcome_words(others[-1])}."


def outcome_words(outcome: OutcomeInfo) -> str:
    """What became of a tick, in words."""
    which = clock(outcome.tick)
    if outcome.last is not None:
        count = "all" if outcome.count is None else str(outcome.count)
        which = f"{count} ticks from {which} to {clock(outcome.last)}"
    run = f" as {outcome.run}" if outcome.run and outcome.what in ("started", "found") else ""
    return f"{which} {outcome.what}{run}" + (f": {outcome.reason}" if outcome.reason else "")
