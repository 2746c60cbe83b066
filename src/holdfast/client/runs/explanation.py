"""``explain``: one sentence that says why a run does not move, and what would move it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from holdfast.client.runs.waits import may_leave_children, waits_of
from holdfast.journal.forms import FORM
from holdfast.kernel.waits import Wait
from holdfast.runs.hints import command
from holdfast.runs.kinds.table import readable_kind
from holdfast.runs.losses import lost_message_words
from holdfast.runs.times import length, moment, when
from holdfast.store.protocol import ENDED, FUNCTION, Key, Run, Store, TaskQuery, TaskRow, WorkerRow
from holdfast.tasks.eligibility import approvers, candidates_of, groups_of, holder_of, is_barred, is_unanswerable

APART_MICROSECONDS: Final = 1_000_000
"""Clocks that differ by less are taken for one."""

DEEPEST: Final = 10
"""So many runs below a run are explained with it."""


async def explain(store: Store, run: Run, now: int) -> str:
    """What the run waits for, since when, and what would move it; of a child that it waits for, that child's reason."""
    return await _explain(store, run, now, DEEPEST) + await lost_message_words(store, run.key, now)


async def _explain(store: Store, run: Run, now: int, depth: int) -> str:
    if run.standing in ENDED:
        why = f": {run.error}" if run.error else ""
        ended = f"It is {run.standing} since {moment(run.ended_at or run.updated_at)}{why}."
        return ended + (await _orphans(store, run) if run.governed else "")
    if run.pause is not None:
        resuming = _command(run, "resume", run.key.run)
        paused = f"It has been paused for {length(now - run.updated_at)}: {run.pause.rstrip('.')}."
        return f"{paused} `{resuming}` lets it go on."
    if run.owner is not None:
        return await _held(store, run, now)
    if run.ready_at is not None:
        return await _queued(store, run, now)
    return await _waiting(store, run, now, depth)


async def _orphans(store: Store, run: Run) -> str:
    """What people are still asked about acts of a run that has ended."""
    open_ = await store.tasks(TaskQuery(run.key.tenant, "requested", run.key.run, "outcome"), 3)
    looks = " and ".join(f"`{_command(run, 'tasks', 'show', task.id)}`" for task in open_)
    return f" A person is still asked what became of an act: {looks}." if open_ else ""


async def _held(store: Store, run: Run, now: int) -> str:
    moved = f"last moved {length(now - run.updated_at)} ago"
    worker = next((worker for worker in await store.workers() if worker.id == run.owner), None)
    if worker is None:
        return f"It is being worked on by worker {run.owner}, and {moved}."
    where = f"worker {run.owner} (process {worker.pid} on {worker.host})"
    if worker.expires_at < now:
        silent = f"is silent, its lease ended {length(now - worker.expires_at)} ago"
        return f"It {moved}; {where} {silent}. Any other worker takes it over: `holdfast worker APP` starts one."
    return f"It is being worked on by {where}, and {moved}."


async def _queued(store: Store, run: Run, now: int) -> str:
    waited = length(now - (run.ready_at or now))
    workers = _alive(await store.workers(), now)
    if not workers:
        return f"It has been ready for {waited} and no worker is running: start one with `holdfast worker APP`."
    if not any(worker.serves.takes(run.program_kind, run.workflow) for worker in workers):
        none = f"It has been ready for {waited}, and none of the {len(workers)} running workers"
        if run.program_kind != FUNCTION:
            return f"{none} serves programs of kind {run.program_kind!r}: start one that does."
        remedy = "start one whose app imports it. If it is a definition, publish it, and start it under another id."
        return f"{none} knows the workflow {run.workflow!r}: {remedy}"
    if refusals := await store.declined(run.key):
        last = refusals[-1]
        return (
            f"It has been ready for {waited} and waits for a worker whose code fits its journal: "
            f"{_number(len(refusals), 'worker')} handed it back, the last, {last.worker}, {length(now - last.at)} ago, "
            f"because of {last.reason.splitlines()[0].rstrip(':.')}. Where none is left that has not tried, it parks."
        )
    capped = " or for a place within its tenant's caps" if run.begun_at is None else ""
    return f"It has been ready for {waited} and waits for a worker that is free{capped}."


