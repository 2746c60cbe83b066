"""One command for one run or for many: the runs that the filters of ``list`` choose are steered one by one.

Each run is steered by the same call as one run alone, so it is audited, and refused, in the same way. The runs are
chosen before the first is changed, so the changes do not affect the choice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import click
import msgspec

from holdfast.cli import exits, options, output, session
from holdfast.cli.filters import Filters, filtered
from holdfast.client.engine import Holdfast
from holdfast.client.runs.handle import RunHandle
from holdfast.client.views.runs import RunInfo, run_record
from holdfast.errors import CallerError
from holdfast.store.protocol import ENDED, Status

F = TypeVar("F", bound=Callable[..., Any])


class Steered(NamedTuple):
    """The answer for a run that was steered: a sentence, and what JSON has beside the run."""

    sentence: str
    more: Mapping[str, Any] = {}


Steer = Callable[[RunHandle[Any]], Awaitable[Steered]]
"""Steers one run, or in a dry run only checks whether it could."""

DEFAULT_TENANT: Final = "default"
PARTICIPLES: Final = {"cancel": "asked to stop", "resume": "resumed", "retry": "retried"}


def one_or_many(function: F) -> F:
    """A run's id, or filters; ``--limit``; which store and tenant."""
    function = options.store(filtered(function))
    every = click.option("--all", "everything", is_flag=True, help="Every run that it can be done to.")
    limit = click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most so many, the newest.")
    return click.argument("run", required=False)(every(limit(function)))


class Choice(msgspec.Struct, frozen=True):
    """One run, or many."""

    run: str | None
    filters: Filters
    limit: int | None

    @property
    def tenant(self) -> str:
        """The tenant of the one run."""
        return self.filters.tenant or DEFAULT_TENANT

    async def runs(self, app: Holdfast, status: Status | None) -> list[RunInfo]:
        """The chosen runs, newest first. ``status`` is the default filter; None is for all runs that have not ended."""
        is_filtered = self.filters.status is not None or self.filters.state is not None or self.filters.parked
        filters = self.filters if is_filtered else msgspec.structs.replace(self.filters, status=status)
        runs = app.list(**filters.by_name())
        wanted = [run async for run in runs if is_filtered or run.status not in ENDED or status is not None]
        return wanted[: self.limit]


def choice(run: str | None, everything: bool, limit: int | None, **filters: Any) -> Choice:
    """One run or many. Raises UsageError where both are named, or neither."""
    chosen = Filters(**filters)
    if run is not None and (everything or chosen.narrow or limit is not None):
        raise click.UsageError("give a RUN, or filters, not both")
    if run is None and not everything and not chosen.narrow:
        raise click.UsageError("give a RUN, filters like those of `holdfast list`, or --all; try it with --dry-run")
    return Choice(run, chosen, limit)


def steer(
    url: str, choice: Choice, status: Status | None, act: Steer, action: str, dry_run: bool, as_json: bool
) -> int:
    """Steer the one run, or each chosen run. A run that refuses does not stop the others, and the exit code is 1."""

    async def one(app: Holdfast, handle: RunHandle[Any]) -> None:
        steered = await session.patiently(app, act(handle))
        if as_json:
            more = {"action": action, "dry_run": dry_run, **steered.more}
            output.emit({**run_record(await handle.info()), **more})
        else:
            output.say(steered.sentence)

    async def work(app: Holdfast) -> int:
        if choice.run is not None:
            await one(app, app.run(choice.run, tenant=choice.tenant))
            return exits.GOOD
        done = refused = 0
        for run in await choice.runs(app, status):
            try:
                await one(app, app.run(run.id, tenant=run.tenant))
                done += 1
            except CallerError as error:
                _refuse(run, action, error, dry_run, as_json)
                refused += 1
        _count(action, done, refused, dry_run, as_json)
        return exits.NO if refused else exits.GOOD

    return session.on_store(url, work, waits=True)


def _refuse(run: RunInfo, action: str, error: CallerError, dry_run: bool, as_json: bool) -> None:
    if as_json:
        problem = {"code": error.code, "message": str(error)}
        output.emit({**run_record(run), "action": action, "dry_run": dry_run, "error": problem})
    else:
        output.note(f"error: {error}")


def _count(action: str, done: int, refused: int, dry_run: bool, as_json: bool) -> None:
    if as_json:
        output.emit({"action": action, "dry_run": dry_run, "count": done, "refused": refused})
        return
    if not done and not refused:
        output.note("no runs match.")
        return
    runs = f"{done} {'run' if done == 1 else 'runs'}"
    sentence = f"{runs} would be {PARTICIPLES[action]}" if dry_run else f"{runs} {PARTICIPLES[action]}"
    output.say(f"{sentence}, {refused} refused" if refused else sentence)
