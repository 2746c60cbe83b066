"""``prune`` and ``migrate``: the store's size and its schema."""

from __future__ import annotations

import datetime
import sys
from typing import Final

import click

from holdfast.cli import exits, options, output, session
from holdfast.cli.store.schemas import schema_numbers
from holdfast.client.engine import Holdfast
from holdfast.client.filters import run_rows
from holdfast.client.views.times import clock, iso, microseconds
from holdfast.errors import SchemaTooNew
from holdfast.store.protocol import Status

_BATCH: Final = 200
_ENDED: Final[tuple[Status, ...]] = ("completed", "failed", "cancelled")


@click.command()
@click.option(
    "--older-than",
    "age",
    type=options.Duration(),
    required=True,
    metavar="AGE",
    help="Ended longer ago than, e.g., 30d.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.dry_run
@options.store
def prune(age: float, yes: bool, dry_run: bool, store: str | None, as_json: bool) -> int:
    """Delete runs of all tenants that ended long ago, with their journals. It cannot be undone."""
    before = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=age)
    limit = microseconds(before)
    url = session.url_of(store)
    asks = sys.stdin.isatty() and not (dry_run or yes or as_json)
    if asks and not click.confirm(f"Delete all runs that ended before {clock(before)}?", err=True):
        return exits.NO

    async def work(app: Holdfast) -> int:
        count = 0
        with output.progress("runs found" if dry_run else "runs deleted", quiet=as_json) as advance:
            if dry_run:
                return await _count(app, limit)
            from holdfast.templates.storyteller import delete_ended

            while deleted := await session.patiently(
                app, delete_ended(app.store, app.definitions.tools, limit, _BATCH, app.clock.now())
            ):
                count += deleted
                advance(deleted)
        return count

    count = session.on_store(url, work)
    if as_json:
        output.emit({"action": "prune", "dry_run": dry_run, "ended_before": iso(before), "runs": count})
    else:
        output.say(f"{count} runs {'would be' if dry_run else 'were'} deleted")
    return exits.GOOD


async def _count(app: Holdfast, limit: int) -> int:
    count = 0
    for status in _ENDED:
        async for run in run_rows(app.store, status=status):
            waits = run.governed and run.evidence is None  # until it is made, its evidence needs the run
            count += run.ended_at is not None and run.ended_at < limit and not waits
    return count


@click.command()
@click.option("--check", is_flag=True, help="Change nothing; exit 1 where the schema is not up to date.")
@options.store
def migrate(check: bool, store: str | None, as_json: bool) -> int:
    """Create the store's schema, or bring it up to date."""
    url = session.url_of(store)
    present, newest = session.run(_numbers(url))
    current = present
    if not check and present < newest:
        session.on_store(url, _nothing, create=True)
        current, _ = session.run(schema_numbers(url))
    if as_json:
        output.emit({"action": "migrate", "from": present, "to": newest, "current": current == newest, "check": check})
    elif current < newest:
        output.say(f"the schema is {current} and {newest} is needed: run `holdfast migrate`")
    else:
        output.say(f"the schema is up to date: {newest}" if present == newest else f"schema {present} → {newest}")
    return exits.GOOD if current == newest else exits.NO


async def _numbers(url: str) -> tuple[int, int]:
    """The schema numbers; a SQLite file that is not there yet has schema 0."""
    from holdfast.cli.store.schemas import newest_schema, sqlite_path

    if url.startswith("sqlite:") and not sqlite_path(url).exists():
        return 0, newest_schema(url)
    present, newest = await schema_numbers(url)
    if present > newest:
        raise SchemaTooNew(f"the store has schema {present} and this Holdfast knows {newest}: upgrade Holdfast.")
    return present, newest


async def _nothing(_: Holdfast) -> None:
    return
