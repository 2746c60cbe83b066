"""Proxies in front: whose word counts, and for what."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send

from holdfast import Holdfast
from holdfast.errors import InvalidRequest
from holdfast.server import BearerTokens, Server, ServerSettings, SessionCookies, TrustedHeader
from holdfast.server.protection.proxies import ForwardedRequests, TrustedProxies, peer_of, sender_of
from tests.serving import person, served, token_of

BODY = {"workflow": "nothing"}
HEADER = "X-Forwarded-User"


def seen(peer: str, headers: list[tuple[str, str]], proxies: tuple[str, ...]) -> HTTPConnection:
    """A request as the server sees it."""
    found: list[HTTPConnection] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        found.append(HTTPConnection(scope))

    raw = [(name.encode(), value.encode()) for name, value in [("host", "here"), *headers]]
    scope: dict[str, Any] = {"type": "http", "scheme": "http", "path": "/", "headers": raw, "client": (peer, 1)}
    asyncio.run(ForwardedRequests(app, TrustedProxies(proxies))(scope, None, None))  # type: ignore[arg-type]
    assert scope["client"] == (peer, 1)
    return found[0]


@pytest.mark.parametrize(
    ("peer", "forwarded", "sender", "scheme"),
    [
        ("10.0.0.1", ["203.0.113.7"], "203.0.113.7", "https"),
        ("10.0.0.1", ["198.51.100.1, 203.0.113.7, 10.0.0.2"], "203.0.113.7", "https"),
        ("10.0.0.1", ["198.51.100.1", "203.0.113.7"], "203.0.113.7", "https"),
        ("10.0.0.1", ["203.0.113.7:4711"], "203.0.113.7", "https"),
        ("10.0.0.1", ["[2001:db8::1:2]:4711"], "2001:db8::/64", "https"),
        ("10.0.0.1", ["10.0.0.9"], "10.0.0.9", "https"),
        ("10.0.0.1", [], "10.0.0.1", "https"),
        ("10.0.0.1", ["x" * 1000], "x" * 60, "https"),
        ("::ffff:10.0.0.1", ["203.0.113.7"], "203.0.113.7", "https"),
        ("203.0.113.9", ["198.51.100.1"], "203.0.113.9", "http"),
        ("2001:db8::1", ["198.51.100.1"], "2001:db8::/64", "http"),
        ("", ["198.51.100.1"], "", "http"),
    ],
)
def test_what_is_forwarded_counts_only_from_a_proxy(peer: str, forwarded: list[str], sender: str, scheme: str) -> None:
    """The sender is the last address that is no proxy's; the peer stays what it is."""
    headers = [("x-forwarded-for", each) for each in forwarded]
    connection = seen(peer, [*headers, ("x-forwarded-proto", "https")], ("10.0.0.0/8",))
    assert (sender_of(connection), connection.url.scheme, peer_of(connection)) == (sender, scheme, peer)


@pytest.mark.parametrize(
    ("said", "scheme"), [("https", "https"), ("http, HTTPS", "https"), ("https,http", "http"), ("gopher", "http")]
)
def test_of_several_schemes_the_nearest_proxys_counts(said: str, scheme: str) -> None:
    assert seen("10.0.0.1", [("x-forwarded-proto", said)], ("10.0.0.1",)).url.scheme == scheme


@pytest.mark.parametrize("network", ["10.0.0.1/8", "proxy.example", "", "10.0.0.0/40"])
def test_a_proxy_is_an_address_or_a_network(network: str) -> None:
    with pytest.raises(InvalidRequest, match="address or a network"):
        ServerSettings(trusted_proxies=(network,)) and TrustedProxies([network])


def behind(app: Holdfast, *proxies: str) -> Server:
    header = TrustedHeader(app, HEADER, proxies, "acme")
    return Server(app, authenticators=[header, BearerTokens(app), SessionCookies(app)])


