"""The settings of OpenID Connect: who the provider is, and what its claims mean here. They are read from a YAML file.

The mapping is a table, not expressions: each claim that counts is named, and each of its values that means something.
So nothing is granted by a rule that matches more than was thought of, and what is not in the table is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from holdfast.errors import InvalidSettings
from holdfast.gate.policy.place import LONGEST
from holdfast.gate.policy.shape import misfits
from holdfast.gate.policy.yaml import Document
from holdfast.people.names import is_name
from holdfast.server.protection.origins import is_loopback
from holdfast.transports.secrets import NAME

_Text = Annotated[str, Meta(min_length=1)]
_Level = Annotated[int, Meta(ge=1, le=6)]


class TenantClaim(Struct, frozen=True, forbid_unknown_fields=True):
    """The claim that says whose tenant somebody is, and the tenant that each of its values means."""

    claim: Annotated[_Text, Meta(description="the name of the claim")]
    values: Annotated[dict[str, _Text], Meta(description="from a value of the claim to a tenant")]


class LevelClaim(Struct, frozen=True, forbid_unknown_fields=True):
    """The claim that says what somebody may do. Of several values the highest level counts."""

    claim: Annotated[_Text, Meta(description="the name of the claim")]
    values: Annotated[dict[str, _Level], Meta(description="from a value of the claim to a level")]


class GroupsClaim(Struct, frozen=True, forbid_unknown_fields=True):
    """The claim that says which groups somebody is in. Values that are not here mean no group."""

    claim: Annotated[_Text, Meta(description="the name of the claim")]
    values: Annotated[dict[str, _Text], Meta(description="from a value of the claim to a group")]


class OpenIdSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A provider of identities, and what its claims mean here.

    ``client_secret`` is the name of a secret. Where ``level`` or ``groups`` are given, a user's follow the claims at
    each login; else those of the user stay as they are. ``make_users`` makes users at their first login.
    """

    issuer: Annotated[_Text, Meta(description="the provider's address, exactly as its tokens name it")]
    client_id: Annotated[_Text, Meta(description="the name under which the provider knows this server")]
    user: Annotated[_Text, Meta(description="the claim that has the user's name")]
    tenant: Annotated[_Text | TenantClaim, Meta(description="the tenant of all, or the claim that says so")]
    level: Annotated[LevelClaim | None, Meta(description="the claim that says what somebody may do")] = None
    groups: Annotated[GroupsClaim | None, Meta(description="the claim that says which groups somebody is in")] = None
    require: Annotated[
        dict[str, str | int | bool], Meta(description="claims that must have these values; else the login is refused")
    ] = {}
    make_users: Annotated[bool, Meta(description="whether a login makes a user who is not there yet")] = False
    client_secret: Annotated[str | None, Meta(description="the name of the secret; without one a public client")] = None
    scopes: Annotated[tuple[str, ...], Meta(description="what is asked for; openid is always")] = ("openid", "profile")
    userinfo: Annotated[bool, Meta(description="whether claims are asked for at the userinfo endpoint, too")] = False
    title: Annotated[str, Meta(description="what the provider is called on the page to log in")] = ""
    address: Annotated[str, Meta(description="where people reach this server; else as they ask for it")] = ""
    leeway_seconds: Annotated[int, Meta(ge=0, le=300, description="how far the clocks may differ")] = 60

    @property
    def shown_title(self) -> str:
        return self.title or urlsplit(self.issuer).netloc


_SCHEMA: Final = msgspec.json.schema(OpenIdSettings)


def read_settings(file: Path) -> OpenIdSettings:
    """The settings of a file. Raises InvalidSettings with everything that is wrong, each with its line and column."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise InvalidSettings(f"{file}: {error.strerror or error}") from None
    if len(data) > LONGEST:
        raise InvalidSettings(f"{file}: it is larger than {LONGEST} bytes")
    try:
        document = Document(data.decode())
    except UnicodeDecodeError:
        raise InvalidSettings(f"{file}: it is no text in UTF-8") from None
    for misfit in misfits(document.data, _SCHEMA) if not document.problems else ():
        document.report(misfit.path, misfit.what, key=misfit.key)
    if document.problems:
        raise InvalidSettings("\n".join(f"{file}:{line}:{column}: {what}" for line, column, what in document.problems))
    return check_settings(msgspec.convert(document.data, OpenIdSettings), str(file))


def check_settings(settings: OpenIdSettings, source: str = "the settings of OpenID Connect") -> OpenIdSettings:
    """Settings that can be used. Raises InvalidSettings."""
    if problems := list(_problems(settings)):
        raise InvalidSettings("\n".join(f"{source}: {problem}" for problem in problems))
    return settings


def _problems(settings: OpenIdSettings) -> Iterator[str]:
    if not is_safe_url(settings.issuer) or urlsplit(settings.issuer).query:
        yield "`issuer` must be an https address without a query; http is for this host alone"
    if settings.address and not is_safe_url(settings.address):
        yield "`address` must be an https address; http is for this host alone"
    if settings.client_secret is not None and not NAME.fullmatch(settings.client_secret):
        yield "`client_secret` must be the name of a secret, not the secret: give that as HOLDFAST_SECRET_<NAME>"
    if settings.make_users and settings.level is None:
        yield "`make_users` needs `level`: which level would a new user have?"
    if any(not scope or set(scope) & set(' "\\') for scope in settings.scopes):
        yield "each of `scopes` is one word"
    tenants = [settings.tenant] if isinstance(settings.tenant, str) else settings.tenant.values.values()
    for name in (*tenants, *(settings.groups.values.values() if settings.groups is not None else ())):
        if not is_name(name):
            yield f"{name!a:.60} is no name of a tenant or a group"


def is_safe_url(url: str) -> bool:
    """Whether what is sent there can be read by nobody else: https, or http on this very host."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port_is_right = parts.port is None or parts.port > 0
    except ValueError:
        return False
    is_plain = parts.scheme == "http" and is_loopback(host)
    usual = not parts.fragment and parts.username is None and url.isascii() and url.isprintable() and " " not in url
    return bool(host) and usual and port_is_right and (parts.scheme == "https" or is_plain)
