"""When sessions are confirmed and compared with the acknowledged changes, and when that costs nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.store import protocol as p
from holdfast.store.postgres import pool as pooling
from holdfast.store.postgres.cluster import connect
from holdfast.store.postgres.connection import COMMAND_SECONDS
from holdfast.store.postgres.store import PostgresStore
from holdfast.testing.postgres import PostgresServer, server
from holdfast.testing.stores.samples import COMPLETED, NOW, key, leased, row, start, turn


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with server(own=True, fast=True) as running:
        yield running


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.schema_url()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def sessions(store: PostgresStore) -> list[Any]:
    assert store._pool is not None
    return [*store._pool._free, *store._pool._used]


def test_a_session_is_confirmed_once_and_again_after_a_doubt(url: str) -> None:
    """While every use is answered, there are no further queries."""

    async def judge() -> None:
        async with opened(url) as store:
            await asyncio.gather(*(store.commit([start(f"run {number}")]) for number in range(3)))
            asked: list[str] = []
            before = sessions(store)
            for session in before:
                assert session.confirmed
                session.add_query_logger(lambda record: asked.append(record.query))
            await asyncio.gather(*(store.commit([start(f"run {number}")]) for number in range(3, 6)))
            await asyncio.sleep(0)  # a query is logged in the loop's next turn
            assert not [query for query in asked if query.startswith("SELECT pg_logical_emit_message")]
            other = await connect(url)
            async with other.transaction():
                await other.execute("LOCK TABLE runs")
                committing = asyncio.create_task(store.commit([start("cancelled")]))
                while not await other.fetch("SELECT FROM pg_locks WHERE NOT granted"):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                committing.cancel()
                await asyncio.wait([committing])
            await other.close()
            assert len(sessions(store)) == len(before) - 1
            assert not any(session.confirmed for session in sessions(store))
            await store.commit([start("after")])
            assert [session.confirmed for session in sessions(store)].count(True) == 1

    asyncio.run(judge())


def test_sessions_that_nobody_needs_are_closed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A burst opens as many sessions as allowed; afterwards they are closed."""

    async def judge() -> None:
        async with opened(url) as store:
            await asyncio.gather(*(store.get([key()]) for _ in range(6)))
            assert len(sessions(store)) > 1
            monkeypatch.setattr(pooling, "IDLE_SECONDS", 0.0)
            while sessions(store):  # noqa: ASYNC110  # the monitor does it in its own time
                await asyncio.sleep(0.05)
            assert await store.get([key()]) == []

    asyncio.run(judge())


def test_the_server_gives_a_statement_up_before_its_connection_is_dropped(url: str) -> None:
    """A statement that is dropped while it waits for a lock would still be executed, long after it was repeated."""

    async def judge() -> None:
        session = await connect(url)
        milliseconds = int(await session.fetchval("SELECT setting FROM pg_settings WHERE name = 'statement_timeout'"))
        await session.close()
        assert 0 < milliseconds / 1000 < COMMAND_SECONDS

    asyncio.run(judge())


async def _met_again(store: PostgresStore, caplog: pytest.LogCaptureFixture) -> list[str]:
    """The log after the store gets new sessions."""
    caplog.clear()
    store._drop()
    await store.get([key()])
    return [record.getMessage() for record in caplog.records if "IS BEHIND" in record.getMessage()]


def test_a_run_that_was_pruned_is_not_taken_for_lost(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """On the server that committed it, a missing run was deleted."""

    async def judge() -> None:
        async with opened(url) as store:
            await store.commit([turn(await leased(store), COMPLETED)])
            assert await _met_again(store, caplog) == []
            assert await store.prune(NOW + 10**9, 10) == 1
            assert await _met_again(store, caplog) == []

    asyncio.run(judge())


def test_a_run_that_went_back_is_told(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """As after restoring a backup: the run exists, but the acknowledged turn does not."""

    async def judge() -> None:
        async with opened(url) as store:
            run = await leased(store)
            await store.commit([turn(run)])
            assert await _met_again(store, caplog) == []
            async with store._connection() as session:
                await session.execute(f"DELETE FROM segments WHERE first >= {run.version}")
            (message,) = await _met_again(store, caplog)
            assert (
                "1 are not there (starts, messages and answers: 0; turns, which are done again by themselves: 1)"
                in message
            )
            assert await _met_again(store, caplog) == []
            assert isinstance(await row(store), p.Run)

    with caplog.at_level(logging.ERROR):
        asyncio.run(judge())
