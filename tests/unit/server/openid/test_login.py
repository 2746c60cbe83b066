"""Logging in with OpenID Connect, over HTTP, with a provider that is a real server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from holdfast import Holdfast
from holdfast.server import GroupsClaim, LevelClaim, Server, ServerSettings, TenantClaim
from holdfast.server.openid import login as openid_login
from tests.provider import SECRET, LocalProvider, providing, query_of
from tests.serving import listening, person, token_of

HTML = {"Accept": "text/html"}
HERE = {**HTML, "Sec-Fetch-Site": "same-origin"}
CHANGING = {
    "level": LevelClaim("roles", {"viewer": 1, "approver": 2, "ruler": 6}),
    "groups": GroupsClaim("teams", {"t-claims": "claims", "t-desk": "desk"}),
}


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SECRET_OIDC", SECRET)


@asynccontextmanager
async def office(
    *, settings: ServerSettings | None = None, root_path: str = "", **openid: Any
) -> AsyncIterator[tuple[Holdfast, str, LocalProvider]]:
    """A server with tenant acme, whose ruler is root, and a provider for it."""
    async with Holdfast("memory://", worker=False) as app, providing() as provider:
        await token_of(app, "acme", "root", 6)
        server = Server(app, settings=settings, openid=provider.settings(**openid))
        async with listening(server.asgi, root_path=root_path) as address:
            yield app, address, provider


async def begin(client: httpx.AsyncClient, to: str = "") -> str:
    """Begin a login, and let the provider answer. Gives the address to which it leads back."""
    away = await client.get("/login/oidc", params={"to": to}, headers=HTML)
    assert away.status_code == 303, away.text
    return str((await client.get(away.headers["location"])).headers["location"])


async def log_in(client: httpx.AsyncClient, to: str = "") -> httpx.Response:
    return await client.get(await begin(client, to), headers=HTML)


async def acts(app: Holdfast, tenant: str = "acme") -> list[Mapping[str, Any]]:
    """What the audit says that was done to users and logins."""
    entries = [entry.record async for entry in app.audit.list(tenant=tenant, kind="operator")]
    return [entry for entry in entries if entry is not None]


def words_of(page: httpx.Response) -> str:
    found = re.search(r'role="alert">(.*?)</div>', page.text, re.DOTALL)
    return found[1] if found else ""


def test_a_user_logs_in_with_the_provider_and_out_again() -> None:
    """The code flow with PKCE gives a session of our own, ended by the server; the provider's logout is offered."""

    async def main() -> None:
        async with office() as (app, address, provider), person(address, None) as client:
            await app.users.create("ann", level=2, groups=["claims"], tenant="acme", by="root")
            page = await client.get("/login?to=/tasks", headers=HTML)
            assert "Log in with Example ID" in page.text
            done = await log_in(client, "/tasks?show=all")
            assert (done.status_code, done.headers["location"]) == (303, "/tasks?show=all"), done.text
            kept = done.headers.get_list("set-cookie")
            assert any("holdfast-session=" in each and "HttpOnly" in each for each in kept)
            assert any(each.startswith('holdfast-login="";') and "Max-Age=0" in each for each in kept)
            me = (await client.get("/v1/me")).json()
            assert (me["user"], me["tenant"], me["level"], me["groups"]) == ("ann", "acme", 2, ["claims"])
            sent = provider.sent[0]
            assert sent["redirect_uri"] == f"{address}/login/oidc/callback"
            assert len({sent["state"], sent["nonce"], sent["code_challenge"]}) == 3
            secret = client.cookies["holdfast-session"]
            left = await client.post("/logout", headers=HERE)
            assert left.headers["location"] == "/login?left=yes"
            out = await client.get(left.headers["location"], headers=HTML)
            link = re.search(r'href="([^"]*/leave[^"]*)"', out.text)
            assert link is not None
            assert query_of(link[1].replace("&amp;", "&"))["post_logout_redirect_uri"] == f"{address}/login"
            stale = await client.get("/v1/me", headers={"Cookie": f"holdfast-session={secret}"})
            assert stale.status_code == 401
            found = await acts(app)
            assert [each["act"] for each in found[-3:]] == ["link_identity", "login", "logout"]
            assert found[-2]["details"]["issuer"] == provider.issuer

    asyncio.run(main())


