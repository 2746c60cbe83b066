"""Tenants and their workspaces: who owns runs, and how much each may do at once."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import FormData

from holdfast.people.tenants import TenantQuota
from holdfast.server.call import RouteCall
from holdfast.server.console.page import ConsoleForm, ConsolePage, Context, Done
from holdfast.server.console.typed import number_of, reason_of, text_of
from holdfast.store.protocol import ENDED


async def load(call: RouteCall[Any, None]) -> Context:
    client, tenant = call.client, call.tenant
    moving: dict[str, int] = {}
    for each in await client.counts():
        if each.status not in ENDED:
            moving[each.tenant] = moving.get(each.tenant, 0) + each.count
    return {
        "tenants": [each async for each in client.tenants.list()],
        "moving": moving,
        "workspaces": [each async for each in client.workspaces.list(tenant=tenant)],
    }


def _caps(typed: FormData) -> dict[str, int | None]:
    return {
        "max_concurrency": number_of(typed, "max_concurrency", "how many runs at once"),
        "max_runs_per_min": number_of(typed, "max_runs_per_min", "how many runs in a minute"),
        "weight": number_of(typed, "weight", "the share"),
        "max_writes_per_run": number_of(typed, "max_writes_per_run", "how many writes of a run"),
    }


async def create_tenant(call: RouteCall[Any, None], typed: FormData) -> Done:
    name, caps = text_of(typed, "name"), TenantQuota(**_caps(typed))
    title, reason = text_of(typed, "title"), reason_of(typed)
    await call.client.tenants.create(name, title=title, limits=caps, by=call.by, reason=reason)
    return Done(path=("tenants",), words=f"Tenant {name} was made.")


async def change_tenant(call: RouteCall[Any, None], typed: FormData) -> Done:
    name, caps = call.path["tenant"], TenantQuota(**_caps(typed))
    title, reason = text_of(typed, "title"), reason_of(typed)
    await call.client.tenants.change(name, title=title, limits=caps, by=call.by, reason=reason)
    return Done(path=("tenants",), words=f"Tenant {name} was changed. Its caps hold at once.")


async def create_workspace(call: RouteCall[Any, None], typed: FormData) -> Done:
    name, title, reason = text_of(typed, "name"), text_of(typed, "title"), reason_of(typed)
    await call.client.workspaces.create(name, title=title, tenant=call.tenant, by=call.by, reason=reason)
    return Done(path=("tenants",), words=f"Workspace {name} was made.")


async def limit_workspace(call: RouteCall[Any, None], typed: FormData) -> Done:
    name, caps, reason = call.path["workspace"], _caps(typed), reason_of(typed)
    await call.client.workspaces.limit(name, **caps, tenant=call.tenant, by=call.by, reason=reason)
    return Done(path=("tenants",), words=f"The caps of workspace {name} hold at once.")


async def archive_workspace(call: RouteCall[Any, None], typed: FormData) -> Done:
    name, reason = call.path["workspace"], reason_of(typed)
    await call.client.workspaces.archive(name, tenant=call.tenant, by=call.by, reason=reason)
    return Done(path=("tenants",), words=f"No more runs start in workspace {name}; those that are there go on.")


TENANTS = ConsolePage(
    path="/tenants",
    operation="tenants.see",
    words="Who owns runs, their workspaces, and how much each may do at once.",
    load=load,
    template="tenants.html",
    data="/v1/tenants",
)

PAGES = (TENANTS,)
FORMS = (
    ConsoleForm(path="/tenants", operation="tenants.change", words="Make a tenant.", act=create_tenant, page=TENANTS),
    ConsoleForm(
        path="/tenants/{tenant}",
        operation="tenants.change",
        words="Give a tenant another title or other caps.",
        act=change_tenant,
        page=TENANTS,
    ),
    ConsoleForm(
        path="/workspaces",
        operation="workspaces.change",
        words="Make a workspace.",
        act=create_workspace,
        page=TENANTS,
    ),
    ConsoleForm(
        path="/workspaces/{workspace}/caps",
        operation="workspaces.change",
        words="Set the caps of a workspace.",
        act=limit_workspace,
        page=TENANTS,
    ),
    ConsoleForm(
        path="/workspaces/{workspace}/archive",
        operation="workspaces.change",
        words="Let no more runs start in a workspace.",
        act=archive_workspace,
        page=TENANTS,
    ),
)
