"""``tasks claim``, ``release``, ``assign``, ``delegate``: who has a task."""

from __future__ import annotations

import click

from holdfast.cli import options
from holdfast.cli.governance.answers import give
from holdfast.cli.governance.forms import complete, fill, write_file
from holdfast.cli.governance.present import compare
from holdfast.cli.governance.tasks import tasks

__all__ = ["delegate", "tasks"]

to_person = click.option("--to", required=True, metavar="NAME", help="Whose task it is from now on.")
to_group = click.option(
    "--to-group", "to_groups", multiple=True, metavar="NAME", help="A group that they are in; may be repeated."
)


@click.command()
@click.argument("id")
@options.in_group
@options.done_by
def claim(
    id: str, groups: tuple[str, ...], who: str, reason: str, tenant: str, store: str | None, as_json: bool
) -> None:
    """Take task ID: nobody else may answer it until it is released."""
    give(store, lambda all_: all_.claim(id, by=who, groups=groups, reason=reason, tenant=tenant), "claim", as_json)


@click.command()
@click.argument("id")
@options.done_by
def release(id: str, who: str, reason: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Give task ID back: all its candidates may answer again."""
    give(store, lambda all_: all_.release(id, by=who, reason=reason, tenant=tenant), "release", as_json)


@click.command()
@click.argument("id")
@to_person
@to_group
@options.done_by
def assign(
    id: str,
    to: str,
    to_groups: tuple[str, ...],
    who: str,
    reason: str,
    tenant: str,
    store: str | None,
    as_json: bool,
) -> None:
    """Give task ID to one person who may answer it."""
    give(
        store,
        lambda all_: all_.assign(id, by=who, to=to, to_groups=to_groups, reason=reason, tenant=tenant),
        "assign",
        as_json,
    )


@click.command()
@click.argument("id")
@to_person
@options.in_group
@to_group
@options.done_by
def delegate(
    id: str,
    to: str,
    groups: tuple[str, ...],
    to_groups: tuple[str, ...],
    who: str,
    reason: str,
    tenant: str,
    store: str | None,
    as_json: bool,
) -> None:
    """Let another person, and nobody else, answer task ID."""
    give(
        store,
        lambda all_: all_.delegate(id, by=who, to=to, groups=groups, to_groups=to_groups, reason=reason, tenant=tenant),
        "delegate",
        as_json,
    )


for _command in (complete, fill, write_file, compare, claim, release, assign, delegate):
    tasks.add_command(_command)
