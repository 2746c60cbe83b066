"""The PostgreSQL store keeps every law of the store protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.store.postgres.store import PostgresStore
from holdfast.store.protocol import Store
from holdfast.testing.postgres import PostgresServer
from holdfast.testing.stores import StoreSuite


@pytest.fixture(scope="module")
def schema(postgres: PostgresServer) -> str:
    """The URL of the schema that all tests use, one after the other. The first one makes its tables."""
    return postgres.schema_url()


class TestPostgresStore(StoreSuite):
    @pytest.fixture(autouse=True)
    def _in_an_empty_schema(self, postgres: PostgresServer, schema: str) -> None:
        """Emptying the tables takes a fraction of the time that making them takes."""
        named = postgres.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()", schema)
        filled = " ".join(f'DELETE FROM "{name}";' for (name,) in named if name != "holdfast_schema")
        postgres.execute(f"DO $$ BEGIN {filled} END $$", schema)
        self.url = schema

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[Store]:
        store = PostgresStore(self.url)
        await store.open()
        try:
            yield store
        finally:
            await store.close()
