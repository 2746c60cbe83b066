"""The filters of lists of runs, as queries and bodies have them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from holdfast.client.filters import RunFilters
from holdfast.errors import MalformedRequest
from holdfast.server.fields import After, Limit, Text, Time
from holdfast.store.protocol import Status

Pair = Annotated[str, msgspec.Meta(pattern=r"^[^=]+=", max_length=4000, description="NAME=VALUE")]


class RunFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the wanted runs have in common. All of it holds."""

    status: Status | None = None
    state: Annotated[str, msgspec.Meta(description="As an execution, or `instance:running` and the like.")] | None = (
        None
    )
    workflow: Text | None = None
    attribute: Annotated[list[Pair], msgspec.Meta(max_length=20, description="NAME=VALUE; may be repeated.")] = []
    parent: Text | None = None
    workspace: Text | None = None
    actor: Text | None = None
    reference: Text | None = None
    kind: (
        Annotated[
            Literal["function", "definition", "machine"],
            msgspec.Meta(description="Of programs. Lanes of machines are listed only so, or among what is held up."),
        ]
        | None
    ) = None
    parked: Annotated[bool, msgspec.Meta(description="Whether the engine parked it.")] | None = None
    created_after: Time | None = None
    created_before: Time | None = None
    ended_after: Time | None = None
    ended_before: Time | None = None

    def filters(self, tenant: str | None) -> RunFilters:
        """The filters as the client takes them."""
        pairs = [pair.partition("=") for pair in self.attribute]
        attributes = {name: value for name, _, value in pairs}
        if len(attributes) < len(pairs):
            raise MalformedRequest("an attribute is given twice", [("query/attribute", "a name is given twice")])
        return RunFilters(
            tenant=tenant,
            status=self.status,
            state=self.state,
            workflow=self.workflow,
            attributes=attributes or None,
            parent=self.parent,
            workspace=self.workspace,
            actor=self.actor,
            reference=self.reference,
            parked=self.parked,
            kind=self.kind,
            created_after=self.created_after,
            created_before=self.created_before,
            ended_after=self.ended_after,
            ended_before=self.ended_before,
        )

    @property
    def is_empty(self) -> bool:
        """Whether it chooses all runs."""
        return self == type(self)()


class RunListing(RunFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which runs, and which part of the list."""

    limit: Limit = 100
    after: After | None = None
