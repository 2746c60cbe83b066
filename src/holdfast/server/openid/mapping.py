"""What the claims of somebody mean here: a user of a tenant, a level, groups. What means nothing is refused.

It is pure: claims go in, whom the provider vouches for comes out. A refusal says which claim was missing, so that the
person can ask their administrator for it; it does not say which values would have been enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.client.people.identities import Vouched
from holdfast.errors import InvalidRequest, LoginRefused
from holdfast.people.users import check_groups, check_user_name
from holdfast.server.openid.settings import OpenIdSettings

Claims = Mapping[str, Any]


def vouched_for(settings: OpenIdSettings, claims: Claims) -> Vouched:
    """Whom the claims are about. Raises LoginRefused where they mean nobody here."""
    tenant = _tenant(settings, claims)
    try:
        _check_required(settings, claims)
        user = _user(settings, claims)
        level, groups = _level(settings, claims), _groups(settings, claims)
    except LoginRefused as refusal:
        raise LoginRefused(str(refusal), tenant=tenant) from None
    return Vouched(tenant, user, settings.issuer, claims["sub"], level, groups)


def values_of(claims: Claims, name: str) -> list[str]:
    """The values of a claim, as texts. ``realm_access.roles`` is the part of a claim, unless a claim has that name."""
    found: Any = claims.get(name)
    if name not in claims:
        found = claims
        for part in name.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    return [_text(each) for each in (found if isinstance(found, list) else [found]) if isinstance(each, str | int)]


def _text(value: str | int) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _tenant(settings: OpenIdSettings, claims: Claims) -> str:
    if isinstance(settings.tenant, str):
        return settings.tenant
    table = settings.tenant.values
    found = {table[value] for value in values_of(claims, settings.tenant.claim) if value in table}
    if len(found) > 1:
        raise LoginRefused(f"`{settings.tenant.claim}` of your account names several tenants, and one is needed.")
    if not found:
        raise LoginRefused(f"`{settings.tenant.claim}` of your account names no tenant of this server.")
    return found.pop()


def _check_required(settings: OpenIdSettings, claims: Claims) -> None:
    for name, value in settings.require.items():
        if values_of(claims, name) != [_text(value)]:
            raise LoginRefused(f"`{name}` of your account is not what this server requires.")
    if settings.user == "email" and claims.get("email_verified", True) is not True:
        raise LoginRefused("the address of your account is not verified, and it is your name here.")


def _user(settings: OpenIdSettings, claims: Claims) -> str:
    found = values_of(claims, settings.user)
    if len(found) != 1:
        raise LoginRefused(f"your account has no `{settings.user}`, which would be your name here.")
    try:
        return check_user_name(found[0])
    except InvalidRequest as error:
        raise LoginRefused(f"`{settings.user}` of your account cannot be a name here: {error}") from None


def _level(settings: OpenIdSettings, claims: Claims) -> int | None:
    if settings.level is None:
        return None
    table = settings.level.values
    found = [table[value] for value in values_of(claims, settings.level.claim) if value in table]
    if not found:
        raise LoginRefused(f"`{settings.level.claim}` of your account gives you no level here.")
    return max(found)


def _groups(settings: OpenIdSettings, claims: Claims) -> tuple[str, ...] | None:
    if settings.groups is None:
        return None
    table = settings.groups.values
    return check_groups(sorted({table[value] for value in values_of(claims, settings.groups.claim) if value in table}))
