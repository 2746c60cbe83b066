"""``approve``, ``reject``, ``resolve``: the answers of a person to a task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import click

from holdfast.cli import options, output, session
from holdfast.cli.progress import write_progress
from holdfast.client.engine import Holdfast
from holdfast.client.governance.tasks import Tasks
from holdfast.client.people.permission import operating
from holdfast.client.runs.progress import RunProgress, progress_record
from holdfast.client.views.tasks import TaskInfo, task_record
from holdfast.tasks.answers import RELEASED

Answer = Callable[[Tasks], Awaitable[TaskInfo]]


def give(store: str | None, answer: Answer, word: str, as_json: bool, settle: float | None = None) -> None:
    """Give an answer, and write the task as it is then; with ``settle`` how its run stands so much later, too."""

    async def work(app: Holdfast) -> tuple[TaskInfo, bool, RunProgress | None]:
        task = await session.patiently(app, answer(app.tasks))
        async with operating(app, "runs.see"):
            served = bool(await app.store.workers())
        run = app.run(task.run, tenant=task.tenant)
        return task, served, None if settle is None else await run.settled(settle)

    task, served, progress = session.on_store(session.url_of(store), work)
    if as_json:
        stands = {} if progress is None else {"progress": progress_record(progress)}
        output.emit({**task_record(task), "action": word, **stands})
    else:
        output.say(_sentence(task))
        if progress is not None:
            write_progress(progress)
    if task.status != "requested" and not served:
        output.note(f"no worker is running: run {task.run} goes on when `holdfast worker APP` has started one.")


def _sentence(task: TaskInfo) -> str:
    answer = task.answers[-1]
    if task.status != "requested":
        return f"task {task.id} is answered by {answer.who}, {answer.verdict}: run {task.run} goes on with that"
    if answer.verdict == RELEASED:
        return f"task {task.id} is nobody's any more: {task.who_may} may answer it"
    if task.holder is not None and answer.verdict != "approved":
        return f"task {task.id} is now {task.holder}'s"
    return f"task {task.id} is approved by {answer.who}, and a second, different person must approve it: {task.who_may}"


@click.command()
@click.argument("id")
@options.answer
def approve(id: str, who: str, reason: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Approve the action that task ID proposes: exactly what `holdfast tasks show ID` shows."""
    give(store, lambda tasks: tasks.approve(id, by=who, reason=reason, tenant=tenant), "approve", as_json)


@click.command()
@click.argument("id")
@options.answer
def reject(id: str, who: str, reason: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Reject the action that task ID proposes: its call fails with ApprovalRejected."""
    give(store, lambda tasks: tasks.reject(id, by=who, reason=reason, tenant=tenant), "reject", as_json)


@click.command()
@click.argument("id")
@click.option("--happened", is_flag=True, help="The act was done: the run goes on with --result.")
@click.option("--result", metavar="JSON", help="With --happened: what the act gave. Nothing where it is left out.")
@click.option("--did-not-happen", is_flag=True, help="The act was not done: it goes through the gate again.")
@click.option("--give-up", is_flag=True, help="The outcome stays unknown: its call fails.")
@options.answer
def resolve(
    id: str,
    happened: bool,
    result: str | None,
    did_not_happen: bool,
    give_up: bool,
    who: str,
    reason: str,
    tenant: str,
    store: str | None,
    as_json: bool,
) -> None:
    """Say whether the act that task ID asks about was done."""
    if happened + did_not_happen + give_up != 1:
        raise click.UsageError("give one of --happened, --did-not-happen and --give-up.")
    if result is not None and not happened:
        raise click.UsageError("--result is what the act gave: only --happened has one.")
    value = None if result is None else options.value_of(result)

    def answer(tasks: Tasks) -> Awaitable[TaskInfo]:
        if happened:
            return tasks.happened(id, by=who, result=value, reason=reason, tenant=tenant)
        say = tasks.did_not_happen if did_not_happen else tasks.give_up
        return say(id, by=who, reason=reason, tenant=tenant)

    give(store, answer, "resolve", as_json)
