"""The memory store keeps every law of the store protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.store.memory import MemoryStore
from holdfast.store.protocol import Store
from holdfast.testing.stores import StoreSuite


class TestMemoryStore(StoreSuite):
    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[Store]:
        store = MemoryStore()
        await store.open()
        try:
            yield store
        finally:
            await store.close()
