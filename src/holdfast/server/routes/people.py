"""Users, tokens, workspaces and the tenant itself."""

from __future__ import annotations

from typing import Annotated

import msgspec

from holdfast.client.views.cursors import Page
from holdfast.client.views.people import MintedToken, TenantInfo, TokenInfo, UserInfo, WorkspaceInfo
from holdfast.people.tenants import TenantQuota
from holdfast.people.tokens import DEFAULT_DAYS
from holdfast.server.call import RouteCall
from holdfast.server.fields import Name, PageQuery, Reason, ReasonBody, Text
from holdfast.server.route import Nothing, Route
from holdfast.store.caps import CapCount, CapWeight

Level = Annotated[int, msgspec.Meta(ge=1, le=6)]
Groups = Annotated[list[Name], msgspec.Meta(max_length=100)]


class NewUser(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user to be made."""

    name: Name
    level: Level
    groups: Groups = []
    reason: Reason = ""


class UserLink(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a user logs in: an account of a provider, by issuer and subject, or another spelling of the name."""

    issuer: Text | None = None
    subject: Text | None = None
    login: Name | None = None


class UserChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes different; what is left out stays. Each is a change of its own in the audit."""

    level: Level | None = None
    groups: Groups | None = None
    disabled: bool | None = None
    unlink: bool = False  # whether the account of a provider that the user is linked to is taken off
    unlink_login: Name | None = None  # another spelling of the name with which the user no longer logs in
    link: UserLink | None = None
    reason: Reason = ""


class TokenQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose tokens; all by default."""

    user: Name | None = None


class NewToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token to be made. `scope` are operations; `days` is how long it is good, null for ever."""

    user: Name
    level: Level | None = None
    scope: Annotated[list[Name], msgspec.Meta(max_length=100)] = []
    days: Annotated[float, msgspec.Meta(gt=0)] | None = DEFAULT_DAYS
    purpose: Text = ""
    reason: Reason = ""


class NewWorkspace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A workspace to be made."""

    name: Name
    title: Text = ""
    reason: Reason = ""


class CapsBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Caps, all given anew: one that is null is not set. `weight` is the share where several compete."""

    max_concurrency: CapCount | None = None
    max_runs_per_min: CapCount | None = None
    weight: CapWeight | None = None
    max_writes_per_run: CapCount | None = None
    reason: Reason = ""


class TenantBody(CapsBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tenant's title and caps; a title that is null stays."""

    title: Text | None = None


class NewTenant(TenantBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tenant to be made."""

    name: Name


async def list_users(call: RouteCall[PageQuery, None]) -> Page[UserInfo]:
    return await call.client.users.page(limit=call.query.limit, after=call.query.after, tenant=call.tenant)


async def show_user(call: RouteCall[Nothing, None]) -> UserInfo:
    return await call.client.users.get(call.path["user"], tenant=call.tenant)


async def create_user(call: RouteCall[Nothing, NewUser]) -> UserInfo:
    body = call.body
    return await call.client.users.create(
        body.name, level=body.level, groups=body.groups, tenant=call.tenant, by=call.by, reason=body.reason
    )


async def change_user(call: RouteCall[Nothing, UserChange]) -> UserInfo:
    body, users, name = call.body, call.client.users, call.path["user"]
    tenant, by, reason = call.tenant, call.by, call.body.reason
    if body.level is not None:
        await users.set_level(name, body.level, tenant=tenant, by=by, reason=reason)
    if body.groups is not None:
        await users.set_groups(name, body.groups, tenant=tenant, by=by, reason=reason)
    if body.disabled is not None:
        change = users.disable if body.disabled else users.enable
        await change(name, tenant=tenant, by=by, reason=reason)
    if body.unlink:
        await users.unlink(name, tenant=tenant, by=by, reason=reason)
    if body.unlink_login is not None:
        await users.unlink(name, login=body.unlink_login, tenant=tenant, by=by, reason=reason)
    if (link := body.link) is not None:
        account = {"issuer": link.issuer, "subject": link.subject}
        await users.link(name, **account, login=link.login, tenant=tenant, by=by, reason=reason)
    return await users.get(name, tenant=tenant)


async def list_tokens(call: RouteCall[TokenQuery, None]) -> Page[TokenInfo]:
    query = call.query
    return await call.client.tokens.page(user=query.user, limit=query.limit, after=query.after, tenant=call.tenant)


async def own_tokens(call: RouteCall[Nothing, None]) -> list[TokenInfo]:
    return [token async for token in call.client.tokens.own()]


async def revoke_own_token(call: RouteCall[Nothing, ReasonBody]) -> TokenInfo:
    return await call.client.tokens.revoke_own(call.path["token"], reason=call.body.reason)


async def mint_token(call: RouteCall[Nothing, NewToken]) -> MintedToken:
    body = call.body
    return await call.client.tokens.mint(
        body.user,
        level=body.level,
        scope=body.scope,
        days=body.days,
        purpose=body.purpose,
        tenant=call.tenant,
        by=call.by,
        reason=body.reason,
    )


async def revoke_token(call: RouteCall[Nothing, ReasonBody]) -> TokenInfo:
    return await call.client.tokens.revoke(call.path["token"], tenant=call.tenant, by=call.by, reason=call.body.reason)


async def list_workspaces(call: RouteCall[Nothing, None]) -> list[WorkspaceInfo]:
    return [workspace async for workspace in call.client.workspaces.list(tenant=call.tenant)]


async def create_workspace(call: RouteCall[Nothing, NewWorkspace]) -> WorkspaceInfo:
    body = call.body
    return await call.client.workspaces.create(
        body.name, title=body.title, tenant=call.tenant, by=call.by, reason=body.reason
    )


async def limit_workspace(call: RouteCall[Nothing, CapsBody]) -> WorkspaceInfo:
    return await call.client.workspaces.limit(
        call.path["workspace"],
        tenant=call.tenant,
        by=call.by,
        **{name: getattr(call.body, name) for name in call.body.__struct_fields__},
    )


async def archive_workspace(call: RouteCall[Nothing, ReasonBody]) -> WorkspaceInfo:
    return await call.client.workspaces.archive(
        call.path["workspace"], tenant=call.tenant, by=call.by, reason=call.body.reason
    )


async def show_tenant(call: RouteCall[Nothing, None]) -> TenantInfo:
    return await call.client.tenants.get(call.tenant)


async def list_tenants(call: RouteCall[Nothing, None]) -> list[TenantInfo]:
    return [tenant async for tenant in call.client.tenants.list()]


async def create_tenant(call: RouteCall[Nothing, NewTenant]) -> TenantInfo:
    body = call.body
    return await call.client.tenants.create(
        body.name, title=body.title or "", limits=_quota(body), by=call.by, reason=body.reason
    )


async def change_tenant(call: RouteCall[Nothing, TenantBody]) -> TenantInfo:
    body = call.body
    return await call.client.tenants.change(
        call.path["tenant"], title=body.title, limits=_quota(body), by=call.by, reason=body.reason
    )


def _quota(body: CapsBody) -> TenantQuota:
    return TenantQuota(body.max_concurrency, body.max_runs_per_min, body.weight, body.max_writes_per_run)


ROUTES = (
    Route(
        method="GET",
        path="/v1/users",
        operation="users.see",
        words="List the tenant's users, by name.",
        handler=list_users,
        query=PageQuery,
        answer=Page[UserInfo],
    ),
    Route(
        method="POST",
        path="/v1/users",
        operation="users.change",
        words="Make a user.",
        handler=create_user,
        body=NewUser,
        answer=UserInfo,
        status=201,
    ),
    Route(
        method="GET",
        path="/v1/users/{user}",
        operation="users.see",
        words="Show a user, by any spelling of the name.",
        handler=show_user,
        answer=UserInfo,
    ),
    Route(
        method="PATCH",
        path="/v1/users/{user}",
        operation="users.change",
        words="Give a user another level or other groups, disable or enable them, or say how they log in. It counts at "
        "once.",
        handler=change_user,
        body=UserChange,
        answer=UserInfo,
    ),
    Route(
        method="GET",
        path="/v1/tokens",
        operation="tokens.see",
        words="List the tenant's tokens, also those that are over.",
        handler=list_tokens,
        query=TokenQuery,
        answer=Page[TokenInfo],
    ),
    Route(
        method="POST",
        path="/v1/tokens",
        operation="tokens.change",
        words="Make a token for a user. Its text is in this answer and nowhere else.",
        handler=mint_token,
        body=NewToken,
        answer=MintedToken,
        status=201,
    ),
    Route(
        method="POST",
        path="/v1/tokens/{token}/revoke",
        operation="tokens.change",
        words="Let a token be good for nothing from now on.",
        handler=revoke_token,
        body=ReasonBody,
        answer=TokenInfo,
    ),
    Route(
        method="GET",
        path="/v1/me/tokens",
        operation="tokens.see_own",
        words="List your own tokens, also those that are over.",
        handler=own_tokens,
        answer=list[TokenInfo],
    ),
    Route(
        method="POST",
        path="/v1/me/tokens/{token}/revoke",
        operation="tokens.revoke_own",
        words="Let a token of your own be good for nothing from now on.",
        handler=revoke_own_token,
        body=ReasonBody,
        answer=TokenInfo,
    ),
    Route(
        method="GET",
        path="/v1/workspaces",
        operation="workspaces.see",
        words="List the tenant's workspaces, by name.",
        handler=list_workspaces,
        answer=list[WorkspaceInfo],
    ),
    Route(
        method="POST",
        path="/v1/workspaces",
        operation="workspaces.change",
        words="Make a workspace.",
        handler=create_workspace,
        body=NewWorkspace,
        answer=WorkspaceInfo,
        status=201,
    ),
    Route(
        method="POST",
        path="/v1/workspaces/{workspace}/archive",
        operation="workspaces.change",
        words="Let no more runs start in a workspace; those that are there go on.",
        handler=archive_workspace,
        body=ReasonBody,
        answer=WorkspaceInfo,
    ),
    Route(
        method="PUT",
        path="/v1/workspaces/{workspace}/caps",
        operation="workspaces.change",
        words="Set the caps of a workspace, and its share where workspaces compete.",
        handler=limit_workspace,
        body=CapsBody,
        answer=WorkspaceInfo,
    ),
    Route(
        method="GET",
        path="/v1/tenants",
        operation="tenants.see",
        words="List the tenants, by name, with their caps. A user sees their own; the operator of the server all.",
        handler=list_tenants,
        answer=list[TenantInfo],
    ),
    Route(
        method="POST",
        path="/v1/tenants",
        operation="tenants.change",
        words="Make a tenant. Only the operator of the server may.",
        handler=create_tenant,
        body=NewTenant,
        answer=TenantInfo,
        status=201,
    ),
    Route(
        method="PUT",
        path="/v1/tenants/{tenant}",
        operation="tenants.change",
        words="Give a tenant its caps anew, and another title. Only the operator of the server may.",
        handler=change_tenant,
        body=TenantBody,
        answer=TenantInfo,
    ),
    Route(
        method="GET",
        path="/v1/tenant",
        operation="tenants.see",
        words="Your tenant, and its caps.",
        handler=show_tenant,
        answer=TenantInfo,
    ),
)
