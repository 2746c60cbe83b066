"""Metrics: what is counted here and what the store has, for whoever may know, without naming any run."""

from __future__ import annotations

import asyncio

from holdfast import Holdfast
from holdfast.server import Operator, Server, ServerSettings
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.testing.stores.samples import NOW, start
from tests.serving import person, served, token_of
from tests.unit.server.test_runs import BROKEN, WAIT, WORKFLOWS


def test_metrics_count_runs_steps_commits_and_requests() -> None:
    """Labels are names of workflows, steps and routes; ids of runs, people and tenants are in none."""

    async def main() -> None:
        BROKEN[0] = True
        app = Holdfast("memory://", workflows=WORKFLOWS)
        server = Server(app, settings=ServerSettings(metrics_token="scraper"))
        async with app:
            token = await token_of(app, "acme", "ann", 4)
            async with served(app, server=server) as address, person(address, token) as client:
                for id, name in (("secret-1", "served.total"), ("secret-2", "served.failing"), ("w", "served.waiting")):
                    args = [1] if name == "served.total" else []
                    await client.post("/v1/runs", json={"workflow": name, "id": id, "args": args}, headers=WAIT)
                await client.get("/v1/runs/secret-1")
                refused = await client.get("/metrics")
                assert (refused.status_code, refused.json()["code"]) == (401, "not_authenticated")
                async with person(address, "scraper") as scraper:
                    text = (await scraper.get("/metrics")).text
        lines = set(text.splitlines())
        assert 'holdfast_runs_total{outcome="completed",workflow="served.total"} 1.0' in lines
        assert 'holdfast_runs_total{outcome="failed",workflow="served.failing"} 1.0' in lines
        assert 'holdfast_run_seconds_count{workflow="served.total"} 1.0' in lines
        assert 'holdfast_step_seconds_count{outcome="failed",step="served.break"} 1.0' in lines
        assert 'holdfast_runs_present{status="waiting"} 1.0' in lines
        assert 'holdfast_request_seconds_count{method="GET",route="/v1/runs/{run}",status="200"} 1.0' in lines
        assert {"holdfast_runs_parked 0.0", "holdfast_streams_open 0.0"} <= lines
        assert {f'holdfast_payload_bytes{{kind="{kind}"}} 0.0' for kind in ("arguments", "results")} <= lines
        assert any(line.startswith("holdfast_commit_batch_count ") for line in lines)
        for name in ("holdfast_audit_unsealed_seconds ", "holdfast_oldest_due_seconds "):
            assert any(line.startswith(name) for line in lines)
        assert not any(word in text for word in ("secret-", "acme", "ann"))
        assert "_created" not in text

    asyncio.run(main())


def test_metrics_count_deliveries_and_their_tries() -> None:
    """A private address is refused: the try is counted, and the delivery waits; then its subscription ends, and it has
    failed. Neither the address nor the subscription is named."""

    async def main() -> None:
        app = Holdfast("memory://", workflows=WORKFLOWS)
        server = Server(app, authenticators=[Operator(app, "root")])
        async with app, served(app, server=server) as address, person(address, None) as client:
            await app.subscriptions.create("secret-ops", "http://10.9.8.7/hook", ["run.*"], by="ann")
            await app.subscriptions.ping("secret-ops", by="ann")
            while not [each for each in await app.subscriptions.deliveries("secret-ops") if each.attempts]:
                await app.changed(0.1)
            lines = (await client.get("/metrics")).text.splitlines()
            assert 'holdfast_delivery_attempts_total{outcome="pending"} 1.0' in lines
            assert 'holdfast_deliveries_present{status="pending"} 1.0' in lines
            assert 'holdfast_deliveries_present{status="failed"} 0.0' in lines
            assert not any("10.9.8.7" in line or "secret-ops" in line for line in lines)

    asyncio.run(main())


class StillClock:
    """A clock that stands still."""

    def __init__(self, now: int) -> None:
        self._now = now

    def now(self) -> int:
        return self._now


def test_a_timer_that_nobody_minds_shows_as_the_oldest_due_run() -> None:
    """That is how it is seen that no worker is left: newer runs do not hide it."""

    async def main() -> None:
        store = MemoryStore()
        await store.open()
        late = p.Projection("waiting", wake_at=NOW)
        await store.commit([start("late", projection=late), *(start(f"new-{each}", at=NOW + 5) for each in range(3))])
        app = Holdfast(store, workflows=WORKFLOWS, worker=False, clock=StillClock(NOW + 60_000_000))
        server = Server(app, authenticators=[Operator(app, "root")])
        async with app, served(app, server=server) as address, person(address, None) as client:
            lines = (await client.get("/metrics")).text.splitlines()
        assert "holdfast_oldest_due_seconds 60.0" in lines

    asyncio.run(main())


def test_metrics_are_open_where_the_server_is_and_closed_without_a_token() -> None:
    async def main() -> None:
        async with Holdfast("memory://", workflows=WORKFLOWS) as app:
            async with served(app) as address, person(address, "anything") as client:
                assert (await client.get("/metrics")).status_code == 401
            server = Server(app, authenticators=[Operator(app, "root")])
            async with served(app, server=server) as address, person(address, None) as client:
                assert (await client.get("/metrics")).status_code == 200

    asyncio.run(main())
