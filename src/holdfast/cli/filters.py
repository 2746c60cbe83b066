"""Which runs are meant: the filters of ``list``, shared by the commands that steer many runs at once."""

from __future__ import annotations

import datetime
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar, get_args

import click
import msgspec

from holdfast.cli import options
from holdfast.client.engine import Holdfast
from holdfast.client.pauses import is_parked
from holdfast.store.protocol import Run, Status

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
)


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """What the runs that are meant have in common."""

    tenant: str | None = None
    status: Status | None = None
    parked: bool = False
    workflow: str | None = None
    attributes: tuple[tuple[str, str], ...] = ()
    parent: str | None = None
    since: datetime.datetime | None = None
    until: datetime.datetime | None = None

    @property
    def narrow(self) -> bool:
        """Whether they leave any run out, the tenant apart."""
        return msgspec.structs.replace(self, tenant=None) != Filters()

    async def find(self, app: Holdfast, limit: int | None = None) -> AsyncIterator[Run]:
        """The runs that match, newest first."""
        found = app.list(
            tenant=self.tenant,
            status=self.status or ("paused" if self.parked else None),
            workflow=self.workflow,
            attributes=dict(self.attributes),
            parent=self.parent,
            created_after=self.since,
            created_before=self.until,
            limit=None if self.parked else limit,
        )
        left = limit
        async for row in found:
            if self.parked and not is_parked(row):
                continue
            if left == 0:
                return
            left = None if left is None else left - 1
            yield row


def filtered(function: F) -> F:
    """The options by which runs are chosen."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return options.any_tenant(function)
