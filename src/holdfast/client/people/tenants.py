"""``app.tenants`` and ``app.workspaces``: who owns runs, and the parts of a tenant that its runs belong to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.client.items import Change, all_items, cap_change, change_item, found, write_cap_change
from holdfast.client.people.permission import operation
from holdfast.client.views.people import TenantInfo, WorkspaceInfo, tenant_info, workspace_info
from holdfast.errors import InvalidRequest, NameTaken, TenantNotFound, WorkspaceNotFound
from holdfast.people.tenants import (
    ACTIVE,
    TENANT,
    WORKSPACE,
    Tenant,
    TenantQuota,
    Workspace,
    check_limits,
    read_tenant,
    read_workspace,
    tenant_key,
    workspace_key,
)
from holdfast.runs.birth import check_new_id, check_text
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

UNCHANGED: Final = TenantQuota()


class Tenants:
    """The tenants of one engine's store. They are made and changed by the operator of the installation."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app

    @operation("tenants.see")
    async def list(self) -> AsyncIterator[TenantInfo]:
        """The tenants, by name; a bound caller sees their own."""
        async for row in all_items(self._app, TENANT):
            yield tenant_info(row)

    @operation("tenants.see")
    async def get(self, tenant: str | None = None) -> TenantInfo:
        """One tenant. Raises TenantNotFound."""
        name = self._app.tenant_of(tenant)
        return tenant_info(found(await self._app.store.item(tenant_key(name)), no_tenant(name)))

    @operation("tenants.change")
    async def create(
        self, name: str, *, title: str = "", limits: TenantQuota = UNCHANGED, by: str | None = None, reason: str = ""
    ) -> TenantInfo:
        """Make a tenant, with its caps. Raises NameTaken where there is one, and InvalidRequest."""
        tenant = Tenant(check_text(title, "the title"), check_limits(limits))

        async def change(present: p.ItemRow | None) -> Change:
            if present is not None:
                raise NameTaken(f"there is a tenant {name!r} already: `holdfast tenants list` shows them.")
            beside = await self._caps(name, tenant.limits)
            return Change(msgspec.json.encode(tenant), ACTIVE, details=_details(tenant), beside=beside)

        key = tenant_key(check_new_id(name, "the tenant"))
        return tenant_info(await change_item(self._app, key, "create_tenant", change, by=by, reason=reason))

    @operation("tenants.change")
    async def change(
        self,
        name: str,
        *,
        title: str | None = None,
        limits: TenantQuota | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> TenantInfo:
        """Change a tenant's title or its caps, all of which are given anew. Raises TenantNotFound, InvalidRequest."""
        if limits is not None:
            check_limits(limits)

        async def change(present: p.ItemRow | None) -> Change:
            before = read_tenant(found(present, no_tenant(name)))
            tenant = Tenant(before.title if title is None else title, before.limits if limits is None else limits)
            beside = await self._caps(name, tenant.limits)
            return Change(msgspec.json.encode(tenant), ACTIVE, details=_details(tenant), beside=beside)

        key = tenant_key(name)
        return tenant_info(await change_item(self._app, key, "change_tenant", change, by=by, reason=reason))

    async def _caps(self, name: str, limits: TenantQuota) -> Sequence[p.PutItem]:
        """The tenant's caps where claims read them."""
        cap = p.SetCap(limits.max_concurrency, limits.max_runs_per_min, limits.weight)
        key, writes = p.cap_key(name), p.SetWriteCap(limits.max_writes_per_run)
        return [*await cap_change(self._app, key, cap), *await write_cap_change(self._app, key, writes)]


class Workspaces:
    """The workspaces of one engine's tenants. Where a tenant has some, a bound caller starts runs in those only."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app

    @operation("workspaces.see")
    async def list(self, *, tenant: str | None = None) -> AsyncIterator[WorkspaceInfo]:
        """A tenant's workspaces, by name."""
        async for row in all_items(self._app, WORKSPACE, tenant=self._app.tenant_of(tenant)):
            yield await self._info(row)

    @operation("workspaces.see")
    async def get(self, name: str, *, tenant: str | None = None) -> WorkspaceInfo:
        """One workspace. Raises WorkspaceNotFound."""
        tenant = self._app.tenant_of(tenant)
        row = await self._app.store.item(workspace_key(tenant, name))
        return await self._info(found(row, no_workspace(name, tenant)))

    @operation("workspaces.change")
    async def create(
        self, name: str, *, title: str = "", tenant: str | None = None, by: str | None = None, reason: str = ""
    ) -> WorkspaceInfo:
        """Make a workspace. Raises NameTaken, InvalidRequest, and TenantNotFound where there is no such tenant."""
        tenant = self._app.tenant_of(tenant)
        body = msgspec.json.encode(Workspace(check_new_id(name, "the workspace"), check_text(title, "the title")))
        place = found(await self._app.store.item(tenant_key(tenant)), no_tenant(tenant))

        def change(present: p.ItemRow | None) -> Change:
            if present is not None:
                raise NameTaken(f"there is a workspace {name!r} in tenant {tenant!r} already.")
            return Change(body, ACTIVE)

        key = workspace_key(place.tenant, name)
        return await self._info(await change_item(self._app, key, "create_workspace", change, by=by, reason=reason))

    @operation("workspaces.change")
    async def limit(
        self,
        name: str,
        *,
        max_concurrency: int | None = None,
        max_runs_per_min: int | None = None,
        weight: int | None = None,
        max_writes_per_run: int | None = None,
        tenant: str | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> WorkspaceInfo:
        """Set the caps of a workspace, and its share where workspaces compete; what is not given is not set.

        Raises WorkspaceNotFound, InvalidRequest.
        """
        tenant = self._app.tenant_of(tenant)
        row = found(await self._app.store.item(workspace_key(tenant, name)), no_workspace(name, tenant))
        given = {"max_concurrency": max_concurrency, "max_runs_per_min": max_runs_per_min, "weight": weight}
        writes = {"max_writes_per_run": max_writes_per_run}
        try:
            cap, write_cap = msgspec.convert(given, p.SetCap), msgspec.convert(writes, p.SetWriteCap)
        except msgspec.ValidationError as error:
            raise InvalidRequest(f"caps are numbers from 0 to 1,000,000,000, and weights from 1: {error}") from None
        said = {each: str(number) for each, number in {**given, **writes}.items() if number is not None}
        key = p.cap_key(tenant, workspace=name)

        async def change(_: p.ItemRow | None) -> Change:
            of_writes = await write_cap_change(self._app, key, write_cap)
            status = p.CAP_UNSET if cap == p.SetCap() else p.CAP_SET
            return Change(msgspec.json.encode(cap), status, details={"workspace": name, **said}, beside=of_writes)

        await change_item(self._app, key, "limit_workspace", change, by=by, reason=reason)
        return await self._info(row)

    @operation("workspaces.change")
    async def archive(
        self, name: str, *, tenant: str | None = None, by: str | None = None, reason: str = ""
    ) -> WorkspaceInfo:
        """Let no more runs start in a workspace; those that are there go on. Raises WorkspaceNotFound."""
        tenant = self._app.tenant_of(tenant)

        def change(present: p.ItemRow | None) -> Change:
            row = found(present, no_workspace(name, tenant))
            workspace = msgspec.structs.replace(read_workspace(row), archived=True)
            return Change(msgspec.json.encode(workspace), workspace.status)

        key = workspace_key(tenant, name)
        return await self._info(await change_item(self._app, key, "archive_workspace", change, by=by, reason=reason))

    async def _info(self, row: p.ItemRow) -> WorkspaceInfo:
        """A workspace with its caps."""
        key, store = p.cap_key(row.tenant, workspace=row.id), self._app.store
        cap, writes = await store.item(key), await store.item(p.write_cap_key(key))
        return workspace_info(
            row,
            p.SetCap() if cap is None else msgspec.json.decode(cap.body, type=p.SetCap),
            p.SetWriteCap() if writes is None else msgspec.json.decode(writes.body, type=p.SetWriteCap),
        )


async def check_workspace(app: Holdfast, tenant: str, name: str) -> None:
    """Raises WorkspaceNotFound where a bound caller names none of the tenant's workspaces, and it has some."""
    if app.binding is None or not name:
        return
    row = await app.store.item(workspace_key(tenant, name))
    if row is not None and not read_workspace(row).archived:
        return
    if row is not None or await app.store.items(WORKSPACE, 1, tenant=tenant):
        raise no_workspace(name, tenant)


def no_tenant(name: str) -> TenantNotFound:
    """There is no such tenant."""
    return TenantNotFound(f"there is no tenant {name!r}: the operator makes it with `holdfast tenants create`.")


def no_workspace(name: str, tenant: str) -> WorkspaceNotFound:
    """There is no such workspace, or it is archived."""
    return WorkspaceNotFound(f"there is no open workspace {name!r} in tenant {tenant!r}.")


def _details(tenant: Tenant) -> dict[str, str]:
    limits = msgspec.to_builtins(tenant.limits)
    return {name: str(value) for name, value in limits.items()}
