"""``tasks complete``, ``claim``, ``release``, ``assign``, ``delegate``: what a person does with a task."""

from __future__ import annotations

import click

from holdfast.cli import options
from holdfast.cli.governance.answers import say
from holdfast.cli.governance.tasks import tasks

__all__ = ["delegate", "tasks"]

in_group = click.option(
    "--group", "groups", multiple=True, metavar="NAME", help="A group that you are in; may be repeated."
)
to_person = click.option("--to", required=True, metavar="NAME", help="Whose task it is from now on.")
to_group = click.option(
    "--to-group", "to_groups", multiple=True, metavar="NAME", help="A group that they are in; may be repeated."
)


@click.command()
@click.argument("id")
@click.option("--answer", "text", required=True, metavar="JSON", help="The answer: what the form asks for, as JSON.")
@in_group
@options.done_by
def complete(
    id: str,
    text: str,
    groups: tuple[str, ...],
    who: str,
    reason: str,
    tenant: str,
    store: str | None,
    as_json: bool,
) -> None:
    """Fill in the form that task ID asks for: its run goes on with that. What does not fit leaves it open."""
    value = options.value_of(text)
    say(
        store,
        lambda all_: all_.complete(id, value, by=who, groups=groups, reason=reason, tenant=tenant),
        "complete",
        as_json,
    )


@click.command()
@click.argument("id")
@in_group
@options.done_by
def claim(
    id: str, groups: tuple[str, ...], who: str, reason: str, tenant: str, store: str | None, as_json: bool
) -> None:
    """Take task ID: nobody else may answer it until it is released."""
    say(store, lambda all_: all_.claim(id, by=who, groups=groups, reason=reason, tenant=tenant), "claim", as_json)


@click.command()
@click.argument("id")
@options.done_by
def release(id: str, who: str, reason: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Give task ID back: all its candidates may answer again."""
    say(store, lambda all_: all_.release(id, by=who, reason=reason, tenant=tenant), "release", as_json)


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
    say(
        store,
        lambda all_: all_.assign(id, by=who, to=to, to_groups=to_groups, reason=reason, tenant=tenant),
        "assign",
        as_json,
    )


@click.command()
@click.argument("id")
@to_person
@in_group
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
    say(
        store,
        lambda all_: all_.delegate(id, by=who, to=to, groups=groups, to_groups=to_groups, reason=reason, tenant=tenant),
        "delegate",
        as_json,
    )


for _command in (complete, claim, release, assign, delegate):
    tasks.add_command(_command)
