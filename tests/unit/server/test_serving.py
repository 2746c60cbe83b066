"""The server as a whole: mounted under a prefix, protected, read-only, open to this host, ready or not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from starlette.requests import HTTPConnection

from holdfast import Holdfast
from holdfast.errors import AddressTaken, InvalidRequest
from holdfast.server import Acting, BearerTokens, Operator, Server, ServerSettings
from holdfast.server.listener import Listener
from holdfast.server.protection.headers import HEADERS
from tests.serving import listening, person, served, token_of
from tests.unit.server.test_runs import WAIT, WORKFLOWS


def engine(url: str = "memory://") -> Holdfast:
    return Holdfast(url, workflows=WORKFLOWS)


def test_it_is_mounted_in_another_application_under_a_prefix() -> None:
    """Paths, locations and the document honour the prefix; the other application keeps its own paths."""

    async def main() -> None:
        async with engine() as app:
            token = await token_of(app, "acme", "ann", 4)
            outer = FastAPI()
            server = Server(app)
            outer.mount("/engine", server.asgi)

            @outer.get("/own")
            async def own() -> str:
                return "mine"

            async with listening(outer) as address, person(f"{address}/engine", token) as client:
                body = {"workflow": "served.total", "args": [1], "id": "a/b"}
                started = await client.post("/v1/runs", json=body, headers=WAIT)
                assert started.headers["location"] == "/engine/v1/runs/a%2Fb"
                found = await client.get(f"{address}{started.headers['location']}")
                assert found.json()["result"] == 2
                document = (await client.get("/openapi.json")).json()
                assert document["servers"] == [{"url": "/engine"}]
                assert (await client.get("/v1/nothing")).json()["instance"] == "/v1/nothing"
                assert (await client.get(f"{address}/own")).json() == "mine"

    asyncio.run(main())


def test_it_stands_behind_a_proxy_that_takes_the_prefix_off() -> None:
    async def main() -> None:
        async with engine() as app:
            token = await token_of(app, "acme", "ann", 4)
            async with listening(Server(app).asgi, root_path="/engine") as address, person(address, token) as client:
                started = await client.post("/v1/runs", json={"workflow": "served.total", "args": [1], "id": "x"})
                assert started.headers["location"] == "/engine/v1/runs/x"
                assert (await client.get("/openapi.json")).json()["servers"] == [{"url": "/engine"}]

    asyncio.run(main())


def test_its_own_lifespan_opens_and_closes_the_engine(tmp_path: Path) -> None:
    """Alone under any ASGI server, it needs nobody to open the engine; before that it is not ready."""

    async def main() -> None:
        app = engine(f"sqlite:///{tmp_path}/store.db")
        server = Server(app)
        async with listening(server.asgi) as address, person(address, "hf_x") as client:
            unready = await client.get("/readyz")
            assert (unready.status_code, unready.json()["problem"]) == (503, "the engine is not open")
            assert (await client.get("/healthz")).status_code == 200
            refused = await client.get("/v1/runs")
            assert refused.status_code in (401, 503)
        sent: list[str] = []
        inbox: asyncio.Queue[dict[str, str]] = asyncio.Queue()

        async def send(message: object) -> None:
            assert isinstance(message, dict)
            sent.append(message["type"])

        living = asyncio.create_task(server.asgi({"type": "lifespan"}, inbox.get, send))  # type: ignore[arg-type]
        await inbox.put({"type": "lifespan.startup"})
        while not sent:  # noqa: ASYNC110  # it tells nobody
            await asyncio.sleep(0)
        assert app.is_open
        await inbox.put({"type": "lifespan.shutdown"})
        await living
        assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
        assert not app.is_open

    asyncio.run(main())


def test_every_answer_has_the_headers_that_protect_a_browser() -> None:
    """Good ones, refusals and files alike; and nothing invites other sites."""

    async def main() -> None:
        async with engine() as app:
            token = await token_of(app, "acme", "ann", 4)
            async with served(app) as address, person(address, token) as client:
                await client.post("/v1/runs", json={"workflow": "served.total", "args": [1], "id": "x"}, headers=WAIT)
                for path in ("/v1/runs", "/v1/nothing", "/healthz", "/openapi.json", "/v1/runs/x/diagram"):
                    response = await client.get(path, headers={"Origin": "https://elsewhere.example"})
                    for name, value in HEADERS.items():
                        if name != "Content-Security-Policy":
                            assert response.headers[name] == value
                    policy = response.headers["content-security-policy"]
                    assert policy.startswith("default-src 'none'")
                    assert "frame-ancestors 'none'" in policy
                    assert "script-src" not in policy
                    assert not [name for name in response.headers if name.startswith("access-control")]
                options = await client.options("/v1/runs")
                assert (options.status_code, options.headers["allow"]) == (405, "GET, POST")

    asyncio.run(main())


def test_a_server_that_only_shows_refuses_every_change() -> None:
    async def main() -> None:
        async with engine() as app:
            token = await token_of(app, "acme", "ann", 6)
            settings = ServerSettings(read_only=True)
            async with served(app, settings=settings) as address, person(address, token) as client:
                refused = await client.post("/v1/runs", json={"workflow": "served.total", "args": [1]})
                assert (refused.status_code, refused.json()["code"]) == (403, "server_read_only")
                assert (await client.get("/v1/runs")).json()["items"] == []
                text = "holdfast: definition/1\nname: x\nversion: 1\nsteps: []"
                checked = await client.post("/v1/checks/definition", json={"text": text})
                assert checked.status_code == 200
                assert (await client.get("/v1/metadata")).json()["read_only"] is True

    asyncio.run(main())


def test_limits_of_size_and_rate() -> None:
    """A large body is refused before it is read; so are requests over the rate, and guesses at tokens."""

    async def main() -> None:
        async with engine() as app:
            token = await token_of(app, "acme", "ann", 4)
            settings = ServerSettings(requests_per_second=0.001, requests_at_once=4, failures_per_minute=3)
            async with served(app, settings=settings) as address:
                async with person(address, token) as client:
                    large = await client.post("/v1/runs", json={"workflow": "x" * 2**20})
                    assert (large.status_code, large.json()["code"]) == (413, "body_too_large")

                    async def chunks() -> object:
                        for _ in range(40):
                            yield b" " * 2**16

                    kind = {"Content-Type": "application/json"}
                    streamed = await client.post("/v1/runs", content=chunks(), headers=kind)
                    assert streamed.status_code == 413
                    assert [(await client.get("/v1/me")).status_code for _ in range(3)] == [200, 200, 429]
                    slow = await client.get("/v1/me")
                    assert (slow.json()["code"], int(slow.headers["retry-after"]) > 1) == ("too_many_requests", True)
                async with person(address, "hf_000000000000_" + "0" * 64) as guess:
                    codes = [(await guess.get("/v1/me")).status_code for _ in range(5)]
                    assert codes == [401, 401, 401, 429, 429]

    asyncio.run(main())


def test_with_a_cookie_a_change_must_come_from_our_own_page() -> None:
    """Another way to say who sends a request is one more authenticator; what a browser proves has an origin."""

    class Cookies:
        is_open_to_all = False

        def __init__(self, app: Holdfast) -> None:
            self._app = app

        async def authenticate(self, connection: HTTPConnection) -> Acting | None:
            user = connection.cookies.get("user")
            if user is None:
                return None
            return Acting(self._app.acting_as(user, tenant="acme"), f"session:{user}", proof="cookie")

    async def main() -> None:
        async with engine() as app:
            token = await token_of(app, "acme", "ann", 4)
            server = Server(app, authenticators=[Cookies(app), BearerTokens(app)])
            body = {"workflow": "served.total", "args": [1]}
            async with served(app, server=server) as address:
                async with httpx.AsyncClient(base_url=address, cookies={"user": "ann"}, trust_env=False) as browser:
                    assert (await browser.get("/v1/me")).json()["user"] == "ann"
                    other = await browser.post("/v1/runs", json=body, headers={"Sec-Fetch-Site": "cross-site"})
                    assert (other.status_code, other.json()["code"]) == (403, "cross_site_request")
                    own = await browser.post("/v1/runs", json=body, headers={"Sec-Fetch-Site": "same-origin"})
                    assert own.status_code == 201
                async with person(address, token) as client:
                    assert (await client.post("/v1/runs", json=body)).status_code == 201

    asyncio.run(main())


def test_without_users_it_is_for_the_operator_on_this_host_alone() -> None:
    """Whoever has the key may do everything; another name for this host is refused all the same; so is an address that
    others can reach."""

    async def main() -> None:
        async with engine() as app:
            operator = Operator(app, "root")
            server = Server(app, authenticators=[operator])
            with pytest.raises(InvalidRequest, match=r"127\.0\.0\.1 only"):
                Listener(server, "0.0.0.0", 0)
            async with served(app, server=server) as address, person(address, operator.key) as client:
                body = {"workflow": "served.waiting", "id": "r"}
                assert (await client.post("/v1/runs", json=body, headers=WAIT)).json()["tenant"] == "default"
                assert (await client.get("/v1/me")).json()["user"] == "root"
                assert [run["id"] for run in (await client.get("/v1/runs")).json()["items"]] == ["r"]
                rebound = await client.get("/v1/me", headers={"Host": "evil.example"})
                assert (rebound.status_code, rebound.json()["code"]) == (401, "not_the_operator")
                named = [entry.record for entry in [each async for each in app.audit.list(run="r")]]
                assert named[0] is not None
                assert named[0]["who"] == "root"

    asyncio.run(main())


def test_a_second_listener_on_a_port_says_so() -> None:
    async def main() -> None:
        async with engine() as app:
            server = Server(app)
            listener = Listener(server, port=0)
            with pytest.raises(AddressTaken, match="another process listens there"):
                Listener(server, port=listener.port)
            await listener.start()
            async with httpx.AsyncClient(trust_env=False) as client:
                assert (await client.get(f"{listener.address}healthz")).json() == {"alive": True}
            await listener.stop()
            await listener.stop()

    asyncio.run(main())