def test_each_login_has_a_session_and_secrets_of_its_own() -> None:
    """A session from before the login is over with it, and the answer to a login is good once."""

    async def main() -> None:
        async with office() as (app, address, provider), person(address, None) as client:
            await app.users.create("ann", level=2, tenant="acme", by="root")
            token = (await app.tokens.mint("root", tenant="acme")).text
            await client.post("/login", data={"token": token}, headers=HERE)
            planted = client.cookies["holdfast-session"]
            back = await begin(client)
            assert (await client.get(back, headers=HTML)).status_code == 303
            assert client.cookies["holdfast-session"] != planted
            assert (await client.get("/v1/me", headers={"Cookie": f"holdfast-session={planted}"})).status_code == 401
            again = await client.get(back, headers=HTML)
            assert again.status_code == 403
            assert "begin it again" in words_of(again)
            await log_in(client)
            for name in ("state", "nonce", "code_challenge"):
                assert len({each[name] for each in provider.sent}) == 2, name

    asyncio.run(main())


def test_an_answer_that_this_browser_did_not_ask_for_is_refused() -> None:
    """Without its cookie, with another state, of another issuer, with a code of somebody else, or without any."""

    async def main() -> None:
        async with office() as (app, address, provider):
            await app.users.create("ann", level=2, tenant="acme", by="root")
            async with person(address, None) as client, person(address, None) as other:
                back = await begin(client)
                state = query_of(back)["state"]
                assert "begin it again" in words_of(await other.get(back, headers=HTML))
                wrong = {
                    "another state": back.replace(state, "x" * len(state)),
                    "two states": f"{back}&state={state}",
                    "another issuer": re.sub("iss=[^&]*", "iss=https%3A%2F%2Fevil.example", back),
                    "no issuer": re.sub("&iss=[^&]*", "", back),
                    "no code": re.sub("code=[^&]*&", "", back),
                }
                for name, address_ in wrong.items():
                    back = await begin(client)
                    fresh = query_of(back)
                    changed = address_.replace(state, fresh["state"]) if name != "another state" else address_
                    answer = await client.get(changed, headers=HTML)
                    assert answer.status_code == 403, name
                    assert words_of(answer), name
                assert provider.seen.count("token") == 0
                mine, theirs = await begin(client), await begin(other)
                mixed = mine.replace(query_of(mine)["code"], query_of(theirs)["code"])
                assert (await client.get(mixed, headers=HTML)).status_code == 502  # their code, our verifier
                assert "holdfast-session" not in client.cookies

    asyncio.run(main())


def test_a_login_leads_only_to_paths_of_this_server() -> None:
    """Whatever the link to log in said, and below the prefix that a proxy takes off."""

    async def main() -> None:
        async with office(root_path="/flow") as (app, address, _), person(address, None) as client:
            await app.users.create("ann", level=2, tenant="acme", by="root")
            tries = {
                "/tasks?a=b": "/flow/tasks?a=b",
                "https://evil.example/": "/flow/runs",
                "//evil.example": "/flow/runs",
                "/\\evil.example": "/flow/runs",
                "javascript:alert(1)": "/flow/runs",
                "/a\r\nSet-Cookie: x=y": "/flow/runs",
                "/" + "x" * 3000: "/flow/runs",
            }
            for to, leads in tries.items():
                back = await begin(client, to)
                assert back.startswith(f"{address}/flow/login/oidc/callback?"), back
                done = await client.get(back.replace("/flow", ""), headers=HTML)
                assert (done.status_code, done.headers["location"]) == (303, leads), to
            page = (await client.get("/login", headers=HTML)).text
            assert 'href="/flow/login/oidc"' in page

    asyncio.run(main())


def test_behind_a_proxy_with_tls_the_address_is_https_and_cookies_are_of_this_host_alone() -> None:
    """The scheme that a trusted proxy names counts; an address in the settings counts more."""

    async def main() -> None:
        async with office() as (app, address, provider), person(address, None) as client:
            headers = {**HTML, "X-Forwarded-Proto": "https", "Host": "flow.example"}
            away = await client.get("/login/oidc", headers=headers)
            assert query_of(away.headers["location"])["redirect_uri"] == "https://flow.example/login/oidc/callback"
            cookie = away.headers["set-cookie"]
            assert cookie.startswith("__Host-holdfast-login=")
            assert all(part in cookie for part in ("Secure", "HttpOnly", "Path=/", "SameSite=lax"))
            assert "domain" not in cookie.lower()
            named = Server(app, openid=provider.settings(address="https://here.example/flow"))
            async with listening(named.asgi) as other:
                away = await client.get(f"{other}/login/oidc", headers=HTML)
                sent = query_of(away.headers["location"])["redirect_uri"]
                assert sent == "https://here.example/flow/login/oidc/callback"

    asyncio.run(main())


