"""The facts about a run as a whole, and its costs, as evidence has them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class RunLine(msgspec.Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The run that a bundle is about, in the generation that it is about. Times are microseconds since 1970, UTC.

    ``program_kind`` is not said of a function.
    """

    id: str
    tenant: str
    workflow: str
    generation: int
    standing: str
    ended: bool
    governed: bool
    workspace: str
    actor: str | None
    trigger_type: str | None
    trigger_ref: str | None
    parent: str | None
    forked_from: str | None
    created_at: int
    ended_at: int | None
    program_kind: str = "function"


class CostLine(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A sum of costs: ``of`` names the provider, the model and the currency, ``sums`` has the numbers."""

    of: Mapping[str, str]
    sums: Mapping[str, float]