def test_a_proxy_names_the_user() -> None:
    """An enabled user of the tenant, as the name is stored. Any other is refused, and the page says whom to ask."""

    async def main() -> None:
        async with Holdfast("memory://", worker=False) as app:
            await token_of(app, "acme", "ann", 2)
            await token_of(app, "acme", "dan", 2)
            await token_of(app, "bolt", "eve", 6)
            await app.users.disable("dan", tenant="acme", by="root")
            async with served(app, server=behind(app, "127.0.0.1")) as address, person(address, None) as client:
                me = (await client.get("/v1/me", headers={HEADER: "ann"})).json()
                assert (me["user"], me["tenant"], me["level"]) == ("ann", "acme", 2)
                for name, status, words in (
                    ("eve", 403, "Ask one of its users of level 6"),
                    ("dan", 403, "disabled"),
                    ("", 401, "must name one user"),
                    ("ann,eve", 401, "must name one user"),
                    ("hf_000000000000_" + "0" * 64, 401, "must name one user"),
                ):
                    refused = await client.get("/v1/me", headers={HEADER: name})
                    assert refused.status_code == status, name
                    assert words in refused.json()["detail"], name
                twice = httpx.Headers([(HEADER, "ann"), (HEADER, "dan")])
                assert (await client.get("/v1/me", headers=twice)).status_code == 401
                page = await client.get("/runs", headers={HEADER: "eve", "Accept": "text/html"})
                assert page.status_code == 403
                assert "Ask one of its users of level 6" in page.text
                shown = await client.get("/runs", headers={HEADER: "ann", "Accept": "text/html"})
                assert shown.status_code == 200
                assert "Log out" not in shown.text

    asyncio.run(main())


LOOK_ALIKES = ("Ann", "\u00aann", "a\u207fn", "\uff41nn", "\u24d0nn", "an\u1db0")


def test_a_name_that_looks_like_a_users_is_somebody_elses() -> None:
    """The proxy vouches for the spelling: one that only looks the same is refused like a name that is not there, with
    that user's token, too. The user is found by the spelling that is stored, of any level."""

    async def main() -> None:
        async with Holdfast("memory://", worker=False) as app:
            token = await token_of(app, "acme", "ann", 6)
            await token_of(app, "acme", "ste\ufb03", 6)  # it is stored like this
            async with served(app, server=behind(app, "127.0.0.1")) as address, person(address, None) as client:
                for name in (*LOOK_ALIKES, "steffi", "\u017fteffi"):
                    for more in ({}, {"Authorization": f"Bearer {token}"}):
                        refused = await client.get("/v1/me", headers={HEADER: name.encode(), **more})
                        assert refused.status_code == 403, ascii(name)
                        words = refused.json()["detail"]
                        assert words.startswith(f"tenant 'acme' has no user {name!r}, in this very spelling"), words
                        unknown = await client.get("/v1/me", headers={HEADER: "nobody-of-this-name", **more})
                        assert unknown.json()["detail"] == words.replace(repr(name), "'nobody-of-this-name'")
                for name in ("ann", "ste\ufb03"):
                    me = (await client.get("/v1/me", headers={HEADER: name.encode()})).json()
                    assert (me["user"], me["level"]) == (name, 6)

    asyncio.run(main())


def test_another_spelling_that_a_person_linked_logs_in() -> None:
    """From the next request on, and until it is unlinked; with a token of the same user beside it, too. The first
    refusal is in the audit, and those of the minute after it are not."""

    async def main() -> None:
        async with Holdfast("memory://", worker=False) as app:
            ruler, token = await token_of(app, "acme", "root", 6), await token_of(app, "acme", "ann", 2)
            async with served(app, server=behind(app, "127.0.0.1")) as address, person(address, None) as client:
                for name in LOOK_ALIKES:
                    await client.get("/v1/me", headers={HEADER: name.encode()})
                entries = [each.record async for each in app.audit.list(tenant="acme", kind="operator")]
                noted = [each for each in entries if each is not None and each["act"] == "refuse"]
                assert [(each["who"], each["details"]["login"]) for each in noted] == [("Ann", "Ann")]
                async with person(address, ruler) as root:
                    linked = await root.patch("/v1/users/ann", json={"link": {"login": "Ann"}})
                    assert linked.json()["logins"] == ["Ann"]
                    for more in ({}, {"Authorization": f"Bearer {token}"}):
                        me = (await client.get("/v1/me", headers={HEADER: "Ann", **more})).json()
                        assert (me["user"], me["level"]) == ("ann", 2)
                    assert (await client.get("/v1/me", headers={HEADER: "ANN"})).status_code == 403
                    other = await root.patch("/v1/users/ann", json={"link": {"login": "anne"}})
                    assert (other.status_code, other.json()["code"]) == (400, "invalid_request")
                    assert (await root.patch("/v1/users/ann", json={"unlink_login": "Ann"})).json()["logins"] == []
                assert (await client.get("/v1/me", headers={HEADER: "Ann"})).status_code == 403
                assert (await client.get("/v1/me", headers={HEADER: "ann"})).status_code == 200

    asyncio.run(main())


