"""``explain``: one sentence on why a run is not moving, and what would move it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from fnmatch import fnmatchcase

import msgspec

from holdfast.client.hints import command
from holdfast.gate.tasks import approvers, is_barred
from holdfast.kernel.execution import Wait
from holdfast.programs.function.calls import DETACHED, SIGNAL
from holdfast.programs.function.definitions import STEP, WORKFLOW
from holdfast.store.protocol import ENDED, Run, Store, Task


async def explain(store: Store, run: Run, now: int) -> str:
    """What the run waits for, since when, and what would move it."""
    since = _ago(now - run.updated_at)
    if run.standing in ENDED:
        why = f": {run.error}" if run.error else ""
        return f"It is {run.standing} since {_time(run.ended_at or run.updated_at)}{why}."
    if run.pause is not None:
        resuming = _command(run, "resume", run.key.run)
        return f"It is paused since {since}: {run.pause.rstrip('.')}. `{resuming}` lets it go on."
    if run.owner is not None:
        return await _held(store, run, since)
    if run.ready_at is not None:
        return await _queued(store, run, now)
    return await _waiting(store, run, now)


async def _held(store: Store, run: Run, since: str) -> str:
    worker = next((worker for worker in await store.workers() if worker.id == run.owner), None)
    where = f"worker {run.owner}" + ("" if worker is None else f" (process {worker.pid} on {worker.host})")
    return f"It is being worked on by {where}, and last moved {since} ago."


async def _queued(store: Store, run: Run, now: int) -> str:
    waited = _ago(now - (run.ready_at or now))
    workers = await store.workers()
    if not workers:
        return f"It has been ready for {waited} and no worker is running: start one with `holdfast worker APP`."
    if not any(run.workflow in worker.workflows for worker in workers):
        return (
            f"It has been ready for {waited}, and none of the {len(workers)} running workers knows the workflow "
            f"{run.workflow!r}: start one whose app imports it."
        )
    if refusals := await store.declined(run.key):
        last = refusals[-1]
        return (
            f"It has been ready for {waited} and waits for a worker whose code fits its journal: "
            f"{_number(len(refusals), 'worker')} handed it back, the last, {last.worker}, {_ago(now - last.at)} ago, "
            f"because of {last.reason.splitlines()[0].rstrip(':.')}. Where none is left that has not tried, it parks."
        )
    capped = " or for a place within its tenant's caps" if run.begun_at is None else ""
    return f"It has been ready for {waited} and waits for a worker that is free{capped}."


async def _waiting(store: Store, run: Run, now: int) -> str:
    waits = msgspec.json.decode(run.waiting, type=list[Wait]) if run.waiting else []
    if not waits:
        return f"It waits since {_ago(now - run.updated_at)} ago."
    found = {wait.task: await store.task(run.key.tenant, wait.task) for wait in waits[:3] if wait.task}
    tasks = {id: task for id, task in found.items() if task is not None}
    told = [await _tell(store, run, wait, tasks, now) for wait in waits[:3]]
    more = f", and {len(waits) - 3} more" if len(waits) > 3 else ""
    return f"For {_ago(now - _since(run, waits, tasks))} it has been waiting for {' or '.join(told)}{more}."


def _since(run: Run, waits: list[Wait], tasks: Mapping[str, Task]) -> int:
    """Since when it waits for this: people may be asked anew while the run itself does not move."""
    if all(wait.task in tasks for wait in waits):
        return min(task.created_at for task in tasks.values())
    return run.updated_at


async def _tell(store: Store, run: Run, wait: Wait, tasks: Mapping[str, Task], now: int) -> str:
    match wait.kind:
        case "receive":
            return f"signal {wait.name!r} (`{_command(run, 'signal', run.key.run, wait.name, 'VALUE')}` sends it)"
        case "timer":
            return f"a timer that fires at {_time(wait.due or now)}"
        case "approval":
            return _approval(run, wait, tasks.get(wait.task or ""))
        case "outcome":
            task, look = tasks.get(wait.task or ""), _command(run, "tasks", "show", wait.task or "")
            who = "a person" if task is None else _who(task)
            return f"{who} to say what became of {wait.name} (`{look}` tells what is known)"
        case kind if kind == WORKFLOW:
            return f"child workflow {wait.name} (run {wait.run})"
        case kind if kind == STEP and wait.due is not None:
            return f"the next attempt of step {wait.name} at {_time(wait.due)}"
        case kind if kind == STEP:
            return await _queue(store, run, wait)
        case kind if kind in (SIGNAL, DETACHED):
            return f"{wait.kind} {wait.name}"
        case other:
            return f"{other} {wait.name}"


def _approval(run: Run, wait: Wait, task: Task | None) -> str:
    who = "a person" if task is None else _who(task)
    until = "" if wait.due is None else f" before {_time(wait.due)}"
    return f"{who} to approve {wait.name}{until} (`{_command(run, 'approve', wait.task or '', '--as', 'NAME')}`)"


def _who(task: Task) -> str:
    """Who may approve it: nobody who has already, nor, where the tier is high, whoever started the run."""
    approved = approvers(task)
    barred = task.starter if task.starter is not None and is_barred(task, task.starter) else None
    candidates = task.candidates if task.delegated_to is None else (task.delegated_to,)
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
    return who + (f" ({'; '.join(notes)})" if notes else "")


async def _queue(store: Store, run: Run, wait: Wait) -> str:
    for work, owner in await store.work_of(run.key):
        if work.position == wait.position:
            if owner is not None:
                return f"step {wait.name}, which worker {owner} runs from queue {work.queue!r}"
            served = any(work.queue in worker.queues for worker in await store.workers())
            remedy = "waits for a free place" if served else "no running worker serves: start one that does"
            return f"step {wait.name} on queue {work.queue!r}, which {remedy}"
    return f"step {wait.name}"


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _command(run: Run, *words: str) -> str:
    return command(*words, tenant=run.key.tenant)


def _time(microseconds: int) -> str:
    moment = datetime.datetime.fromtimestamp(microseconds / 1e6, datetime.UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def _ago(microseconds: int) -> str:
    seconds = max(0, microseconds) / 1e6
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} seconds"
