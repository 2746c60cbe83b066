"""One command for one run or for many: those that the filters of ``list`` choose are steered one by one, and counted.

Each goes through the same call as one run alone, so it is audited, and refused, as that would be. The runs are chosen
before the first is touched: what steering changes does not change the choice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import click
import msgspec

from holdfast.cli import exits, options, output, session
from holdfast.cli.filters import Filters, filtered
from holdfast.client.engine import Holdfast
from holdfast.client.handle import RunHandle
from holdfast.client.views import records
from holdfast.errors import CallerError
from holdfast.store.protocol import ENDED, Run, Status

F = TypeVar("F", bound=Callable[..., Any])


class Steered(NamedTuple):
    """What to say of a run that was steered: a sentence, and what JSON has beside its row."""

    sentence: str
    more: Mapping[str, Any] = {}


Deed = Callable[[RunHandle[Any]], Awaitable[Steered]]
"""Steers one run, or in a dry run only looks whether it could be."""

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

    async def rows(self, app: Holdfast, status: Status | None) -> list[Run]:
        """The chosen runs, newest first. Where no status is asked for, ``status`` is meant; None for all not ended."""
        asked = self.filters.status is not None or self.filters.state is not None or self.filters.parked
        filters = self.filters if asked else msgspec.structs.replace(self.filters, status=status)
        found = filters.find(app)
        rows = [row async for row in found if asked or row.standing not in ENDED or status is not None]
        return rows[: self.limit]


def choice(run: str | None, everything: bool, limit: int | None, **filters: Any) -> Choice:
    """What is meant. Raises UsageError where both one and many are, or neither."""
    chosen = Filters(**filters)
    if run is not None and (everything or chosen.narrow or limit is not None):
        raise click.UsageError("give a RUN, or filters, not both")
    if run is None and not everything and not chosen.narrow:
        raise click.UsageError("give a RUN, filters like those of `holdfast list`, or --all; try it with --dry-run")
    return Choice(run, chosen, limit)


def steer(
    url: str, choice: Choice, status: Status | None, deed: Deed, action: str, dry_run: bool, as_json: bool
) -> int:
    """Steer the one run, or each that is chosen. Of many, one that refuses does not keep the others, and it exits 1."""

    async def one(app: Holdfast, handle: RunHandle[Any]) -> None:
        said = await session.patiently(app, deed(handle))
        if as_json:
            more = {"action": action, "dry_run": dry_run, **said.more}
            output.emit({**records.run_record(await handle.info()), **more})
        else:
            output.say(said.sentence)

    async def work(app: Holdfast) -> int:
        if choice.run is not None:
            await one(app, app.run(choice.run, tenant=choice.tenant))
            return exits.GOOD
        done = refused = 0
        for row in await choice.rows(app, status):
            try:
                await one(app, app.run(row.key.run, tenant=row.key.tenant))
                done += 1
            except CallerError as error:
                _refuse(row, action, error, dry_run, as_json)
                refused += 1
        _count(action, done, refused, dry_run, as_json)
        return exits.NO if refused else exits.GOOD

    return session.on_store(url, work)


def _refuse(row: Run, action: str, error: CallerError, dry_run: bool, as_json: bool) -> None:
    if as_json:
        told = {"code": error.code, "message": str(error)}
        output.emit({**records.run_record(row), "action": action, "dry_run": dry_run, "error": told})
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
    told = f"{runs} would be {PARTICIPLES[action]}" if dry_run else f"{runs} {PARTICIPLES[action]}"
    output.say(f"{told}, {refused} refused" if refused else told)