async def _waiting(store: Store, run: Run, now: int, depth: int) -> str:
    waits = waits_of(run)
    if not waits:
        return f"It has been waiting for {length(now - run.updated_at)}."
    rows = {wait.task: await store.task(run.key.tenant, wait.task) for wait in waits[:3] if wait.task}
    tasks = {id: task for id, task in rows.items() if task is not None}
    reasons = [await _describe(store, run, wait, tasks, now) for wait in waits[:3]]
    more = f", and {len(waits) - 3} more" if len(waits) > 3 else ""
    late = any(_is_late(wait, now) for wait in waits) and not _alive(await store.workers(), now)
    remedy = " No worker is running: start one with `holdfast worker APP`." if late else ""
    since = _for(_since(run, waits, tasks), now)
    below = await _below(store, run, waits[:3], now, depth)
    if may_leave_children(run):
        leaving = _command(run, "cancel", run.key.run, "--leave-children")
        below += f" `{leaving}` ends {run.key.run} without its children."
    return f"{since} it has been waiting for {' or '.join(reasons)}{more}.{remedy}{below}"


async def _below(store: Store, run: Run, waits: Sequence[Wait], now: int, depth: int) -> str:
    """What holds the children that it waits for."""
    keys = [Key(run.key.tenant, wait.run) for wait in waits if wait.run] if depth else []
    rows = await store.get(keys) if keys else []
    reasons = [(row.key.run, await _explain(store, row, now, depth - 1)) for row in rows if row.standing not in ENDED]
    return "".join(f" {run}: {reason}" for run, reason in reasons)


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


async def _describe(store: Store, run: Run, wait: Wait, tasks: Mapping[str, TaskRow], now: int) -> str:
    match wait.kind:
        case "receive":
            return f"signal {wait.name!r} (`{_command(run, 'signal', run.key.run, wait.name, 'VALUE')}` sends it)"
        case "timer":
            return f"a timer that {'was due' if _is_late(wait, now) else 'fires'} at {when(wait.due or now, now)}"
        case "approval":
            return _approval(run, wait, tasks.get(wait.task or ""), now)
        case "outcome":
            task, look = tasks.get(wait.task or ""), _command(run, "tasks", "show", wait.task or "")
            who = "a person" if task is None else _who(task)
            return f"{who} to say what became of {wait.name} (`{look}` tells what is known)"
        case kind if kind == FORM:
            return _form(run, wait, tasks.get(wait.task or ""), now)
        case kind:
            return await readable_kind(kind).explain(store, run, wait, now)


def _approval(run: Run, wait: Wait, task: TaskRow | None, now: int) -> str:
    who = "a person" if task is None else _who(task)
    until = "" if wait.due is None else f" before {when(wait.due, now)}"
    return f"{who} to approve {wait.name}{until} (`{_command(run, 'approve', wait.task or '', '--as', 'NAME')}`)"


def _form(run: Run, wait: Wait, task: TaskRow | None, now: int) -> str:
    who = "a person" if task is None else _who(task)
    until = "" if wait.due is None else f" before {when(wait.due, now)}"
    group = ("--group", groups_of(task)[0]) if task is not None and groups_of(task) else ()
    answer = _command(run, "tasks", "complete", wait.task or "", "--answer", "JSON", "--by", "NAME", *group)
    return f"{who} to answer {wait.name!r}{until} (`{answer}`)"


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


def _command(run: Run, *words: str) -> str:
    return command(*words, tenant=run.key.tenant)


def _is_late(wait: Wait, now: int) -> bool:
    """Whether its time is over. A running worker would have taken the run up by then."""
    if wait.kind == "timer":
        return wait.due is not None and wait.due <= now
    return readable_kind(wait.kind).is_late(wait, now)


def _alive(workers: Sequence[WorkerRow], now: int) -> list[WorkerRow]:
    return [worker for worker in workers if worker.expires_at >= now]
