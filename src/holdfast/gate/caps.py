"""The caps of a policy file, and the limits that follow for a tenant and a workflow.

The most specific setting wins, cap by cap. The order is: the tenant's setting for the workflow, the default's setting
for the workflow, the tenant's, the default's. Where nothing is set there is no limit.
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
        Annotated[Count, Meta(description="how many writing actions a run and its children may take")] | UnsetType
    ) = UNSET


class TenantCaps(WorkflowCaps, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Caps on all runs of a tenant, and on the runs of its workflows."""

    weight: (
        Annotated[int, Meta(ge=1, le=1_000_000, description="its share where tenants compete; 1 unless it is given")]
        | UnsetType
    ) = UNSET
    workflows: Annotated[dict[str, WorkflowCaps], Meta(description="caps for single workflows, by name")] = {}


class Caps(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Caps for all tenants, and for single tenants."""

    default: Annotated[TenantCaps, Meta(description="caps of each tenant that sets no others")] = TenantCaps()
    tenants: Annotated[dict[str, TenantCaps], Meta(description="caps of single tenants, by name")] = {}

    def write_limits(self, tenant: str) -> WriteLimits:
        """How many writing actions the runs of a tenant may take."""
        own, general = self.tenants.get(tenant, _NO_CAPS), self.default
        settings = {
            name: (own.workflows.get(name, _NO_CAPS), general.workflows.get(name, _NO_CAPS), own, general)
            for name in {**general.workflows, **own.workflows}
        }
        return WriteLimits(
            _first(own.max_writes_per_run, general.max_writes_per_run),
            {name: _first(*(caps.max_writes_per_run for caps in each)) for name, each in settings.items()},
        )

    def limits(self) -> Limits | None:
        """The limits for admission; None where the file sets neither concurrency, rate nor weight."""
        tenants = [self.default, *self.tenants.values()]
        settings = [caps for tenant in tenants for caps in (tenant, *tenant.workflows.values())]
        if all(caps.max_concurrency is UNSET and caps.max_runs_per_min is UNSET for caps in settings) and all(
            tenant.weight is UNSET for tenant in tenants
        ):
            return None
        named = {name: self._tenant(own) for name, own in self.tenants.items()}
        return Limits(self._tenant(self.default), named)

    def _tenant(self, own: TenantCaps) -> TenantLimits:
        general = self.default
        workflows = {
            name: _cap(own.workflows.get(name, _NO_CAPS), general.workflows.get(name, _NO_CAPS))
            for name in {**general.workflows, **own.workflows}
        }
        limited = {name: cap for name, cap in workflows.items() if cap != Cap()}
        return TenantLimits(_cap(own, general), _first(own.weight, general.weight) or 1, limited)


_NO_CAPS = TenantCaps()


def _cap(*settings: WorkflowCaps) -> Cap:
    return Cap(
        _first(*(caps.max_concurrency for caps in settings)),
        _first(*(caps.max_runs_per_min for caps in settings)),
    )


def _first(*numbers: int | UnsetType) -> int | None:
    return next((number for number in numbers if not isinstance(number, UnsetType)), None)
