"""A server for its operator alone: the link, the key, the cookie, and what is refused although the key is there."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from holdfast import Holdfast
from holdfast.errors import InvalidRequest
from holdfast.server import Operator, Server, ServerSettings
from tests.serving import listening, person, served
from tests.unit.server.test_runs import WAIT, WORKFLOWS

PATIENT = ServerSettings(failures_per_minute=10_000)
PAGE = {"Accept": "text/html"}
OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}
BODY = {"workflow": "served.waiting", "id": "r"}

HOSTS = (
    "evil.example",
    "127.0.0.1.nip.io",
    "localhost.evil",
    "127.1",
    "2130706433",
    "evil@127.0.0.1",
    "127.0.0.1#.evil",
    "127.0.0.1,evil.example",
    "127.0.0.1/evil",
    "[::1].evil",
    "127.0.0.1:65536",
    "127.0.0.1:99999",
    "127.0.0.1:",
    "",
)
HEADERS = (
    ("X-Forwarded-For", "8.8.8.8"),
    ("X-Forwarded-For", "127.0.0.1"),
    ("X-Forwarded-Proto", "https"),
    ("X-Forwarded-Host", "evil.example"),
    ("X-Forwarded-Port", "443"),
    ("X-Forwarded-Server", "front"),
    ("Forwarded", "for=8.8.8.8"),
    ("X-Real-IP", "8.8.8.8"),
    ("Via", "1.1 front"),
    ("X-Client-IP", "8.8.8.8"),
    ("True-Client-IP", "8.8.8.8"),
    ("CF-Connecting-IP", "8.8.8.8"),
)


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[Holdfast, Operator, str]]:
    async with Holdfast("memory://", workflows=WORKFLOWS) as app:
        operator = Operator(app, "root")
        server = Server(app, settings=PATIENT, authenticators=[operator])
        async with served(app, server=server) as address:
            yield app, operator, address


def browser(address: str = "") -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=address, headers=PAGE, timeout=60, trust_env=False, verify=False)


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json().get("code", "")


def test_without_the_key_everything_is_refused_and_says_how_to_get_the_link() -> None:
    """A program gets a problem, a person a page at the address that they asked for; neither shows the key."""

    async def main() -> None:
        async with opened() as (_, operator, address), person(address, None) as client, browser(address) as visitor:
            for method, path in (
                ("GET", "/v1/runs"),
                ("POST", "/v1/runs"),
                ("GET", "/v1/events/runs"),
                ("GET", "/v1/me"),
            ):
                answer = await client.request(method, path, json=BODY if method == "POST" else None)
                assert code(answer) == (401, "not_the_operator"), path
                assert "`holdfast link`" in answer.json()["detail"]
            for wrong in ("x", f"{operator.key}x", "hf_000000000000_" + "0" * 64, "-"):
                answer = await client.get("/v1/me", headers={"Authorization": f"Bearer {wrong}"})
                assert code(answer) == (401, "not_the_operator"), wrong
            answer = await client.get("/v1/me", headers={"Authorization": f"Basic {operator.key}"})
            assert code(answer) == (401, "not_the_operator")
            for path in ("/runs", "/tasks", "/?key=x", f"/runs?key={operator.key[:-1]}"):
                page = await visitor.get(path, follow_redirects=True)
                assert page.status_code == 401, path
                assert "<code>not_the_operator</code>" in page.text
                assert "holdfast link" in page.text
                assert operator.key not in page.text
            assert not visitor.cookies
            assert (await client.get("/metrics")).status_code == 200
            assert (await client.get("/healthz")).status_code == 200

    asyncio.run(main())


def test_the_link_of_any_page_gives_a_cookie_and_leads_to_the_page_without_the_key() -> None:
    """The cookie is named by the port, and no script reads it. Pages, forms, the API and streams take it."""

    async def main() -> None:
        async with opened() as (app, operator, address), browser(address) as visitor:
            port = urlsplit(address).port
            link = operator.link(f"{address}/")
            assert link == f"{address}/?key={operator.key}"
            for asked, reached in (
                (f"/runs?q=a%20b&key={operator.key}&status=waiting", "/runs?q=a%20b&status=waiting"),
                (f"/runs/a%2Fb?key={operator.key}", "/runs/a%2Fb"),
                (link, "/"),
                (f"//evil.example/?key={operator.key}", "/runs"),
                (f"/%5Cevil.example?key=x&key={operator.key}", "/%5Cevil.example"),
            ):
                answer = await visitor.get(asked if asked == link else f"{address}{asked}")
                assert (answer.status_code, answer.headers["location"]) == (303, reached), asked
                kept = answer.headers["set-cookie"]
                assert kept.startswith(f"holdfast-key-{port}=")
                assert operator.key not in kept
                assert {"HttpOnly", "Path=/", "SameSite=lax"} <= set(kept.split("; "))
                assert answer.headers["referrer-policy"] == "same-origin"
                assert answer.headers["cache-control"] == "no-store"
            page = await visitor.get("/", follow_redirects=True)
            assert page.status_code == 200
            assert operator.key not in page.text
            assert "Log out" not in page.text
            started = await visitor.post("/v1/runs", json=BODY, headers={**WAIT, **OWN_PAGE})
            assert started.status_code == 201
            form = await visitor.post("/runs/r/cancel", data={"reason": "x"}, headers=OWN_PAGE)
            assert form.status_code == 303
            async with visitor.stream("GET", "/v1/events/runs") as stream:
                assert await anext(stream.aiter_lines()) == "retry: 2000"
            named = [entry.record for entry in [each async for each in app.audit.list(run="r")]]
            assert named[0] is not None
            assert named[0]["who"] == "root"

    asyncio.run(main())


def test_a_change_that_the_cookie_proves_comes_from_our_own_page() -> None:
    """A page of another port of this host is of the same site, so its requests have the cookie. A key that is sent as a
    bearer needs no origin: no browser sends it by itself. No link changes anything."""

    async def main() -> None:
        async with (
            opened() as (_, operator, address),
            browser(address) as visitor,
            person(address, operator.key) as script,
        ):
            await visitor.get(operator.link("/"))
            for origin in (
                {},
                {"Sec-Fetch-Site": "same-site"},
                {"Sec-Fetch-Site": "cross-site"},
                {"Origin": "http://127.0.0.1:1"},
                {"Origin": "null"},
            ):
                refused = await visitor.post("/v1/runs", json=BODY, headers={**origin, "Accept": "application/json"})
                assert code(refused) == (403, "cross_site_request"), origin
                form = await visitor.post("/bulk/runs/cancel", data={"reason": "x"}, headers=origin)
                assert form.status_code == 403, origin
            assert (await visitor.post("/v1/runs", json=BODY, headers={"Origin": address})).status_code == 201
            assert (await script.post("/v1/runs", json={**BODY, "id": "s"})).status_code == 201
            async with person(address, None) as other:
                assert (await other.post(operator.link("/v1/runs"), json=BODY)).status_code == 401
                assert not other.cookies

    asyncio.run(main())


def test_what_does_not_come_directly_from_this_host_is_refused_although_it_has_the_key() -> None:
    """A proxy passes others' requests on, and another name may be another site's. This holds for the link, too, and for
    metrics, which need no key."""

    async def main() -> None:
        async with opened() as (_, operator, address), person(address, operator.key) as client:
            signs = [*({"Host": host} for host in HOSTS), *({name: value} for name, value in HEADERS)]
            for sign in signs:
                assert code(await client.get("/v1/me", headers=sign)) == (401, "not_the_operator"), sign
                assert (await client.get("/metrics", headers=sign)).status_code == 401, sign
                link = await client.get(operator.link("/runs"), headers={**sign, **PAGE})
                assert link.status_code == 401, sign
                assert "set-cookie" not in link.headers, sign
            for host in ("127.0.0.1", "127.0.0.1:9999", "localhost", "LOCALHOST:8420", "[::1]:8420", "127.8.9.10"):
                assert (await client.get("/v1/me", headers={"Host": host})).status_code == 200, host

    async def from_elsewhere() -> None:
        async with Holdfast("memory://", worker=False) as app:
            operator = Operator(app, "root")
            transport = httpx.ASGITransport(Server(app, authenticators=[operator]).asgi, client=("203.0.113.7", 4711))
            key = {"Authorization": f"Bearer {operator.key}"}
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=key) as far:
                assert code(await far.get("/v1/me")) == (401, "not_the_operator")
                assert "set-cookie" not in (await far.get(operator.link("/runs"))).headers

    asyncio.run(main())
    asyncio.run(from_elsewhere())


@pytest.mark.parametrize("key", ["", "short", "x" * 31, "x" * 40 + " ", "x" * 40 + "&", "ö" * 40])
def test_a_key_of_ones_own_that_could_be_guessed_or_not_be_sent_is_refused(key: str) -> None:
    """An empty one, from a variable that is not set, would let everybody in."""
    with pytest.raises(InvalidRequest, match="at least 32 characters"):
        Operator(Holdfast("memory://", worker=False), "root", key=key)


@pytest.mark.parametrize("path", ["/v1/me", "/metrics", "/runs"])
def test_http_1_0_is_refused_because_proxies_speak_it(path: str) -> None:
    """A default nginx sends these very bytes. Nothing else in them says that a proxy passes the request on."""

    def ask(address: str, key: str, version: str) -> bytes:
        port = urlsplit(address).port or 0
        lines = (
            f"GET {path} HTTP/{version}",
            f"Host: 127.0.0.1:{port}",
            "Connection: close",
            f"Authorization: Bearer {key}",
        )
        with socket.create_connection(("127.0.0.1", port), timeout=60) as caller:
            caller.sendall("\r\n".join((*lines, "", "")).encode())
            answer = b""
            with suppress(ConnectionResetError):
                while more := caller.recv(65536):
                    answer += more
        return answer.partition(b"\r\n")[0].split()[1]

    async def main() -> None:
        async with opened() as (_, operator, address):
            assert await asyncio.to_thread(ask, address, operator.key, "1.0") == b"401"
            assert await asyncio.to_thread(ask, address, operator.key, "1.1") == b"200"

    asyncio.run(main())


def test_one_browser_uses_two_servers_of_a_host_at_once() -> None:
    """Their cookies do not replace each other, and the key of one is not that of the other."""

    async def main() -> None:
        async with opened() as (_, one, first), opened() as (_, two, second), browser() as visitor:
            assert one.key != two.key
            for operator, address in ((one, first), (two, second)):
                await visitor.get(operator.link(f"{address}/"))
            for address in (first, second):
                assert (await visitor.get(f"{address}/v1/me")).status_code == 200
            async with person(first, two.key) as wrong:
                assert code(await wrong.get("/v1/me")) == (401, "not_the_operator")

    asyncio.run(main())


@pytest.mark.parametrize("prefix", ["", "/engine"])
def test_the_access_log_of_an_asgi_server_does_not_have_the_key(prefix: str, caplog: pytest.LogCaptureFixture) -> None:
    """Uvicorn's own log of requests is on, and the server is alone or mounted in another application. A wrong key, and
    one in a request that is not let in, is not there either."""

    async def main() -> str:
        async with Holdfast("memory://", workflows=WORKFLOWS) as app:
            operator = Operator(app, "root")
            server = Server(app, authenticators=[operator])
            outer = Starlette(routes=[Mount(prefix, server.asgi)]) if prefix else server.asgi
            async with listening(outer, access_log=True) as address, browser(address) as visitor:
                opened = await visitor.get(operator.link(f"{prefix}/tasks"))
                assert opened.headers["location"] == f"{prefix}/tasks"
                assert (await visitor.get(opened.headers["location"])).status_code == 200
                await visitor.post(operator.link(f"{prefix}/v1/runs"))
                await visitor.get(operator.link(f"{prefix}/tasks"), headers={"Via": "1.1 front"})
                await visitor.get(f"{prefix}/runs?status=waiting&key=wrong-key")
            return operator.key

    with caplog.at_level(logging.INFO):
        key = asyncio.run(main())
    written = [record.getMessage() for record in caplog.records if record.name.startswith("uvicorn")]
    assert any(f'"GET {prefix}/runs?status=waiting HTTP/1.1" 200' in line for line in written)
    assert not [line for line in written if key in line or "wrong-key" in line]