def test_level_and_groups_follow_the_claims_at_each_login() -> None:
    """A new user is made as mapped; a demotion counts for what is open already; each change is in the audit."""

    async def main() -> None:
        async with office(make_users=True, **CHANGING) as (app, address, provider), person(address, None) as client:
            provider.account |= {"roles": ["other", "approver", "viewer"], "teams": ["t-claims", "unknown"]}
            assert (await log_in(client)).status_code == 303
            user = await app.users.get("ann", tenant="acme")
            assert (user.level, user.groups) == (2, ("claims",))
            async with person(address, None) as second:
                provider.account |= {"roles": "viewer", "teams": ["t-desk"]}
                assert (await log_in(second)).status_code == 303
            me = (await client.get("/v1/me")).json()
            assert (me["level"], me["groups"]) == (1, ["desk"])
            made = [each for each in await acts(app) if each["act"] in ("create_user", "change_user")][1:]
            assert [(each["act"], each["who"]) for each in made] == [
                ("create_user", "OpenID Connect"),
                ("change_user", "OpenID Connect"),
                ("change_user", "OpenID Connect"),
            ]
            assert made[0]["reason"] == f"claims of {provider.issuer}"
            provider.account |= {"roles": []}
            refused = await log_in(client)
            assert refused.status_code == 403
            assert "gives you no level here. Ask a user of level 6" in words_of(refused)

    asyncio.run(main())


def test_what_is_not_mapped_is_refused_and_audited_with_a_bound() -> None:
    """Unknown users, other tenants, disabled users and claims that are required: nobody gets in, and the audit says so;
    strangers cannot fill it."""

    async def main() -> None:
        tenants = TenantClaim("org", {"1": "acme", "2": "bolt"})
        quick = ServerSettings(failures_per_minute=1e6)
        more = {"tenant": tenants, "require": {"email_verified": True}}
        async with office(settings=quick, **more) as (app, address, provider), person(address, None) as client:
            await app.users.create("ann", level=2, tenant="acme", by="root")
            await app.users.create("dan", level=2, tenant="acme", by="root")
            await app.users.disable("dan", tenant="acme", by="root")
            good = {"org": 1, "email_verified": True}
            cases: list[tuple[dict[str, Any], str, str]] = [
                ({"org": 3}, "names no tenant", "default"),
                ({"org": ["1", "2"]}, "several tenants", "default"),
                ({"email_verified": False}, "email_verified", "acme"),
                ({"email_verified": "yes"}, "email_verified", "acme"),
                ({"preferred_username": "eve"}, "has no user &#39;eve&#39;", "acme"),
                ({"preferred_username": ["ann", "eve"]}, "preferred_username", "acme"),
                ({"preferred_username": "hf_ann"}, "cannot be a name", "acme"),
                ({"preferred_username": "dan"}, "disabled", "acme"),
                ({"org": 2}, "has no user", "bolt"),
            ]
            for claims, words, tenant in cases:
                provider.account = {"sub": "account-1", "preferred_username": "ann", **good, **claims}
                before = len(await acts(app, tenant))
                answer = await log_in(client)
                assert answer.status_code == 403, claims
                assert words in words_of(answer), (claims, words_of(answer))
                assert "holdfast-session" not in client.cookies
                noted = (await acts(app, tenant))[before:]
                assert [each["act"] for each in noted] == ["refuse"], claims
            assert (await log_in(client)).status_code == 403
            bound = int(openid_login.NOTES_PER_MINUTE)
            for _ in range(bound + 2):
                await log_in(client)
            noted = [each for each in await acts(app, "bolt") if each["act"] == "refuse"]
            assert len(noted) == bound
            assert noted[0]["details"] == {"issuer": provider.issuer, "subject": "account-1"}

    asyncio.run(main())


