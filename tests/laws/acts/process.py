"""An engine that may be killed at any time, also around one of its commits."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import msgspec

from holdfast import Holdfast
from tests.laws.acts.world import place
from tests.unit.worker.ground import OPTIONS, Ground, Line

PROCESS_OPTIONS: Final = msgspec.structs.replace(OPTIONS, crash_limit=1000)


class Fragile(Line):
    """A way to the store of a process that is killed around one of its commits."""

    def __init__(self, process: Process, dies_at: int, *, before: bool) -> None:
        super().__init__(process.ground.store)
        self._process = process
        self._left = dies_at
        self._before = before

    async def commit(self, changes: Any) -> Any:
        self._left -= 1
        if self._left == 0 and self._before:
            self._process.die("before a commit")
        await self._pass()
        answer = await self._store.commit(changes)
        if self._left == 0:
            self._process.die("after a commit")
        await self._pass()
        return answer


class Process:
    """One engine, until it is killed. Whatever it begins runs in its own context, so that an act knows its engine.

    ``opening`` makes the engine on a line to the store."""

    def __init__(
        self,
        ground: Ground,
        number: int,
        dies_at: int,
        *,
        before: bool,
        opening: Callable[[Line], AbstractAsyncContextManager[Holdfast]],
        may_die: Callable[[Process, str], bool],
    ) -> None:
        self.ground = ground
        self.number = number
        self.dead = False
        self.app: Holdfast
        self._line = Fragile(self, dies_at, before=before)
        self._opening = opening
        self._may_die = may_die
        self._context = contextvars.copy_context()
        self._context.run(place.set, self)
        self._opened = asyncio.Event()
        self._over = asyncio.Event()
        self.end = self.inside(self._live())

    async def _live(self) -> None:
        async with self._opening(self._line) as app:
            self.app = app
            self._opened.set()
            await self._over.wait()

    def inside(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Do it in this process."""
        return asyncio.get_running_loop().create_task(work, context=self._context)

    @property
    def is_open(self) -> bool:
        return self._opened.is_set()

    async def opened(self) -> None:
        """Wait until it works, or is dead."""
        ended = asyncio.get_running_loop().create_task(self._over.wait())
        opened = asyncio.get_running_loop().create_task(self._opened.wait())
        await asyncio.wait([ended, opened], return_when=asyncio.FIRST_COMPLETED)

    def die(self, when: str) -> None:
        """It is killed, if it may die."""
        if not self.dead and self._may_die(self, when):
            self._line.dead = self.dead = True
            self._over.set()

    async def close(self) -> None:
        self._over.set()
        await self.end
