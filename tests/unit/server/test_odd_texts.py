"""Texts that no id and no filter can be: on every store the answer is a refusal, never a failure of the server."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import httpx
import pytest

from holdfast import Holdfast
from holdfast.server import Server, ServerSettings
from holdfast.server.route import EVENTS
from holdfast.testing.postgres import PostgresServer
from tests.unit.client.operations import FREE, WORKFLOWS, furnish

QUICK = ServerSettings(requests_per_second=1e6, requests_at_once=10**6, failures_per_minute=1e6)
TEXTS = ("a%00b", "%ff~")
FILTERS = ("workflow", "reference", "actor", "workspace", "parent", "attribute=a%3D", "after")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    running: PostgresServer = request.getfixturevalue("postgres")
    return running.schema_url()


def test_no_text_in_an_address_or_a_body_makes_a_route_fail(url: str) -> None:
    """PostgreSQL holds no U+0000: whoever sends one is told so."""

    async def main() -> None:
        async with Holdfast(url, workflows=WORKFLOWS, policy=FREE) as app:
            await furnish(app, "acme")
            token = (await app.tokens.mint("level 6", tenant="acme")).text
            served = Server(app, settings=QUICK)
            pages = () if served.console is None else served.console.routes
            headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
            transport = httpx.ASGITransport(served.asgi)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client:
                asked = [
                    (route.method, re.sub(r"\{\w+\}", text, route.path))
                    for route in (*served.routes, *pages)
                    if "{" in route.path and EVENTS not in route.media
                    for text in TEXTS
                ]
                asked += [("GET", f"/v1/runs?{name}{'' if '=' in name else '='}%00") for name in FILTERS]
                asked += [("GET", f"/v1/{name}?run=%00") for name in ("tasks", "audit", "receipts")]
                asked.append(("POST", "/hooks/a%00/b"))
                for method, path in asked:
                    body = None if method == "GET" else {"reason": "a test"}
                    answer = await client.request(method, path, json=body)
                    assert answer.status_code < 500, (method, path, answer.text)
                for more in ({"id": "a\0"}, {"attributes": {"a": "\0"}}, {"actor": "\0"}, {"reference": "\0"}):
                    answer = await client.post("/v1/runs", json={"workflow": WORKFLOWS[0].name, **more})
                    assert answer.status_code < 500, (more, answer.text)

    asyncio.run(main())
