"""What a policy file says of caps, and what follows for a tenant and a workflow.

The most specific setting wins, cap by cap: the tenant's for a workflow, the default's for it, the tenant's, the
default's. Where nothing is set there is no limit.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.store.admission import Cap, Limits, TenantLimits, WriteLimits

Count = Annotated[int, Meta(ge=0, le=1_000_000_000)]


class WorkflowCaps(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Caps on the runs of one workflow."""

    max_concurrency: Annotated[Count, Meta(description="how many runs may be under way at once")] | UnsetType = UNSET
    max_runs_per_min: Annotated[Count, Meta(description="how many runs may begin in any minute")] | UnsetType = UNSET
    max_writes_per_run: (
        Annotated[Count, Meta(description="how many actions that write a run may take, with its children")] | UnsetType
    ) = UNSET


class TenantCaps(WorkflowCaps, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Caps on all runs of a tenant, and those of its workflows."""

    weight: (
        Annotated[int, Meta(ge=1, le=1_000_000, description="its share beside other tenants; 1 unless it is given")]
        | UnsetType
    ) = UNSET
    workflows: Annotated[dict[str, WorkflowCaps], Meta(description="caps of its own for a workflow, by name")] = {}


class Caps(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Caps: for every tenant, and for some of them."""

    default: Annotated[TenantCaps, Meta(description="what holds for a tenant that says nothing else")] = TenantCaps()
    tenants: Annotated[dict[str, TenantCaps], Meta(description="what holds for one tenant, by name")] = {}

    def write_limits(self, tenant: str) -> WriteLimits:
        """How many actions that write the runs of a tenant may take."""
        own, general = self.tenants.get(tenant, _SILENT), self.default
        words = {
            name: (own.workflows.get(name, _SILENT), general.workflows.get(name, _SILENT), own, general)
            for name in {**general.workflows, **own.workflows}
        }
        return WriteLimits(
            _first(own.max_writes_per_run, general.max_writes_per_run),
            {name: _first(*(word.max_writes_per_run for word in each)) for name, each in words.items()},
        )

    def limits(self) -> Limits | None:
        """What admission needs to know; None where the file speaks of neither concurrency, rate nor weight."""
        tenants = [self.default, *self.tenants.values()]
        spoken = [word for tenant in tenants for word in (tenant, *tenant.workflows.values())]
        if all(word.max_concurrency is UNSET and word.max_runs_per_min is UNSET for word in spoken) and all(
            tenant.weight is UNSET for tenant in tenants
        ):
            return None
        named = {name: self._tenant(own) for name, own in self.tenants.items()}
        return Limits(self._tenant(self.default), named)

    def _tenant(self, own: TenantCaps) -> TenantLimits:
        general = self.default
        workflows = {
            name: _cap(own.workflows.get(name, _SILENT), general.workflows.get(name, _SILENT))
            for name in {**general.workflows, **own.workflows}
        }
        spoken = {name: cap for name, cap in workflows.items() if cap != Cap()}
        return TenantLimits(_cap(own, general), _first(own.weight, general.weight) or 1, spoken)


_SILENT = TenantCaps()


def _cap(*words: WorkflowCaps) -> Cap:
    return Cap(
        _first(*(word.max_concurrency for word in words)),
        _first(*(word.max_runs_per_min for word in words)),
    )


def _first(*words: int | UnsetType) -> int | None:
    return next((word for word in words if not isinstance(word, UnsetType)), None)
