"""The pump: it runs turns one after the other, from a plain callback of the loop.

Newer Pythons refuse to step a workflow's tasks from inside a task.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

TURNS_PER_CALLBACK: Final = 64
"""After so many turns the user's own callbacks get their chance."""


class Pump:
    """What is pushed runs soon, in order."""

    __slots__ = ("_ready", "_resting", "_running")

    def __init__(self) -> None:
        self._ready: deque[Callable[[], None]] = deque()
        self._running = False
        self._resting: asyncio.Future[None] | None = None  # for those that wait until nothing is left to run

    @property
    def running(self) -> bool:
        """Whether something that was pushed is still to run."""
        return self._running

    async def rested(self) -> None:
        """Wait until all that was pushed has run."""
        while self._running:
            if self._resting is None:
                self._resting = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._resting)

    def push(self, act: Callable[[], None]) -> None:
        self._ready.append(act)
        if not self._running:
            self._running = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        try:
            for _ in range(min(TURNS_PER_CALLBACK, len(self._ready))):
                self._ready.popleft()()
        finally:  # the loop reports what one of them raises, and the others go on
            if self._ready:
                asyncio.get_running_loop().call_soon(self._run)
            else:
                self._running = False
                if self._resting is not None:
                    self._resting.set_result(None)
                    self._resting = None
