"""``explain``: why a run does not move, and what would move it, as advice and as the sentences written from it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.client.runs.parking import what_ends
from holdfast.client.runs.waits import may_leave_children, waits_of
from holdfast.journal.forms import FORM
from holdfast.kernel.waits import Wait
from holdfast.runs.advice import Advice, AdviceCode, Awaited
from holdfast.runs.hints import command
from holdfast.runs.kinds.table import readable_kind
from holdfast.runs.lanes import HELD, LANE_EVENT, is_lane
from holdfast.runs.losses import lost_message_words
from holdfast.runs.signals import RESERVED
from holdfast.runs.times import length, moment, when
from holdfast.store.protocol import ENDED, FUNCTION, Key, Run, Store, TaskQuery, TaskRow, WorkerRow
from holdfast.tasks.eligibility import approvers, candidates_of, groups_of, holder_of, is_barred, is_unanswerable

APART_MICROSECONDS: Final = 1_000_000
"""Clocks that differ by less are taken for one."""

DEEPEST: Final = 10
"""So many runs below a run are explained with it."""
SHOWN: Final = 3
"""So many waits, tasks and other runs of a run are in its sentences."""
OPEN_TASKS: Final = 100
"""Among so many open tasks of a run those are looked for that it does not wait for."""
START: Final = "holdfast worker APP"

_Above = tuple[str, ...]
"""The runs whose explanation this one is part of."""


class Explained(msgspec.Struct, frozen=True):
    """Why a run does not move. The advice is all that is known, in the order in which it is to be looked at; the text
    is written from it, and leaves out what would make it long."""

    text: str
    advice: tuple[Advice, ...]


async def explain(store: Store, run: Run, now: int) -> Explained:
    """What the run waits for, since when, and what would move it; of another run that it waits for, that one's
    reason: a child, a run that takes back what this one would take back, or one that acts under the same key."""
    found = await _explain(store, run, now, ())
    if not (lost := (await lost_message_words(store, run.key, now)).strip()):
        return found
    looking = command("lost", tenant=run.key.tenant)
    repeated = Advice(code=AdviceCode.REPEAT_LOST, sentence=lost, thing=run.key.run, command=looking)
    return Explained(f"{found.text} {lost}", (*found.advice, repeated))


async def _explain(store: Store, run: Run, now: int, above: _Above) -> Explained:
    found = await _standing(store, run, now, above)
    if not run.governed:
        return found
    named = {id for each in found.advice for id in (each.thing, each.more)}
    tasks = await _asked_beside(store, run, named, now)
    return Explained(" ".join([found.text, *(each.sentence for each in tasks)]), (*found.advice, *tasks))


async def _standing(store: Store, run: Run, now: int, above: _Above) -> Explained:
    if run.standing in ENDED:
        return _written(_ended(run))
    if run.pause is not None:
        stopped = paused(run, now)
        named = _unavailable(run.pause, await store.workers(), now)
        return _written(replace(stopped, sentence=f"{stopped.sentence}{named}") if named else stopped)
    if run.owner is not None and not (_waits_for_others(run) and await _is_alive(store, run.owner, now)):
        return _written(await _held(store, run, now))
    if run.ready_at is not None:
        return _written(await _queued(store, run, now))
    return await _waiting(store, run, now, above)


def _waits_for_others(run: Run) -> bool:
    """Whether it is held by a worker, and waits for acts of other runs all the same."""
    return any(wait.receipt is not None for wait in waits_of(run))


async def _is_alive(store: Store, worker: str, now: int) -> bool:
    return any(each.id == worker and each.expires_at >= now for each in await store.workers())


def _written(*advice: Advice) -> Explained:
    return Explained(" ".join(each.sentence for each in advice), advice)


def _ended(run: Run) -> Advice:
    why = f": {run.error}" if run.error else ""
    sentence = f"It is {run.standing} since {moment(run.ended_at or run.updated_at)}{why}."
    return Advice(code=AdviceCode.ENDED, sentence=sentence, thing=run.key.run)


async def _asked_beside(store: Store, run: Run, named: set[str], now: int) -> list[Advice]:
    """What people are asked about acts of a run that it does not wait for now: a worker is at something else, or the
    run has given the act up, or has ended."""
    open_ = await store.tasks(TaskQuery(run.key.tenant, "requested", run.key.run), OPEN_TASKS)
    beside = [task for task in open_ if task.id not in named]
    found = []
    for task in beside[:SHOWN]:
        asked = question_of(task, task.summary, now)
        still = "still " if run.standing in ENDED else ""
        what = {"outcome": "what became of an act", "approval": "to approve an act"}.get(task.kind, "to answer a form")
        found.append(_advice(asked, f"A person is {still}asked {what}: `{asked.command}`."))
    return found


# -- it is paused, held or ready -------------------------------------------------------------------------------------


def paused(run: Run, now: int) -> Advice:
    """What ends the pause of a run."""
    reason = run.pause or ""
    code, key = what_ends(reason), run.key
    resuming = command("resume", key.run, tenant=key.tenant)
    since = f"It has been paused for {length(now - run.updated_at)}: {reason.rstrip('.')}."
    found = Advice(
        code=code, sentence=f"{since} `{resuming}` lets it go on.", thing=key.run, more=reason, command=resuming
    )
    match code:
        case AdviceCode.FIT_MANIFEST:
            return replace(found, sentence=f"{since} A worker with that code lets it go on: `{START}`.", command=START)
        case AdviceCode.SERVE_STEP:
            return replace(found, sentence=since, command=START)
        case AdviceCode.FINISH_MANIFEST:
            proposal = reason.removeprefix(HELD).removeprefix("proposal ")
            way = command("machines", "apply", proposal, tenant=key.tenant)
            ends = f"That ends at once; if it was interrupted, `{way}` applies it again."
            return replace(found, sentence=f"{since} {ends}", thing=proposal, command=way)
        case AdviceCode.VERIFY:
            way = command("verify", key.run, tenant=key.tenant)
            return replace(found, sentence=f"{since} `{way}` checks it, `{resuming}` lets it go on.", command=way)
        case AdviceCode.CHOOSE_RESULT:
            way = command("retry", key.run, "--again", "NAME", tenant=key.tenant)
            return replace(found, sentence=f"{since} `{way}` decides, or `{resuming}` lets it go on.", command=way)
        case _:
            return found


async def _held(store: Store, run: Run, now: int) -> Advice:
    moved = f"last moved {length(now - run.updated_at)} ago"
    workers = await store.workers()
    worker = next((worker for worker in workers if worker.id == run.owner), None)
    who = f"worker {run.owner}" + ("" if worker is None else f" (process {worker.pid} on {worker.host})")
    if worker is not None and worker.expires_at >= now:
        sentence = f"It is being worked on by {who}, and {moved}."
        return Advice(code=AdviceCode.AT_WORK, sentence=sentence, thing=worker.id)
    silent = f"is silent, its lease ended {length(now - worker.expires_at)} ago" if worker else "is gone"
    missing = unserved(run, workers, now)
    if missing is None:
        sentence = f"It {moved}; {who} {silent}. Another worker takes it over."
        return Advice(code=AdviceCode.WAIT_WORKER, sentence=sentence)
    return replace(missing, sentence=f"It {moved}; {who} {silent}. {missing.sentence}")


def unserved(run: Run, workers: Sequence[WorkerRow], now: int) -> Advice | None:
    """What is to be started, if no worker runs that may take the run."""
    alive = [worker for worker in workers if worker.expires_at >= now]
    if not alive:
        sentence = f"No worker is running: start one with `{START}`."
        return Advice(code=AdviceCode.START_WORKER, sentence=sentence, command=START)
    if any(worker.serves.takes(run.program_kind, run.workflow) for worker in alive):
        return None
    none = f"None of the {len(alive)} running workers"
    missing = Advice(code=AdviceCode.SERVE_CODE, sentence="", thing=run.workflow, more=run.program_kind, command=START)
    if run.program_kind != FUNCTION:
        sentence = f"{none} serves programs of kind {run.program_kind!r}: start one that does."
    else:
        remedy = "start one whose app imports it. If it is a definition, publish it, and start it under another id."
        sentence = f"{none} knows the workflow {run.workflow!r}: {remedy}{_unavailable(run.workflow, alive, now)}"
    return replace(missing, sentence=sentence)


async def _queued(store: Store, run: Run, now: int) -> Advice:
    ready = f"It has been ready for {length(now - (run.ready_at or now))}"
    if (missing := unserved(run, await store.workers(), now)) is not None:
        comma = "" if missing.code == AdviceCode.START_WORKER else ","
        return replace(missing, sentence=f"{ready}{comma} and {missing.sentence[0].lower()}{missing.sentence[1:]}")
    if refusals := await store.declined(run.key):
        last = refusals[-1]
        sentence = (
            f"{ready} and waits for a worker whose code fits its journal: "
            f"{_number(len(refusals), 'worker')} handed it back, the last, {last.worker}, {length(now - last.at)} ago, "
            f"because of {last.reason.splitlines()[0].rstrip(':.')}. Where none is left that has not tried, it parks."
        )
        return Advice(code=AdviceCode.WAIT_FIT, sentence=sentence, thing=last.worker)
    if run.begun_at is None:
        sentence = f"{ready} and waits for a worker that is free or for a place within its tenant's caps."
        return Advice(code=AdviceCode.WAIT_PLACE, sentence=sentence)
    return Advice(code=AdviceCode.WAIT_WORKER, sentence=f"{ready} and waits for a worker that is free.")


# -- it waits --------------------------------------------------------------------------------------------------------


async def _waiting(store: Store, run: Run, now: int, above: _Above) -> Explained:
    waits = sorted(waits_of(run), key=lambda wait: wait.receipt is None)
    if not waits:
        looking = command("verify", run.key.run, tenant=run.key.tenant)
        said = (
            f"It has been waiting for {length(now - run.updated_at)}, and its row does not say for what: `{looking}`."
        )
        return _written(Advice(code=AdviceCode.VERIFY, sentence=said, thing=run.key.run, command=looking))
    rows = {wait.task: await store.task(run.key.tenant, wait.task) for wait in waits if wait.task}
    tasks = {id: task for id, task in rows.items() if task is not None}
    others = await _others(store, run, waits)
    reasons = [await _describe(store, run, wait, tasks, others, now) for wait in waits]
    since = f"{_for(_since(run, waits, tasks), now)} it has been waiting for"
    more = f", and {len(waits) - SHOWN} more" if len(waits) > SHOWN else ""
    sentences = [f"{since} {' or '.join(each.words for each in reasons[:SHOWN])}{more}."]
    advice = [_advice(each, f"{since} {each.words}.") for each in reasons]
    is_late = any(_is_late(wait, now) for wait in waits)
    if is_late and (missing := unserved(run, await store.workers(), now)) is not None:
        sentences.append(missing.sentence)
        advice.insert(0, missing)
    above = (*above, run.key.run)
    below = {
        wait.run: others[wait.run]
        for wait in waits
        if wait.run in others and wait.run not in above
        if others[wait.run].standing not in ENDED or wait.receipt is not None
    }
    for other in list(below.values())[:SHOWN] if len(above) <= DEEPEST else []:
        found = await _explain(store, other, now, above)
        sentences.append(f"{other.key.run}: {found.text}")
        advice += [replace(each, run=each.run or other.key.run) for each in found.advice]
    if may_leave_children(run):
        leaving = command("cancel", run.key.run, "--leave-children", tenant=run.key.tenant)
        sentences.append(f"`{leaving}` ends {run.key.run} without its children.")
        advice.append(
            Advice(code=AdviceCode.LEAVE_CHILDREN, sentence=sentences[-1], thing=run.key.run, command=leaving)
        )
    return Explained(" ".join(sentences), tuple(advice))


def _advice(reason: Awaited, sentence: str) -> Advice:
    return Advice(code=reason.code, sentence=sentence, thing=reason.thing, more=reason.more, command=reason.command)


async def _others(store: Store, run: Run, waits: Sequence[Wait]) -> dict[str, Run]:
    """The runs that it waits for, in the order of its waits. A child that has ended has told it so; another run that
    has ended may leave a person to say what became of its act."""
    keys = [Key(run.key.tenant, wait.run) for wait in waits if wait.run]
    rows = {row.key: row for row in (await store.get(keys) if keys else [])}
    return {key.run: rows[key] for key in keys if key in rows}


def _for(since: int, now: int) -> str:
    """For how long, or, where a clock that is ahead has set the time, since when by that clock."""
    if since - now <= APART_MICROSECONDS:
        return f"For {length(now - since)}"
    return f"Since {moment(since)}, by a clock that is {length(since - now)} ahead of this one,"


def _since(run: Run, waits: list[Wait], tasks: Mapping[str, TaskRow]) -> int:
    """Since when it waits for this. People may be asked again while the run itself does not move."""
    if all(wait.task in tasks for wait in waits):
        return min(task.created_at for task in tasks.values())
    return run.updated_at


async def _describe(
    store: Store, run: Run, wait: Wait, tasks: Mapping[str, TaskRow], others: Mapping[str, Run], now: int
) -> Awaited:
    if wait.receipt is not None and wait.run is not None:
        does = "which acts under the same key" if wait.by_key else "which takes that act back"
        words = f"run {wait.run}, {does} (receipt {wait.receipt}), before {wait.name} is done"
        if wait.run == run.key.run:  # a call of its own has the key
            return Awaited(AdviceCode.WAIT_CALL, words, wait.run, wait.receipt)
        way = command("explain", wait.run, tenant=run.key.tenant)
        return Awaited(AdviceCode.FOLLOW_CHILD, words, wait.run, wait.receipt, way)
    match wait.kind:
        case "receive" if wait.name.startswith(RESERVED):
            return _lane_signal(run, wait)
        case "receive":
            sending = command("signal", run.key.run, wait.name, "VALUE", tenant=run.key.tenant)
            words = f"signal {wait.name!r} (`{sending}` sends it)"
            return Awaited(AdviceCode.SEND_SIGNAL, words, run.key.run, wait.name, sending)
        case "timer":
            due = "was due" if _is_late(wait, now) else "fires"
            return Awaited(AdviceCode.WAIT_TIME, f"a timer that {due} at {when(wait.due or now, now)}")
        case "approval" | "outcome":
            return _asked(run, wait, tasks.get(wait.task or ""), wait.kind, now)
        case kind if kind == FORM:
            return _asked(run, wait, tasks.get(wait.task or ""), FORM, now)
        case kind:
            found = await readable_kind(kind).explain(store, run, wait, now)
            return _child(run, found, others) if found.code == AdviceCode.FOLLOW_CHILD else found


def _child(run: Run, found: Awaited, others: Mapping[str, Run]) -> Awaited:
    """What moves a run that waits for this child, as the child is."""
    child = others.get(found.thing)
    if child is None:  # it was deleted by an older version, or the store is damaged
        looking = command("verify", run.key.run, tenant=run.key.tenant)
        words = f"{found.words}, which is not in the store (`{looking}` checks that)"
        return Awaited(AdviceCode.VERIFY, words, run.key.run, found.thing, looking)
    return replace(found, code=AdviceCode.WAIT_CALL, command="") if child.standing in ENDED else found


def _lane_signal(run: Run, wait: Wait) -> Awaited:
    """What a lane of a machine waits for: nobody sends it a signal."""
    if wait.name == LANE_EVENT:
        return Awaited(AdviceCode.AWAITS_EVENT, f"events of machine {run.workflow}", run.workflow)
    return Awaited(AdviceCode.WAIT_SPLIT, "what the lanes that it was split from hand over", run.workflow)


def _is_late(wait: Wait, now: int) -> bool:
    """Whether its time is over. A running worker would have taken the run up by then."""
    return wait.due is not None and wait.due <= now


# -- people are asked ------------------------------------------------------------------------------------------------


def _asked(run: Run, wait: Wait, task: TaskRow | None, kind: str, now: int) -> Awaited:
    """What people are asked. Once its time is over, no answer is taken, and a worker records that."""
    asked = _question(run.key.tenant, kind, wait.task or "", wait.name, wait.due, task, now)
    if _is_late(wait, now):
        return replace(asked, code=AdviceCode.WAIT_WORKER)
    if task is None or not is_unanswerable(task) or is_lane(task.run):
        return asked
    way = command("cancel", task.run, tenant=task.tenant)
    words = f"{asked.words}; `{way}` ends the run without an answer"
    return Awaited(AdviceCode.CANCEL_RUN, words, task.run, task.id, way)


def question_of(task: TaskRow, name: str, now: int) -> Awaited:
    """What an open task asks of people."""
    return _question(task.tenant, task.kind, task.id, name, task.expires_at, task, now)


def _question(tenant: str, kind: str, id: str, name: str, due: int | None, task: TaskRow | None, now: int) -> Awaited:
    who = "a person" if task is None else _who(task)
    until = "" if due is None else f" before {when(due, now)}"
    match kind:
        case "outcome":
            way = command("tasks", "show", id, tenant=tenant)
            words = f"{who} to say what became of {name} (`{way}` tells what is known)"
            asked = Awaited(AdviceCode.ANSWER_OUTCOME, words, id, command=way)
        case "approval":
            way = command("approve", id, "--as", "NAME", tenant=tenant)
            asked = Awaited(AdviceCode.APPROVE, f"{who} to approve {name}{until} (`{way}`)", id, command=way)
        case _:
            group = ("--group", groups_of(task)[0]) if task is not None and groups_of(task) else ()
            way = command("tasks", "complete", id, "--answer", "JSON", "--by", "NAME", *group, tenant=tenant)
            asked = Awaited(AdviceCode.ANSWER_FORM, f"{who} to answer {name!r}{until} (`{way}`)", id, command=way)
    return asked


def _who(task: TaskRow) -> str:
    """Who may approve it. Not those who have already, and for the tier high not the person who started the run."""
    approved = approvers(task)
    barred = task.starter if task.starter is not None and is_barred(task, task.starter) else None
    holder = holder_of(task)
    asked = (*candidates_of(task), *(f"somebody of group {group}" for group in groups_of(task)))
    candidates = asked if holder is None else (holder,)
    left = [each for each in candidates if each != barred and each not in approved]
    notes = []
    who = " or ".join(left) or "a person"
    if task.two_person:
        notes += [who] if left else []
        who = "a second person" if approved else "two people"
    notes += [f"{each} has approved" for each in approved]
    if barred is not None and (not left or any(fnmatchcase(barred, pattern) for pattern in left)):
        notes.append(f"not {barred}, who started the run")
    if candidates and not left:
        notes.append("and nobody else is a candidate")
    elif is_unanswerable(task) and task.starter is not None:
        notes.append("and nobody of them may: they are excluded")
    elif task.excluded:
        notes.append(f"not {', '.join(task.excluded)}")
    return who + (f" ({'; '.join(notes)})" if notes else "")


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _unavailable(text: str, workers: Sequence[WorkerRow], now: int) -> str:
    """The definitions that a text names, and that workers were given and could not accept."""
    named = set(_NAME.findall(text))
    found = {
        str(definition): worker.id
        for worker in workers
        if worker.expires_at >= now
        for definition in worker.unavailable
        if definition.name in named
    }
    return "".join(
        f" Worker {worker} was given a definition that is invalid: {each}." for each, worker in found.items()
    )


_NAME: Final = re.compile(r"[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*")
"""A name of a definition in a text."""
