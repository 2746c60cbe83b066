"""The SQLite store keeps every law of the store protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.store.protocol import Store
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.stores import StoreSuite


class TestSqliteStore(StoreSuite):
    @pytest.fixture(autouse=True)
    def _in_a_folder_of_its_own(self, tmp_path: Path) -> None:
        self.path = tmp_path / "holdfast.db"

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[Store]:
        store = SqliteStore(str(self.path))
        await store.open()
        try:
            yield store
        finally:
            await store.close()
