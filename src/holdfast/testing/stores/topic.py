"""The base of every topic of the suite: the source of its stores, and the way to run its tests."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from holdfast.store.protocol import Store


class Topic:
    """Tests that each take a fresh store."""

    def fresh(self) -> AbstractAsyncContextManager[Store]:
        """An empty store, open; it is closed when the context ends."""
        raise NotImplementedError(f"{type(self).__name__} must define fresh()")


T = TypeVar("T", bound=Topic)


def on_fresh_store(body: Callable[[T, Store], Awaitable[None]]) -> Callable[[T], None]:
    """Make an async test body that takes a store into a test that pytest can call."""

    @functools.wraps(body)
    def test(self: T) -> None:
        async def judge() -> None:
            async with self.fresh() as store:
                await body(self, store)

        asyncio.run(judge())

    # pytest would read the signature of the body and look for a fixture called ``store``.
    del test.__wrapped__
    return test
