"""What claims mean here, and files of settings: tables of what goes in and what comes out."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.errors import InvalidSettings, LoginRefused
from holdfast.server import BearerTokens, GroupsClaim, LevelClaim, OpenIdSettings, Server, TenantClaim
from holdfast.server.openid.mapping import values_of, vouched_for
from holdfast.server.openid.settings import is_safe_url, read_settings

FILE = """
issuer: https://id.example/realms/acme
client_id: holdfast
client_secret: OIDC
title: Example ID
scopes: [openid, profile, groups]
address: https://flow.example
user: preferred_username
tenant: {claim: org, values: {"1": acme}}
level: {claim: realm_access.roles, values: {viewer: 1, ruler: 6}}
groups: {claim: groups, values: {/claims: claims}}
require: {email_verified: true}
make_users: true
"""


def settings(**more: Any) -> OpenIdSettings:
    given: dict[str, Any] = {"issuer": "https://id.example", "client_id": "x", "user": "name", "tenant": "acme", **more}
    return OpenIdSettings(**given)


@pytest.mark.parametrize(
    ("claims", "name", "values"),
    [
        ({"a": "x"}, "a", ["x"]),
        ({"a": ["x", 7, True, None, {}, 1.5]}, "a", ["x", "7", "true"]),
        ({"a": {"b": ["x"]}}, "a.b", ["x"]),
        ({"a.b": "flat", "a": {"b": "deep"}}, "a.b", ["flat"]),
        ({"https://x.example/roles": ["r"]}, "https://x.example/roles", ["r"]),
        ({"a": "x"}, "a.b", []),
        ({"a": None}, "a", []),
        ({}, "a", []),
        ({"a": {"b": "x"}}, "a", []),
    ],
)
def test_values_of_a_claim(claims: dict[str, Any], name: str, values: list[str]) -> None:
    assert values_of(claims, name) == values


def test_what_is_not_the_providers_to_say_is_left_alone() -> None:
    """Without a table for levels and groups, those of the user stay."""
    found = vouched_for(settings(), {"sub": "1", "name": "ann", "groups": ["admin"]})
    assert (found.tenant, found.user, found.level, found.groups) == ("acme", "ann", None, None)


def test_of_several_levels_the_highest_counts_and_groups_are_those_of_the_table() -> None:
    tables = {
        "level": LevelClaim("roles", {"viewer": 1, "clerk": 2}),
        "groups": GroupsClaim("roles", {"clerk": "desk", "viewer": "all"}),
        "tenant": TenantClaim("roles", {"clerk": "acme", "viewer": "acme"}),
    }
    found = vouched_for(settings(**tables), {"sub": "1", "name": "ann", "roles": ["clerk", "admin", "viewer"]})
    assert (found.tenant, found.level, found.groups) == ("acme", 2, ("all", "desk"))


def test_an_address_that_is_not_verified_is_no_name() -> None:
    """Providers let people write any address into their account."""
    mail = settings(user="email")
    assert vouched_for(mail, {"sub": "1", "email": "ann@acme.example", "email_verified": True}).user
    assert vouched_for(mail, {"sub": "1", "email": "ann@acme.example"}).user
    for said in (False, "false", None, 0):
        with pytest.raises(LoginRefused):
            vouched_for(mail, {"sub": "1", "email": "ann@acme.example", "email_verified": said})


ODD: list[Any] = [None, True, 1, "1", "true", "a", 1.5, [], [True], ["a", 1], {"a": "b"}, {"a": ["b"]}, [["a"]], "hf_x"]


def test_whatever_the_claims_are_nobody_has_more_than_the_table_gives() -> None:
    """They are refused, or mean a tenant and a level of the tables; nothing else happens."""
    tables = settings(
        tenant=TenantClaim("org", {"1": "acme", "true": "bolt"}),
        level=LevelClaim("roles", {"a": 2}),
        groups=GroupsClaim("roles.a", {"b": "desk"}),
        require={"ok": True},
    )
    let_in = 0
    for name, roles, org, ok in product(ODD, repeat=4):
        try:
            found = vouched_for(tables, {"sub": "1", "name": name, "roles": roles, "org": org, "ok": ok})
        except LoginRefused:
            continue
        let_in += 1
        assert values_of({"org": org}, "org") in (["1"], ["true"], ["a", "1"])
        assert (found.tenant, found.level, found.groups) == (
            "bolt" if org in ("true", [True]) or org is True else "acme",
            2,
            (),
        )
        assert "a" in values_of({"roles": roles}, "roles")
        assert ok in (True, "true", [True])
    assert let_in > 0


def test_a_file_of_settings_is_read(tmp_path: Path) -> None:
    file = tmp_path / "oidc.yaml"
    file.write_text(FILE)
    found = read_settings(file)
    assert found.level == LevelClaim("realm_access.roles", {"viewer": 1, "ruler": 6})
    assert (found.client_secret, found.leeway_seconds, found.shown_title) == ("OIDC", 60, "Example ID")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("https://id.example/realms/acme", "http://id.example", "`issuer` must be an https address"),
        ("https://id.example/realms/acme", "https://user:pass@id.example", "`issuer` must be an https address"),
        ("https://flow.example", "flow.example", "`address` must be an https address"),
        ("client_secret: OIDC", "client_secret: s3cr3t/in+here==", "must be the name of a secret"),
        ("viewer: 1", "viewer: 7", "10:53: `viewer` must be a whole number, 1 to 6, not 7"),
        ("make_users: true", "make_user: true", "did you mean `make_users`?"),
        ("user: preferred_username\n", "", "`user` is missing"),
        ("level: {claim: realm_access.roles, values: {viewer: 1, ruler: 6}}\n", "", "`make_users` needs `level`"),
        ("/claims: claims", "/claims: ' claims'", "is no name of a tenant or a group"),
        ("[openid, profile, groups]", "['open id']", "each of `scopes` is one word"),
        ("title: Example ID", "title: !x y", "is a tag"),
    ],
)
def test_a_file_that_cannot_be_used_says_where_and_why(tmp_path: Path, old: str, new: str, problem: str) -> None:
    """The secret itself is refused in a file, and is not quoted."""
    file = tmp_path / "oidc.yaml"
    assert old in FILE
    file.write_text(FILE.replace(old, new))
    with pytest.raises(InvalidSettings) as caught:
        read_settings(file)
    assert problem in str(caught.value)
    assert str(file) in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


def test_files_that_are_not_there_or_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for name in ("missing", "bytes", "."):
        with pytest.raises(InvalidSettings):
            read_settings(tmp_path / name)


def test_settings_given_in_python_are_checked_too() -> None:
    with pytest.raises(InvalidSettings, match="https"):
        Server(Holdfast("memory://", worker=False), openid=settings(issuer="http://id.example"))


def test_people_who_log_in_must_be_known_afterwards() -> None:
    """Without a console, or without its sessions, a login would lead nowhere."""
    app = Holdfast("memory://", worker=False)
    for more in ({"console": False}, {"authenticators": [BearerTokens(app)]}):
        with pytest.raises(InvalidSettings, match="SessionCookies"):
            Server(app, openid=settings(), **more)


@pytest.mark.parametrize(
    ("url", "is_safe"),
    [
        ("https://id.example", True),
        ("https://id.example:8443/x", True),
        ("http://127.0.0.1:8080", True),
        ("http://localhost", True),
        ("http://[::1]:80", True),
        ("http://id.example", False),
        ("http://127.0.0.1.evil.example", False),
        ("http://localhost@evil.example", False),
        ("https://", False),
        ("https://a b", False),
        ("https://id.example#x", False),
        ("https://id.example:99999", False),
        ("javascript:alert(1)", False),
        ("file:///etc/passwd", False),
        ("", False),
    ],
)
def test_addresses_that_nobody_else_can_read(url: str, is_safe: bool) -> None:
    assert is_safe_url(url) is is_safe
