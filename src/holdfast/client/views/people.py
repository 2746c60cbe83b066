"""Tenants, workspaces, users and tokens as people see them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from holdfast.client.people.makers import TokenMakers
from holdfast.client.views.times import moment
from holdfast.people.tenants import TenantQuota, read_tenant, read_workspace
from holdfast.people.tokens import problem_of, read_token
from holdfast.people.users import read_user
from holdfast.store import protocol as p


class TenantInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant. A cap that is None is left to the policy's file."""

    name: str
    title: str
    max_concurrency: int | None
    max_runs_per_min: int | None
    weight: int | None
    max_writes_per_run: int | None
    changed_at: datetime

    @property
    def limits(self) -> TenantQuota:
        return TenantQuota(self.max_concurrency, self.max_runs_per_min, self.weight, self.max_writes_per_run)


class WorkspaceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A workspace of a tenant. A cap that is None is not set."""

    name: str
    tenant: str
    title: str
    archived: bool
    max_concurrency: int | None
    max_runs_per_min: int | None
    weight: int | None
    max_writes_per_run: int | None
    changed_at: datetime


class UserInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A user of a tenant."""

    name: str
    tenant: str
    level: int
    groups: tuple[str, ...]
    disabled: bool
    changed_at: datetime
    logins: tuple[str, ...]  # other spellings of the name with which the user logs in


class IdentityInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The account of a provider of identities that a user is linked to: who vouches for it, and its name there."""

    user: str
    tenant: str
    issuer: str
    subject: str
    linked_at: datetime
    made_by: str  # "person", "login", or empty for a link of an older version


class TokenInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A token, without its secret, which nobody can show again. ``minted_with`` is the token by which its maker acted:
    it bounds this one. ``problem`` is why it cannot be used now; None if it can."""

    id: str
    tenant: str
    user: str
    level: int
    scope: tuple[str, ...]  # the operations that it is for; all where it is empty
    purpose: str
    made_at: datetime
    made_by: str
    minted_with: str | None
    expires_at: datetime | None
    problem: str | None
    revoked: bool  # itself, or a token that it was minted with
    expired: bool
    last_used_at: datetime | None  # to the hour


class MintedToken(msgspec.Struct, frozen=True, kw_only=True):
    """A new token. ``text`` is shown only now: the store keeps its hash."""

    text: str
    token: TokenInfo

    def __repr__(self) -> str:
        return f"MintedToken(text='hf_{self.token.id}_…', token={self.token!r})"


def tenant_info(row: p.ItemRow) -> TenantInfo:
    tenant = read_tenant(row)
    return TenantInfo(
        name=row.id,
        title=tenant.title,
        max_concurrency=tenant.limits.max_concurrency,
        max_runs_per_min=tenant.limits.max_runs_per_min,
        weight=tenant.limits.weight,
        max_writes_per_run=tenant.limits.max_writes_per_run,
        changed_at=moment(row.changed_at),
    )


def workspace_info(row: p.ItemRow, cap: p.SetCap, writes: p.SetWriteCap) -> WorkspaceInfo:
    found = read_workspace(row)
    return WorkspaceInfo(
        name=found.name,
        tenant=row.tenant,
        title=found.title,
        archived=found.archived,
        max_concurrency=cap.max_concurrency,
        max_runs_per_min=cap.max_runs_per_min,
        weight=cap.weight,
        max_writes_per_run=writes.max_writes_per_run,
        changed_at=moment(row.changed_at),
    )


def user_info(row: p.ItemRow) -> UserInfo:
    user = read_user(row)
    return UserInfo(
        name=user.name,
        tenant=row.tenant,
        level=user.level,
        groups=user.groups,
        disabled=user.disabled,
        changed_at=moment(row.changed_at),
        logins=user.logins,
    )


def token_info(row: p.ItemRow, used_at: int | None, now: int, makers: TokenMakers) -> TokenInfo:
    token = read_token(row)
    return TokenInfo(
        id=row.id,
        tenant=row.tenant,
        user=token.user,
        level=min(token.level, makers.level),
        scope=token.scope,
        purpose=token.purpose,
        made_at=moment(token.made_at),
        made_by=token.made_by,
        minted_with=token.minted_with or None,
        expires_at=None if token.expires_at is None else moment(token.expires_at),
        problem=problem_of(token, now) or makers.problem,
        revoked=token.revoked or makers.is_revoked,
        expired=token.expires_at is not None and token.expires_at <= now,
        last_used_at=None if used_at is None else moment(used_at),
    )


def record(info: TenantInfo | WorkspaceInfo | UserInfo | TokenInfo) -> dict[str, Any]:
    """What ``--json`` writes."""
    found: dict[str, Any] = msgspec.to_builtins(info)
    return found
