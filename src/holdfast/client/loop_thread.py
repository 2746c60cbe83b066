"""An event loop in another thread, for code that has no loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, TypeVar

from holdfast.errors import InvalidRequest

T = TypeVar("T")


class LoopThread:
    """An event loop in a daemon thread, and the way into it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._entry = threading.Lock()  # a task that came after the last one would never run
        self._stopped = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast-sync", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine on the loop's thread and wait for it here. An interrupted wait cancels it."""
        if threading.current_thread() is self._thread:
            work.close()
            raise InvalidRequest("this thread runs the engine, and would wait for itself: await the async client here.")
        with self._entry:
            if self._stopped:
                work.close()
                raise InvalidRequest("the client is closed: use what it gave inside its `with` block.")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def each(self, items: AsyncIterator[T]) -> Iterator[T]:
        """The items of an asynchronous iterator, fetched one by one."""

        async def step() -> tuple[T] | None:
            try:
                return (await anext(items),)
            except StopAsyncIteration:
                return None

        async def finish() -> None:
            close = getattr(items, "aclose", None)
            if close is not None:
                await close()

        try:
            while (item := self.call(step())) is not None:
                yield item[0]
        finally:
            if not self._stopped:
                self.call(finish())

    def stop(self) -> None:
        """End the thread. A call that another thread still waits for gets a CancelledError."""
        with self._entry:
            self._stopped = True
        asyncio.run_coroutine_threadsafe(self._give_up(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _give_up(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._loop.shutdown_asyncgens()
