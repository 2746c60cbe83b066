"""Leases of owners whom the store does not know: one may have claimed after it was forgotten, and died of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.store.memory import MemoryStore
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.protocol import Store
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.postgres import PostgresServer
from holdfast.testing.stores.samples import NOW, WORKFLOW, start


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    if request.param == "memory":
        return MemoryStore
    if request.param == "sqlite":
        return lambda: SqliteStore(str(tmp_path / "holdfast.db"))
    server: PostgresServer = request.getfixturevalue("postgres")
    url = server.schema_url()
    return lambda: PostgresStore(url)


def test_the_leases_of_unknown_owners_are_taken_back(new_store: Callable[[], Store]) -> None:
    """Else a run that was claimed by a worker that had been forgotten, and then died, would rest for ever."""

    async def main() -> None:
        store = new_store()
        await store.open()
        try:
            await store.commit([start()])
            (stray,) = (await store.claim("ghost", [WORKFLOW], 1, NOW)).runs
            assert (await store.claim("ann", [WORKFLOW], 1, NOW)).runs == []
            await store.rescue(NOW + 1)
            (taken,) = (await store.claim("ann", [WORKFLOW], 1, NOW + 1)).runs
            assert (taken.owner, taken.epoch > stray.epoch) == ("ann", True)
        finally:
            await store.close()

    asyncio.run(main())