def test_the_header_counts_only_from_the_proxy_itself() -> None:
    """The other end of the connection decides, not an address that the request names. It is refused, so that a proxy
    which nobody configured is noticed."""

    async def main() -> None:
        async with Holdfast("memory://", worker=False) as app:
            token = await token_of(app, "acme", "ann", 2)
            async with served(app, server=behind(app, "10.0.0.0/8")) as address, person(address, None) as client:
                for more in (
                    {},
                    {"X-Forwarded-For": "10.0.0.1"},
                    {"Forwarded": "for=10.0.0.1"},
                    {"X-Real-IP": "10.0.0.1"},
                ):
                    refused = await client.get("/v1/me", headers={HEADER: "ann", **more})
                    assert refused.status_code == 401, more
                    assert "trusted proxies alone" in refused.json()["detail"]
                tried = await client.get("/v1/me", headers={HEADER: "ann", "Authorization": f"Bearer {token}"})
                assert tried.status_code == 401
                good = await client.get("/v1/me", headers={"Authorization": f"Bearer {token}"})
                assert good.status_code == 200

    asyncio.run(main())


def test_with_a_token_the_header_must_name_the_same_user() -> None:
    """Then the token counts, with its own level and scope; another user's is refused."""

    async def main() -> None:
        async with Holdfast("memory://", worker=False) as app:
            await token_of(app, "acme", "ann", 4)
            other, foreign = await token_of(app, "acme", "bob", 4), await token_of(app, "bolt", "ann", 4)
            narrow = (await app.tokens.mint("ann", level=1, tenant="acme")).text
            async with served(app, server=behind(app, "127.0.0.1")) as address, person(address, None) as client:
                own = await client.get("/v1/me", headers={HEADER: "ann", "Authorization": f"Bearer {narrow}"})
                assert own.json()["level"] == 1
                for token in (other, foreign, "x", "hf_000000000000_" + "0" * 64):
                    sent = {HEADER: "ann", "Authorization": f"Bearer {token}"}
                    assert (await client.get("/v1/me", headers=sent)).status_code == 401, token

    asyncio.run(main())


def test_a_change_that_the_header_proves_must_come_from_our_own_page() -> None:
    """The proxy adds it to whatever a browser sends, also to what another site's page sends."""

    async def main() -> None:
        async with Holdfast("memory://", worker=False) as app:
            await token_of(app, "acme", "ann", 4)
            async with served(app, server=behind(app, "127.0.0.1")) as address, person(address, None) as client:
                for origin in ({}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}):
                    refused = await client.post("/v1/runs", json=BODY, headers={HEADER: "ann", **origin})
                    assert (refused.status_code, refused.json()["code"]) == (403, "cross_site_request"), origin
                for origin in ({"Sec-Fetch-Site": "same-origin"}, {"Origin": address}):
                    taken = await client.post("/v1/runs", json=BODY, headers={HEADER: "ann", **origin})
                    assert taken.json()["code"] == "workflow_unknown", origin

    asyncio.run(main())


def test_one_bad_client_does_not_lock_out_the_others_of_its_address() -> None:
    """Failures are bounded; whoever proves who they are is answered all the same."""

    async def main() -> None:
        async with Holdfast("memory://", worker=False) as app:
            token = await token_of(app, "acme", "ann", 2)
            settings = ServerSettings(failures_per_minute=2)
            async with served(app, settings=settings) as address, person(address, token) as client:
                async with person(address, None) as bad:
                    assert [(await bad.get("/v1/me")).status_code for _ in range(4)] == [401, 401, 429, 429]
                assert (await client.get("/v1/me")).status_code == 200

    asyncio.run(main())


def test_a_trusted_header_without_proxies_is_refused() -> None:
    app = Holdfast("memory://", worker=False)
    with pytest.raises(InvalidRequest, match="needs the addresses"):
        TrustedHeader(app, HEADER, [])
    with pytest.raises(InvalidRequest, match="X-Forwarded-User"):
        TrustedHeader(app, "X User", ["127.0.0.1"])
