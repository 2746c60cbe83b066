"""Tenants and workspaces: who owns runs, and the parts of a tenant that its runs belong to.

A tenant's item is made by the operator of the installation. It carries the tenant's caps and its weight, where those
are not left to the policy's file. Its version is raised whenever one of the tenant's users stops being of level 6, so
that of two such changes at once one is tried again and sees the other.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.errors import InvalidRequest
from holdfast.store.items import ItemKey, ItemRow

TENANT: Final = "tenant"
WORKSPACE: Final = "workspace"
ACTIVE: Final = "active"
ARCHIVED: Final = "archived"
LARGEST_CAP: Final = 1_000_000_000
LARGEST_WEIGHT: Final = 1_000_000


class TenantQuota(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tenant's caps. None leaves one to the policy's file. ``max_writes_per_run`` holds beside the policy's: the
    strictest counts."""

    max_concurrency: int | None = None
    max_runs_per_min: int | None = None
    weight: int | None = None
    max_writes_per_run: int | None = None


class Tenant(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a tenant's item says."""

    title: str = ""
    limits: TenantQuota = TenantQuota()


class Workspace(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a workspace's item says."""

    name: str
    title: str = ""
    archived: bool = False

    @property
    def status(self) -> str:
        return ARCHIVED if self.archived else ACTIVE


_tenants = msgspec.json.Decoder(Tenant)
_workspaces = msgspec.json.Decoder(Workspace)


def tenant_key(tenant: str) -> ItemKey:
    return ItemKey(tenant, TENANT, tenant)


def workspace_key(tenant: str, name: str) -> ItemKey:
    return ItemKey(tenant, WORKSPACE, name)


def read_tenant(row: ItemRow) -> Tenant:
    return _tenants.decode(row.body)


def read_workspace(row: ItemRow) -> Workspace:
    return _workspaces.decode(row.body)


def check_limits(limits: TenantQuota) -> TenantQuota:
    """Limits that can be used. Raises InvalidRequest."""
    for name in limits.__struct_fields__:
        value, least, most = getattr(limits, name), int(name == "weight"), LARGEST_CAP
        most = LARGEST_WEIGHT if name == "weight" else most
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (is_number and least <= value <= most):
            raise InvalidRequest(f"{name} is a whole number from {least} to {most}, not {value!r:.60}")
    return limits
