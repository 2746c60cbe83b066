"""``retry`` and ``fork``: a run continues from a prefix of its journal. No journal is ever edited."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli import options, output, session
from holdfast.cli.output import TableCell
from holdfast.cli.selection import Steered, choice, one_or_many, steer
from holdfast.client.engine import Holdfast
from holdfast.client.runs.handle import RunHandle
from holdfast.client.runs.retries import RetryChoice, RetryPlan
from holdfast.client.views.journal import JournalEntry
from holdfast.client.views.runs import RunInfo, run_record
from holdfast.errors import InvalidRequest


@click.command()
@one_or_many
@options.steered_by
@options.dry_run
@click.option("--again", multiple=True, metavar="NAME", help="Do this again, though a result of it was kept.")
@click.option("--keep", multiple=True, metavar="NAME", help="Let the kept result of this count for another input.")
@click.option("--new", is_flag=True, help="Count no kept result: all that is called from here is done.")
@click.option("--tree", is_flag=True, help="Retry failed children that it calls again in the same commit.")
def retry(
    who: str,
    dry_run: bool,
    store: str | None,
    as_json: bool,
    again: tuple[str, ...],
    keep: tuple[str, ...],
    new: bool,
    tree: bool,
    **chosen: Any,
) -> int:
    """Let RUN, or each run that the filters choose, continue from its failure. Calls that it undid are done again.

    A retried run that calls something with another input than before is parked: --again, --keep or --new answer it.
    """
    chosen_runs = choice(**chosen)
    answers = RetryChoice(again=again, keep=keep, new=new, tree=tree)

    async def act(handle: RunHandle[Any]) -> Steered:
        plan = await handle.plan_retry(**answers)
        if not dry_run:
            await handle.retry(by=who, **answers)
        more = {"again": plan.again, "kept": plan.kept, "slept": plan.slept, "children": plan.children}
        return Steered(_sentence(plan, dry_run=dry_run), {name: list(each) for name, each in more.items()})

    return steer(session.url_of(store), chosen_runs, "failed", act, "retry", dry_run, as_json)


def _sentence(plan: RetryPlan, *, dry_run: bool) -> str:
    begun = "would go" if dry_run else "goes"
    said = [f"doing again: {', '.join(plan.again) or 'its last turn'}"]
    said += [f"kept if asked alike: {', '.join(plan.kept)}"] if plan.kept else []
    said += [f"slept again: {', '.join(f'{each:g} s' for each in plan.slept)}"] if plan.slept else []
    said += [f"retried with it: {', '.join(plan.children)}"] if plan.children else []
    return f"run {plan.run} {begun} on, {'; '.join(said)}"


@click.command()
@options.one_run
@click.option("--from", "sequence", type=int, required=True, metavar="SEQ", help="The first sequence to do again.")
@click.option("--id", "id", metavar="ID", help="The new run's id.")
@options.steered_by
@options.dry_run
def fork(
    run: str, tenant: str, store: str | None, as_json: bool, sequence: int, id: str | None, who: str, dry_run: bool
) -> None:
    """Start a new run that shares this one's journal up to, and without, sequence SEQ (see `holdfast journal RUN`)."""

    async def work(app: Holdfast) -> tuple[RunInfo, list[JournalEntry]]:
        handle = app.run(run, tenant=tenant)
        info = await handle.info()
        if not 1 <= sequence <= info.events:
            raise InvalidRequest(f"run {run} has sequences 0 to {info.events - 1}: fork from 1 to {info.events}.")
        around = [entry async for entry in handle.journal(max(0, sequence - 2)) if entry.sequence <= sequence]
        if dry_run:
            return info, around
        fresh = await session.patiently(app, handle.fork(sequence, id=id, by=who))
        return await fresh.info(), around

    info, around = session.on_store(session.url_of(store), work)
    if as_json:
        output.emit({**run_record(info), "action": "fork", "dry_run": dry_run, "forked_from": run})
    elif dry_run:
        output.say(f"run {run} would be forked here:")
        for entry in around:
            kept = entry.sequence < sequence
            mark = TableCell("kept   ", "green") if kept else TableCell("again  ", "yellow")
            output.say("  ", mark, f"{entry.sequence:>5}  {entry.text}")
    else:
        output.say(f"run {info.id} started from sequence {sequence} of run {run}")
