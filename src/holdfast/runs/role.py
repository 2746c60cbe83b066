"""The base of every background role: it starts, runs until it is stopped, and survives an unavailable store."""

from __future__ import annotations

import asyncio
import logging

from holdfast.store.patience import LONGEST_SECONDS, SHORTEST_SECONDS, TROUBLE

log = logging.getLogger("holdfast.worker")


class Role:
    """A background part. ``round`` does one round of work and gives the seconds until the next.

    Starting twice, stopping twice, and stopping before starting do no harm. ``wake`` begins the next round at once; a
    wake during a round is not lost. ``wake_within`` does the same for later: the role sleeps for as long as its last
    round gave, so a caller that knows of an earlier time must announce it.
    """

    name = "role"

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None

    async def round(self) -> float | None:
        """Do one round, and give the seconds until the next; None waits for a wake."""
        raise NotImplementedError

    def start(self) -> None:
        if self._task is None:
            self._woken = asyncio.Event()
            self._task = asyncio.get_running_loop().create_task(self._run(), name=f"holdfast-{self.name}")

    def wake(self) -> None:
        self._woken.set()

    def wake_within(self, seconds: float) -> None:
        """Begin a round in so many seconds. Only the earliest is kept: its round will know of the later ones."""
        loop = asyncio.get_running_loop()
        at = loop.time() + max(0.0, seconds)
        if self._alarm is not None:
            if self._alarm.when() <= at:
                return
            self._alarm.cancel()
        self._alarm = loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self.wake()

    async def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        pause = SHORTEST_SECONDS
        while True:
            self._woken.clear()
            try:
                delay = await self.round()
                pause = SHORTEST_SECONDS
            except TROUBLE as error:
                log.debug("%s: %s", self.name, error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_SECONDS)
                continue
            except Exception:
                log.exception("the %s met an error; it continues", self.name)
                delay = LONGEST_SECONDS
            await self._rest(delay)

    async def _rest(self, seconds: float | None) -> None:
        if seconds is not None and seconds <= 0:
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return