def test_a_name_that_the_provider_gives_to_another_account_is_not_that_user() -> None:
    """The first login links user and account; another account is refused until somebody of level 6 takes it off."""

    async def main() -> None:
        async with office(**CHANGING) as (app, address, provider), person(address, None) as client:
            await app.users.create("ann", level=2, tenant="acme", by="root")
            provider.account |= {"roles": ["approver"]}
            assert (await log_in(client)).status_code == 303
            provider.account |= {"sub": "account-2", "roles": ["ruler"]}
            async with person(address, None) as other:
                refused = await log_in(other)
                assert refused.status_code == 403
                assert "another account" in words_of(refused)
                assert (await app.users.get("ann", tenant="acme")).level == 2
                token = (await app.tokens.mint("root", tenant="acme")).text
                async with person(address, token) as root:
                    body = {"unlink": True, "reason": "has a new account"}
                    assert (await root.patch("/v1/users/ann", json=body)).status_code == 200
                provider.account |= {"roles": ["viewer"]}
                assert (await log_in(other)).status_code == 303
            assert [each["act"] for each in await acts(app) if "link" in each["act"]] == [
                "link_identity",
                "unlink_identity",
                "link_identity",
            ]
            assert (await app.users.get("ann", tenant="acme")).level == 1

    asyncio.run(main())


def test_the_last_of_level_6_is_not_demoted_by_a_login() -> None:
    """The login is refused: else nobody could keep the tenant's users."""

    async def main() -> None:
        async with office(**CHANGING) as (app, address, provider), person(address, None) as client:
            provider.account |= {"preferred_username": "root", "roles": ["viewer"]}
            await app.users.link("root", issuer=provider.issuer, subject="account-1", tenant="acme", by="operator")
            refused = await log_in(client)
            assert refused.status_code == 409
            assert "last enabled user of level 6" in words_of(refused)
            assert (await app.users.get("root", tenant="acme")).level == 6

    asyncio.run(main())


def test_a_read_only_server_lets_people_in_as_they_are() -> None:
    """It changes no user: whose claims would do so is refused, and nobody is made."""

    async def main() -> None:
        more = {"settings": ServerSettings(read_only=True), "make_users": True, **CHANGING}
        async with office(**more) as (app, address, provider), person(address, None) as client:
            provider.account |= {"roles": ["viewer"]}
            assert "changes nothing" in words_of(await log_in(client))
            await app.users.create("ann", level=2, tenant="acme", by="root")
            assert "changes nothing" in words_of(await log_in(client))
            provider.account |= {"roles": ["approver"]}
            assert (await log_in(client)).status_code == 303
            assert (await client.get("/v1/me")).json()["level"] == 2

    asyncio.run(main())


def test_what_the_provider_says_is_shown_safely() -> None:
    """Its code of an error is shown, its words are not: anybody can write an address. Without our state, neither is."""

    async def main() -> None:
        async with office() as (_, address, provider), person(address, None) as client:
            provider.refusal = {"error": "access_denied", "error_description": "call +1 555 0100"}
            refused = await log_in(client)
            assert refused.status_code == 403
            assert words_of(refused) == "Example ID did not let you in (access_denied)."
            assert "555" not in refused.text
            provider.refusal = {"error": "<script>alert(1)</script>"}
            odd = await log_in(client)
            assert words_of(odd) == "Example ID did not let you in."
            assert "<script>alert" not in odd.text
            made_up = await client.get("/login/oidc/callback?error=access_denied&state=x", headers=HTML)
            assert "begin it again" in words_of(made_up)

    asyncio.run(main())


def test_failed_logins_of_one_address_are_bounded() -> None:
    """After so many that failed, the provider is not asked any more."""

    async def main() -> None:
        few = ServerSettings(failures_per_minute=3)
        async with office(settings=few) as (_, address, provider), person(address, None) as client:
            codes = [(await log_in(client)).status_code for _ in range(5)]
            assert codes == [403, 403, 403, 429, 429]
            assert provider.seen.count("token") == 3

    asyncio.run(main())


def test_a_provider_that_is_down_is_said_on_the_page_and_not_asked_at_every_click() -> None:
    async def main() -> None:
        async with Holdfast("memory://", worker=False) as app:
            async with providing() as provider:
                settings = provider.settings()
            async with listening(Server(app, openid=settings).asgi) as address, person(address, None) as client:
                down = await client.get("/login/oidc?to=/tasks", headers=HTML)
                assert down.status_code == 502
                assert "does not answer" in words_of(down)
                assert 'name="to" value="/tasks"' in down.text  # a token still helps
                soon = await client.get("/login/oidc", headers=HTML)
                assert "a moment ago" in words_of(soon)

    asyncio.run(main())
