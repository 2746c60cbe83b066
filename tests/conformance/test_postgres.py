"""The PostgreSQL store keeps every law of the store protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.store.postgres.store import PostgresStore
from holdfast.store.protocol import Store
from holdfast.testing.postgres import PostgresServer
from holdfast.testing.stores import StoreSuite


class TestPostgresStore(StoreSuite):
    @pytest.fixture(autouse=True)
    def _in_a_schema_of_its_own(self, postgres: PostgresServer) -> None:
        self.url = postgres.schema_url()

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[Store]:
        store = PostgresStore(self.url)
        await store.open()
        try:
            yield store
        finally:
            await store.close()
