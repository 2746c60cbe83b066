"""The filters of ``list``, shared by the commands that steer many runs at once."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, TypeVar, get_args

import click
import msgspec

from holdfast.cli import options
from holdfast.client.filters import RunFilters
from holdfast.client.views.states import STATES
from holdfast.store.protocol import Status

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--status", type=click.Choice(get_args(Status)), help="Only runs of this status."),
    click.option("--parked", is_flag=True, help="Only runs that the engine parked, not those that people paused."),
    click.option("--workflow", metavar="NAME", help="Only runs of this workflow."),
    click.option(
        "--attribute", "attributes", type=options.Pair(), multiple=True, metavar="K=V", help="Only with this attribute."
    ),
    click.option("--parent", metavar="RUN", help="Only the children of this run."),
    click.option(
        "--since", type=options.Moment(), metavar="TIME", help="Only created after: a time, or 2h for 2 hours ago."
    ),
    click.option("--until", type=options.Moment(), metavar="TIME", help="Only created before."),
    click.option("--ended-since", type=options.Moment(), metavar="TIME", help="Only ended after."),
    click.option("--ended-until", type=options.Moment(), metavar="TIME", help="Only ended before."),
    click.option("--workspace", metavar="NAME", help="Only of this workspace."),
    click.option("--actor", metavar="NAME", help="Only asked for by this person."),
    click.option("--reference", metavar="REFERENCE", help="Only with this business reference."),
    click.option(
        "--kind",
        type=click.Choice(("function", "definition", "machine")),
        help="Only runs of this kind of programs; those of machines are listed only so.",
    ),
    click.option("--state", type=click.Choice(tuple(STATES)), help="Only runs in this state."),
)


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """What the wanted runs have in common."""

    tenant: str | None = None
    status: Status | None = None
    parked: bool = False
    workflow: str | None = None
    attributes: tuple[tuple[str, str], ...] = ()
    parent: str | None = None
    since: datetime.datetime | None = None
    until: datetime.datetime | None = None
    ended_since: datetime.datetime | None = None
    ended_until: datetime.datetime | None = None
    workspace: str | None = None
    actor: str | None = None
    reference: str | None = None
    state: str | None = None
    kind: str | None = None

    @property
    def narrow(self) -> bool:
        """Whether they leave any run of the tenant out."""
        return msgspec.structs.replace(self, tenant=None) != Filters()

    def by_name(self) -> RunFilters:
        """The same filters as the client takes them."""
        return RunFilters(
            tenant=self.tenant,
            status=self.status,
            state=self.state,
            workflow=self.workflow,
            attributes=dict(self.attributes),
            parent=self.parent,
            created_after=self.since,
            created_before=self.until,
            ended_after=self.ended_since,
            ended_before=self.ended_until,
            workspace=self.workspace,
            actor=self.actor,
            reference=self.reference,
            parked=True if self.parked else None,
            kind=self.kind,
        )


def filtered(function: F) -> F:
    """The options by which runs are chosen."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return options.any_tenant(function)
