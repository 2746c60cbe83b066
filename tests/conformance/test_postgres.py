"""The PostgreSQL store keeps every law of the store protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from holdfast.store.postgres.connection import driver
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.protocol import Store
from holdfast.testing.postgres import PostgresServer
from holdfast.testing.stores import StoreSuite


@pytest.fixture(scope="module")
def schema(postgres: PostgresServer) -> str:
    """The URL of the schema that all tests use, one after the other. The first one makes its tables."""
    return postgres.schema_url()


@pytest.fixture(scope="module")
def empty(schema: str) -> Iterator[Callable[[], None]]:
    """Empties all tables over one connection: a fraction of the time that making them takes."""
    with asyncio.Runner() as runner:
        connection = runner.run(driver().connect(schema, timeout=60))

        async def delete() -> None:
            named = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
            deletions = " ".join(f'DELETE FROM "{name}";' for (name,) in named if name != "holdfast_schema")
            await connection.execute(f"DO $$ BEGIN {deletions} END $$")

        yield lambda: runner.run(delete())
        runner.run(connection.close())


class TestPostgresStore(StoreSuite):
    @pytest.fixture(autouse=True)
    def _in_an_empty_schema(self, schema: str, empty: Callable[[], None]) -> None:
        empty()
        self.url = schema

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[Store]:
        store = PostgresStore(self.url)
        await store.open()
        try:
            yield store
        finally:
            await store.close()
