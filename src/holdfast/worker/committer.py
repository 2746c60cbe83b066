"""The committer: one per process, it groups whatever has gathered while the last transaction was under way.

An idle engine commits at once, a busy one in batches, and there is nothing to tune. A change is answered only after it
is durable. While the store does not answer, nothing is answered: the batch is tried again until it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from holdfast.errors import OperatorError, StoreUnavailable
from holdfast.store.protocol import Answer, Change, Store

log = logging.getLogger("holdfast.committer")

Done = Callable[[Answer | Exception], None]

BATCH_LIMIT: Final = 1000
PATIENCE_SECONDS: Final = (0.05, 2.0)


class Committer:
    """Takes changes, commits them in groups, and calls back with each one's answer."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[tuple[Change, Done]] = []
        self._task: asyncio.Task[None] | None = None
        self.commits = 0
        self.trouble: str | None = None

    @property
    def idle(self) -> bool:
        return self._task is None or self._task.done()

    def submit(self, change: Change, done: Done) -> None:
        """Commit the change with the next group. ``done`` is called from inside a task: it must not run a program."""
        self._waiting.append((change, done))
        if self.idle:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="holdfast-committer")

    async def commit(self, change: Change) -> Answer:
        """Commit one change with the next group, and wait for its answer."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def done(answer: Answer | Exception) -> None:
            if future.done():
                return
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        self.submit(change, done)
        return await future

    async def drain(self) -> None:
        """Wait until nothing is left to commit."""
        while not self.idle and self._task is not None:
            await asyncio.wait([self._task])

    async def stop(self) -> None:
        """Give up whatever is not committed. What was committed stays."""
        self._waiting.clear()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while self._waiting:
            group = self._waiting[:BATCH_LIMIT]
            del self._waiting[:BATCH_LIMIT]
            answers = await self._settle([change for change, _ in group])
            for (_, done), answer in zip(group, answers, strict=True):
                done(answer)

    async def _settle(self, batch: Sequence[Change]) -> Sequence[Answer | Exception]:
        """Commit until the store answers. A change that the store cannot take is answered with its error, alone."""
        pause = PATIENCE_SECONDS[0]
        while True:
            try:
                answers = await self._store.commit(batch)
            except (StoreUnavailable, OperatorError) as error:
                self._complain(error, len(batch))
                await asyncio.sleep(pause)
                pause = min(pause * 2, PATIENCE_SECONDS[1])
            except Exception as error:
                if len(batch) == 1:
                    log.exception("the store refused a change")
                    return [error]
                return [answer for change in batch for answer in await self._settle([change])]
            else:
                self.commits += 1
                self._recovered()
                return answers

    def _complain(self, error: Exception, waiting: int) -> None:
        if self.trouble != str(error):
            log.warning("%s (%d changes wait; nothing is lost)", error, waiting + len(self._waiting))
        self.trouble = str(error)

    def _recovered(self) -> None:
        if self.trouble is not None:
            log.warning("the store answers again")
            self.trouble = None
