"""Caps that people set in a tenant: items, which every claim and every write reads in its own transaction.

So a cap holds from its commit on for all workers, and nobody keeps a copy that could be old. The id of such an item
says for what the cap is: the tenant, one of its workspaces, or one of its templates. What it sets is laid over the
limits of the policy, cap by cap. Caps on writes are items of a kind of their own, so that claims need not look at them;
of these and the policy's the strictest holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from holdfast.store.admission import Cap, Limits, TenantLimits, WriteLimits
from holdfast.store.items import ItemKey

CAP: Final = "cap"
"""The kind of the items."""
CAP_SET: Final = "set"
"""The status of an item that sets a cap or a weight. Others are not read."""
CAP_UNSET: Final = "none"
WRITE_CAP: Final = "write_cap"
"""The kind of the items that cap writes. Their ids are those of ``CAP``."""

_TENANT: Final = "tenant"
_WORKSPACE: Final = "workspace:"
_TEMPLATE: Final = "template:"

CapCount = Annotated[int, Meta(ge=0, le=1_000_000_000)]
CapWeight = Annotated[int, Meta(ge=1, le=1_000_000)]


class SetCap(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body of a cap's item. What is None is not set. ``weight`` is the share of a tenant or a workspace."""

    max_concurrency: CapCount | None = None
    max_runs_per_min: CapCount | None = None
    weight: CapWeight | None = None


def cap_key(tenant: str, *, workspace: str | None = None, template: str | None = None) -> ItemKey:
    """The item of a template's cap, of a workspace's, or of the tenant's own."""
    if template is not None:
        return ItemKey(tenant, CAP, _TEMPLATE + template)
    return ItemKey(tenant, CAP, _TENANT if workspace is None else _WORKSPACE + workspace)


class SetWriteCap(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body of a write cap's item."""

    max_writes_per_run: CapCount | None = None


def write_cap_key(cap: ItemKey) -> ItemKey:
    """The item that caps writes, beside the item of the other caps."""
    return cap._replace(kind=WRITE_CAP)


def with_write_caps(limits: WriteLimits, rows: Iterable[tuple[str, bytes]]) -> WriteLimits:
    """The limits with those that people have set in the tenant: the ids and bodies of items. As ``laid_over``, a body
    that cannot be read allows nothing."""
    workspaces, templates, people = dict(limits.workspaces), dict(limits.templates), limits.people
    for id, body in rows:
        most = _read_writes(body)
        if id.startswith(_TEMPLATE):
            templates[id.removeprefix(_TEMPLATE)] = most
        elif id.startswith(_WORKSPACE):
            workspaces[id.removeprefix(_WORKSPACE)] = most
        else:
            people = most
    return replace(limits, people=people, workspaces=workspaces, templates=templates)


def _read_writes(body: bytes) -> int:
    try:
        return msgspec.json.decode(body, type=SetWriteCap).max_writes_per_run or 0
    except msgspec.MsgspecError:
        return 0


def laid_over(limits: Limits | None, rows: Iterable[tuple[str, str, bytes]]) -> Limits | None:
    """The limits with the caps of these items, each a tenant, an id and a body; None where nothing limits anything.

    A body that cannot be read is a cap of nothing at once: what it meant is not known, and nothing may pass it by.
    """
    found: dict[str, TenantLimits] = {}
    for tenant, id, body in rows:
        present = found.get(tenant) or (TenantLimits() if limits is None else limits.of(tenant))
        found[tenant] = _with_cap(present, id, read_cap(body))
    if not found:
        return limits
    if limits is None:
        return Limits(tenants=found)
    return Limits(limits.default, {**limits.tenants, **found})


def read_cap(body: bytes) -> SetCap:
    """What a cap's item sets; nothing may pass one that cannot be read."""
    try:
        return msgspec.json.decode(body, type=SetCap)
    except msgspec.MsgspecError:
        return SetCap(max_concurrency=0)


def _with_cap(limits: TenantLimits, id: str, given: SetCap) -> TenantLimits:
    cap = Cap(given.max_concurrency, given.max_runs_per_min)
    if id.startswith(_TEMPLATE):
        return replace(limits, templates={**limits.templates, id.removeprefix(_TEMPLATE): cap})
    if id.startswith(_WORKSPACE):
        name = id.removeprefix(_WORKSPACE)
        weights = limits.weights if given.weight is None else {**limits.weights, name: given.weight}
        return replace(limits, workspaces={**limits.workspaces, name: cap}, weights=weights)
    own = Cap(
        limits.cap.max_concurrency if given.max_concurrency is None else given.max_concurrency,
        limits.cap.max_runs_per_min if given.max_runs_per_min is None else given.max_runs_per_min,
    )
    return replace(limits, cap=own, weight=limits.weight if given.weight is None else given.weight)
