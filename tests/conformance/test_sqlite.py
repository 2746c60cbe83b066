"""The SQLite store keeps every law of the store protocol."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.store.protocol import Store
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.stores import StoreSuite


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with all tables and nothing in them. Copying it takes a fraction of the time that making it takes."""
    path = tmp_path_factory.mktemp("empty") / "holdfast.db"

    async def make() -> None:
        store = SqliteStore(str(path))
        await store.open()
        await store.close()

    asyncio.run(make())
    return path


class TestSqliteStore(StoreSuite):
    @pytest.fixture(autouse=True)
    def _in_a_file_of_its_own(self, tmp_path: Path, empty: Path) -> None:
        self.path = tmp_path / "holdfast.db"
        shutil.copyfile(empty, self.path)

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[Store]:
        store = SqliteStore(str(self.path))
        await store.open()
        try:
            yield store
        finally:
            await store.close()
