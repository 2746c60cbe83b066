"""Outages of the network and of the server, with whole workers: nobody who lives is declared dead for it."""

from __future__ import annotations

import asyncio
import logging
import random
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from holdfast import Holdfast, WorkerOptions, step, step_info, workflow
from holdfast.store.outage import SETTLING_SECONDS
from holdfast.testing.postgres import PostgresServer
from tests.proxy import Proxy
from tests.scope import SEED

LEASE_SECONDS = 3.0
BEGUN: Counter[str] = Counter()
ENDED: Counter[str] = Counter()


@step(name="outages.outlast", retries=0)
async def outlast(seconds: float) -> None:
    """Longer than the outage: it goes on while its worker cannot reach the store."""
    BEGUN[step_info().key] += 1
    await asyncio.sleep(seconds)
    ENDED[step_info().key] += 1


@workflow(name="outages.outlasting")
async def outlasting(seconds: float) -> str:
    await outlast(seconds)
    return "recorded"


def _host_of(url: str) -> Path:
    return Path(parse_qs(urlsplit(url).query)["host"][0])


@asynccontextmanager
async def _workers(url: str, count: int) -> AsyncIterator[tuple[Holdfast, list[Proxy]]]:
    """A client beside the network, and workers, each with a network of its own."""
    server = _host_of(url)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Holdfast(url, worker=False))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        proxies = []
        for number in range(count):
            proxy = await stack.enter_async_context(Proxy(folder / f"{number}", server))
            options = WorkerOptions(lease_seconds=LEASE_SECONDS, capacity=3, grace_seconds=0.5, evidence=False)
            way = url.replace(f"host={server}", f"host={proxy.folder}")
            await stack.enter_async_context(Holdfast(way, options=options, workflows=[outlasting]))
            proxies.append(proxy)
        yield client, proxies


async def _all_begun(count: int) -> None:
    while len(BEGUN) < count:  # noqa: ASYNC110  # the steps are what is waited for
        await asyncio.sleep(0.02)


def _declared(caplog: pytest.LogCaptureFixture) -> list[str]:
    messages = [record.getMessage() for record in caplog.records]
    return [each for each in messages if " is gone" in each or "taken for dead" in each]


@pytest.mark.parametrize("silently", [False, True], ids=["refused", "silent"])
def test_a_network_that_is_away_costs_no_worker_its_runs(
    postgres: PostgresServer, caplog: pytest.LogCaptureFixture, silently: bool
) -> None:
    """All are cut off for longer than their lease, and come back one after the other. What ended meanwhile is recorded,
    and nothing is begun again."""
    caplog.set_level(logging.WARNING)
    BEGUN.clear()
    ENDED.clear()

    async def judge(chance: random.Random) -> None:
        async with _workers(postgres.schema_url(), 2) as (client, proxies):
            length = chance.uniform(1.2, 1.8) * LEASE_SECONDS
            handles = [await client.start(outlasting, length * share) for share in (0.3, 0.6, 0.9, 1.3)]
            await _all_begun(len(handles))
            for proxy in proxies:
                proxy.cut(silently=silently)
            await asyncio.sleep(length)
            chance.shuffle(proxies)
            proxies[0].mend()
            await asyncio.sleep(chance.uniform(0.5, SETTLING_SECONDS - 1.5))
            proxies[1].mend()
            for handle in handles:
                assert await handle.result(timeout=60) == "recorded"

    asyncio.run(asyncio.wait_for(judge(random.Random(SEED)), 120))
    assert _declared(caplog) == []
    assert set(BEGUN.values()) == {1}
    assert BEGUN == ENDED


def test_a_server_that_is_away_for_longer_than_a_lease_costs_no_worker_its_runs(
    own_postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The same, where the server itself is gone, and with it the locks of all."""
    caplog.set_level(logging.WARNING)
    BEGUN.clear()

    async def judge() -> None:
        async with _workers(own_postgres.schema_url(), 2) as (client, _):
            handles = [await client.start(outlasting, LEASE_SECONDS * share) for share in (0.5, 1.0, 2.0)]
            await _all_begun(len(handles))
            await asyncio.to_thread(own_postgres.stop, "immediate")
            await asyncio.sleep(1.5 * LEASE_SECONDS)
            await asyncio.to_thread(own_postgres.start)
            for handle in handles:
                assert await handle.result(timeout=60) == "recorded"

    asyncio.run(asyncio.wait_for(judge(), 120))
    assert _declared(caplog) == []
    assert set(BEGUN.values()) == {1}


def test_a_worker_that_died_in_an_outage_is_found_after_it(postgres: PostgresServer) -> None:
    """Patience has an end: its run goes on elsewhere."""
    BEGUN.clear()

    async def judge() -> None:
        async with _workers(postgres.schema_url(), 2) as (client, proxies):
            handles = [await client.start(outlasting, 1.0) for _ in range(6)]
            await _all_begun(len(handles))
            for proxy in proxies:
                proxy.cut(silently=False)
            await asyncio.sleep(0.5)
            proxies[1].mend()  # the other one is as good as dead
            for handle in handles:
                assert await handle.result(timeout=60) == "recorded"

    asyncio.run(asyncio.wait_for(judge(), 120))
