"""``approve``, ``reject``, ``delegate``, ``resolve``: what a person says to a task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import click

from holdfast.cli import options, output, session
from holdfast.cli.governance.tasks import task_record, who_may
from holdfast.client.engine import Holdfast
from holdfast.client.tasks import Tasks
from holdfast.store.protocol import TaskRow
from holdfast.tasks.answers import RELEASED
from holdfast.tasks.eligibility import holder_of

Answer = Callable[[Tasks], Awaitable[TaskRow]]


def say(store: str | None, answer: Answer, word: str, as_json: bool) -> None:
    """Give an answer, and tell what the task is then."""

    async def work(app: Holdfast) -> tuple[TaskRow, bool]:
        task = await session.patiently(app, answer(app.tasks))
        return task, bool(await app.store.workers())

    task, served = session.on_store(session.url_of(store), work)
    if as_json:
        output.emit({**task_record(task), "action": word})
    else:
        output.say(_sentence(task))
    if task.status != "requested" and not served:
        output.note(f"no worker is running: run {task.run} goes on when `holdfast worker APP` has started one.")


def _sentence(task: TaskRow) -> str:
    said = task.answers[-1]
    if task.status != "requested":
        return f"task {task.id} is answered by {said.who}, {said.verdict}: run {task.run} goes on with that"
    if said.verdict == RELEASED:
        return f"task {task.id} is nobody's any more: {who_may(task)} may answer it"
    if (holder := holder_of(task)) is not None and said.verdict != "approved":
        return f"task {task.id} is now {holder}'s"
    return f"task {task.id} is approved by {said.who}, and a second, different person must approve it: {who_may(task)}"


@click.command()
@click.argument("id")
@options.answer
def approve(id: str, who: str, reason: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Approve the action that task ID proposes: exactly what `holdfast tasks show ID` tells."""
    say(store, lambda tasks: tasks.approve(id, by=who, reason=reason, tenant=tenant), "approve", as_json)


@click.command()
@click.argument("id")
@options.answer
def reject(id: str, who: str, reason: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Reject the action that task ID proposes: its call fails with ApprovalRejected."""
    say(store, lambda tasks: tasks.reject(id, by=who, reason=reason, tenant=tenant), "reject", as_json)


@click.command()
@click.argument("id")
@click.option("--happened", is_flag=True, help="The act was done: the run goes on with --result.")
@click.option("--result", metavar="JSON", help="With --happened: what the act gave. Nothing where it is left out.")
@click.option("--did-not-happen", is_flag=True, help="The act was not done: it goes through the gate again.")
@click.option("--give-up", is_flag=True, help="It stays open what became of it: its call fails.")
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
    """Say what became of the act that task ID asks about."""
    if happened + did_not_happen + give_up != 1:
        raise click.UsageError("give one of --happened, --did-not-happen and --give-up.")
    if result is not None and not happened:
        raise click.UsageError("--result is what the act gave: only --happened has one.")
    value = None if result is None else options.value_of(result)

    def answer(tasks: Tasks) -> Awaitable[TaskRow]:
        if happened:
            return tasks.happened(id, by=who, result=value, reason=reason, tenant=tenant)
        say = tasks.did_not_happen if did_not_happen else tasks.give_up
        return say(id, by=who, reason=reason, tenant=tenant)

    say(store, answer, "resolve", as_json)
