"""A schedule in words: what it does, why it did or did not start something, and what comes next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from holdfast.client.runs.explanation import START
from holdfast.client.views.schedules import OutcomeInfo, ScheduleInfo, schedule_info
from holdfast.client.views.times import clock, moment, span
from holdfast.client.views.workers import off_by
from holdfast.runs.advice import Advice, AdviceCode
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
    sentences += [each.sentence for each in await advise(app, row, gate)]
    sentences.append(f"{_OVERLAP[info.overlap]}; {_CATCH_UP[info.catch_up]}.")
    sentences += _history(info.last)
    return sentences


async def advise(app: Holdfast, row: p.ItemRow, gate: Clearance) -> list[Advice]:
    """Why it starts nothing at this moment, and what would let it."""
    now = app.clock.now()
    info = schedule_info(row, now)
    found = list(_standing(info, now))
    if gate.verdict != "open" and info.status in ("active", "waiting"):
        found.append(_mending(info, f"Now nothing would start: {gate.reason}."))
    if _is_late(info, now):
        found += _hindered(await app.store.workers(), now)
    return found


def _mending(info: ScheduleInfo, sentence: str) -> Advice:
    changing = command("schedules", "change", info.id, tenant=info.tenant)
    return Advice(code=AdviceCode.MEND_SCHEDULE, sentence=sentence, thing=info.id, command=changing)


def _standing(info: ScheduleInfo, now: int) -> Iterator[Advice]:
    if info.problem is not None:
        yield _mending(info, f"It cannot be followed on this computer: {info.problem}.")
    match info.status:
        case "paused":
            way = command("schedules", "resume", info.id, tenant=info.tenant)
            sentence = f"It is paused ({info.paused_reason}): `{way}` lets it go on."
            yield Advice(code=AdviceCode.RESUME_SCHEDULE, sentence=sentence, thing=info.id, command=way)
        case "deleted":
            sentence = "It is deleted: nothing starts it again."
            yield Advice(code=AdviceCode.ENDED, sentence=sentence, thing=info.id)
        case "done":
            yield Advice(code=AdviceCode.ENDED, sentence=f"It is over: {info.over}.", thing=info.id)
        case "waiting":
            first = info.waiting[0]
            more = f" and {len(info.waiting) - 1} more" if len(info.waiting) > 1 else ""
            sentence = f"The tick of {clock(first)}{more} waits{_for_what(info)}."
            yield Advice(code=AdviceCode.WAIT_RUN, sentence=sentence, thing=info.last_run or "")
    if info.due_at is not None:
        ahead = info.due_at - moment(now)
        if _is_late(info, now):
            sentence = f"A tick is due since {clock(info.due_at)}, and nobody has started it yet."
            yield Advice(code=AdviceCode.WAIT_WORKER, sentence=sentence)
        else:
            jitter = f", {info.jitter_seconds:g} s of jitter included" if info.jitter_seconds else ""
            sentence = f"The next tick is started at {clock(info.due_at)}, in {span(ahead)}{jitter}."
            yield Advice(code=AdviceCode.WAIT_TIME, sentence=sentence)


def _for_what(info: ScheduleInfo) -> str:
    waits = [each for each in info.last if each.what == "waits"]
    return f": {waits[-1].reason}" if waits else ""


def _hindered(workers: Sequence[p.WorkerRow], now: int) -> Iterator[Advice]:
    """What keeps all workers from starting it."""
    alive = [worker for worker in workers if worker.expires_at >= now]
    if not alive:
        sentence = f"No worker is running: start one with `{START}`."
        yield Advice(code=AdviceCode.START_WORKER, sentence=sentence, command=START)
    elif all(worker.clock_ahead for worker in alive):
        first = alive[0]
        off = f"of {first.id} on {first.host}, {off_by(first.clock_ahead)}"
        sentence = f"No worker may start it: {off}. Correct its clock."
        yield Advice(code=AdviceCode.CORRECT_CLOCK, sentence=sentence, thing=first.host, command="holdfast doctor")


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
