"""A worker without a server: its metrics and its health on a port of their own, and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import click
import httpx
import pytest

from holdfast import Holdfast
from holdfast.cli.server.metrics import Address, exporter
from holdfast.errors import InvalidRequest
from holdfast.server.exporter import Exporter
from holdfast.server.listener import Listener
from tests.serving import listening, person
from tests.unit.server.test_runs import WORKFLOWS


def test_a_worker_shows_its_metrics_and_its_health_and_nothing_else() -> None:
    """The same names as a server's; no route of the API is there."""

    async def main() -> None:
        app = Holdfast("memory://", workflows=WORKFLOWS)
        exported = Exporter(app, None)
        async with listening(exported.asgi) as address, person(address, None) as client:
            assert (await client.get("/healthz")).json() == {"alive": True}
            assert (await client.get("/readyz")).status_code == 503
            async with app:
                await (await app.start("served.total", 1)).result()
                assert (await client.get("/readyz")).json() == {"ready": True}
                answer = await client.get("/metrics")
                lines = set(answer.text.splitlines())
                assert 'holdfast_runs_total{outcome="completed",workflow="served.total"} 1.0' in lines
                assert 'holdfast_runs_present{status="completed"} 1.0' in lines
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert (await client.get("/v1/runs")).status_code == 404
                assert (await client.post("/metrics")).status_code == 405

    asyncio.run(main())


def test_metrics_with_a_token_are_for_whoever_sends_it() -> None:
    async def main() -> None:
        async with Holdfast("memory://", workflows=WORKFLOWS) as app, listening(Exporter(app, "key").asgi) as address:
            async with person(address, None) as client:
                assert (await client.get("/metrics")).status_code == 401
                assert (await client.get("/healthz")).status_code == 200
            async with person(address, "key") as client:
                assert (await client.get("/metrics")).status_code == 200

    asyncio.run(main())


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9464", ("127.0.0.1", 9464)),
        ("0.0.0.0:9464", ("0.0.0.0", 9464)),
        ("[::1]:9464", ("::1", 9464)),
        (":9464", ("127.0.0.1", 9464)),
        ("localhost", None),
        ("1:70000", None),
        ("", None),
    ],
)
def test_an_address_is_a_port_or_a_host_and_a_port(text: str, address: Any) -> None:
    if address is None:
        with pytest.raises(click.BadParameter, match="write PORT or HOST:PORT"):
            Address().convert(text, None, None)
    else:
        assert Address().convert(text, None, None) == address


def test_metrics_that_others_reach_need_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of workflows and their numbers are nobody else's business."""
    monkeypatch.delenv("HOLDFAST_METRICS_TOKEN", raising=False)
    app = Holdfast("memory://", workflows=WORKFLOWS)
    with pytest.raises(InvalidRequest, match="set HOLDFAST_METRICS_TOKEN"):
        exporter(app, ("0.0.0.0", 0))
    monkeypatch.setenv("HOLDFAST_METRICS_TOKEN", "key")

    async def main() -> None:
        async with app:
            listener = exporter(app, ("0.0.0.0", 0))
            assert isinstance(listener, Listener)
            await listener.start()
            try:
                async with httpx.AsyncClient(trust_env=False) as client:
                    answer = await client.get(f"http://127.0.0.1:{listener.port}/metrics")
                assert answer.status_code == 401
            finally:
                await listener.stop()

    asyncio.run(main())
