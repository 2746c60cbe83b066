"""``holdfast schedules``: what starts by itself."""

from __future__ import annotations

import datetime
import itertools
import json

import click

from holdfast.cli import output
from holdfast.cli.groups import ListingGroup
from holdfast.cli.schedules import changes, controls, views
from holdfast.cli.schedules.options import Time
from holdfast.schedules.cron import times, zone_named
from holdfast.schedules.cron_fields import read_cron


@click.group(cls=ListingGroup)
def schedules() -> None:
    """List, make, steer and explain what starts by itself. Without a command: the list."""


for command in (
    views.list_schedules,
    views.show,
    views.explain,
    changes.create,
    changes.change,
    controls.pause,
    controls.resume,
    controls.run_now,
    controls.backfill,
    controls.delete,
):
    schedules.add_command(command)


@schedules.command()
@click.argument("cron")
@click.option("--timezone", default="UTC", metavar="ZONE", help="The zone whose clocks it follows. [UTC]")
@click.option("--after", type=Time(), help="Times after this one, as 2027-03-28T00:00:00Z. [now]")
@click.option("--count", type=click.IntRange(1, 10_000), default=8, show_default=True, help="How many.")
@click.option("--json", "as_json", is_flag=True, help="Write a JSON string a line.")
def next(cron: str, timezone: str, after: datetime.datetime | None, count: int, as_json: bool) -> None:
    """Print the next times of a CRON line, in UTC. No store is needed."""
    since = datetime.datetime.now(datetime.UTC) if after is None else after
    found = times(read_cron(cron), zone_named(timezone), since)
    for at in itertools.islice(found, count):
        text = at.strftime("%Y-%m-%dT%H:%M:%SZ")
        output.say(json.dumps(text) if as_json else text)
