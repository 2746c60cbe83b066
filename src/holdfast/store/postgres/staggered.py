"""Attempts at a connection that overlap: a later one may succeed while an earlier one hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any


async def staggered(attempt: Callable[[float], Awaitable[Any]], pace: float, within: float) -> Any:
    """The first session that one of the attempts gives; one is begun every ``pace`` seconds while none has ended.

    A network that was cut and is back does not answer the attempt that was begun before: waiting for it alone would
    make the outage longer. Raises the error of the first attempt that fails, and TimeoutError after ``within`` seconds.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + within
    tasks: set[asyncio.Task[Any]] = set()
    chosen = None
    try:
        while (left := until - loop.time()) > 0:
            tasks.add(asyncio.ensure_future(attempt(left)))
            done, _ = await asyncio.wait(tasks, timeout=min(pace, left), return_when=asyncio.FIRST_COMPLETED)
            if done:
                chosen = done.pop()
                return chosen.result()
        raise TimeoutError
    finally:
        for task in tasks:
            task.cancel()
        for session in await asyncio.gather(*(task for task in tasks if task is not chosen), return_exceptions=True):
            if not isinstance(session, BaseException):
                session.terminate()
