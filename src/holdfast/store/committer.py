"""The committer: one per process. It commits together all changes that were submitted during the last transaction.

An idle engine commits at once, a busy one in batches, and there is nothing to tune. A change is answered only after it
is durable. While the store does not answer, nothing is answered: the batch is tried again until it is durable.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from holdfast.errors import InvalidRequest, OperatorError, StoreLost, StoreUnavailable
from holdfast.store.patience import LONGEST_SECONDS, SHORTEST_SECONDS, TROUBLE
from holdfast.store.protocol import Answer, Change, Store

log = logging.getLogger("holdfast.committer")

Done = Callable[[Answer | Exception], None]

BATCH_LIMIT: Final = 256
"""Further changes wait for the next transaction: so while one batch is written, the runs of the other can advance."""

CALLER_PATIENCE_SECONDS: Final = 30.0
"""How long a caller's own change waits for a store that does not answer. A turn waits without limit."""


class Submission(msgspec.Struct, gc=False):
    """A change, its callback, and the time until which it may wait for the store."""

    change: Change
    done: Done
    deadline: float


class Committer:
    """Takes changes, commits them in groups, and calls back with each one's answer.

    ``committed`` is called with each group that is durable, whatever the answers are. It must return at once.
    """

    def __init__(self, store: Store, committed: Callable[[Sequence[Change]], None] = lambda _: None) -> None:
        self._store = store
        self._committed = committed
        self._waiting: list[Submission] = []
        self._task: asyncio.Task[None] | None = None
        self.commits = 0
        self.trouble: str | None = None
        self._refusal: str | None = None

    @property
    def idle(self) -> bool:
        return self._task is None or self._task.done()

    async def flushed(self) -> None:
        """Wait until everything that was submitted is answered."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    def submit(self, change: Change, done: Done, patience_seconds: float = math.inf) -> None:
        """Commit the change with the next group. ``done`` is called from inside a task: it must not run a program.

        With a finite patience it is answered with the store's error after that time, or at once where an operator must
        act. Once the committer is stopped, nothing is committed: callers get an error, and a turn needs no answer.
        """
        patient = patience_seconds == math.inf
        if self._refusal is not None:
            if not patient:
                done(InvalidRequest(self._refusal))
            return
        deadline = math.inf if patient else asyncio.get_running_loop().time() + patience_seconds
        self._waiting.append(Submission(change, done, deadline))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="holdfast-committer")

    async def commit(self, change: Change) -> Answer:
        """Commit a caller's change with the next group, and wait for its answer."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.submit(change, into(future), CALLER_PATIENCE_SECONDS)
        return await future

    def start(self) -> None:
        """Accept changes again after ``refuse``."""
        self._refusal = None

    def refuse(self, why: str) -> None:
        """Accept nothing from now on; callers get the reason."""
        self._refusal = why

    async def stop(self, refusal: str = "the engine is closed") -> None:
        """Give up all changes that are not committed, with an error to waiting callers. Committed changes stay."""
        self.refuse(refusal)
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if each.deadline < math.inf:
                each.done(InvalidRequest(refusal))

    async def _run(self) -> None:
        while self._waiting:
            group = self._waiting[:BATCH_LIMIT]
            del self._waiting[:BATCH_LIMIT]
            try:
                await self._settle(group)
            except asyncio.CancelledError:
                self._leave_open(group)
                raise

    def _leave_open(self, group: list[Submission]) -> None:
        """It was stopped while these were being committed: their outcome is unknown."""
        message = (
            "the engine was closed while this was committed, and may have made it durable: ask again, with the same id"
        )
        for waiting in group:
            if waiting.deadline < math.inf:
                waiting.done(StoreUnavailable(message))

    async def _settle(self, group: list[Submission]) -> None:
        """Commit until the store answers. Only a change that the store cannot take is answered with an error."""
        pause = SHORTEST_SECONDS
        while group:
            try:
                changes = [waiting.change for waiting in group]
                answers = await self._store.commit(changes)
            except TROUBLE as error:
                self._complain(error, len(group))
                group = _dismiss(group, error)
                self._waiting = _dismiss(self._waiting, error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_SECONDS)
            except Exception as error:
                await self._isolate(group, error)
                return
            else:
                self.commits += 1
                self._recovered()
                self._committed(changes)
                for waiting, answer in zip(group, answers, strict=True):
                    waiting.done(answer)
                return

    async def _isolate(self, group: list[Submission], error: Exception) -> None:
        if len(group) == 1:
            log.error("the store refused a change: %s", error)
            group[0].done(error)
            return
        for waiting in group:
            await self._settle([waiting])

    def _complain(self, error: Exception, waiting: int) -> None:
        if self.trouble != str(error) and isinstance(error, StoreLost):
            log.error("%s (%d changes cannot be made durable)", error, waiting + len(self._waiting))
        elif self.trouble != str(error):
            log.warning("%s (%d changes wait; nothing is lost)", error, waiting + len(self._waiting))
        self.trouble = str(error)

    def _recovered(self) -> None:
        if self.trouble is not None:
            log.warning("the store answers again")
            self.trouble = None


def into(future: asyncio.Future[Answer]) -> Done:
    """A callback that settles a future, unless it was cancelled."""

    def done(answer: Answer | Exception) -> None:
        if future.done():
            return
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)

    return done


def _dismiss(group: list[Submission], error: Exception) -> list[Submission]:
    """Answer the changes that cannot wait any longer, or not for an operator; gives the others."""
    now = asyncio.get_running_loop().time()
    staying = []
    for waiting in group:
        if waiting.deadline < now or (isinstance(error, OperatorError) and waiting.deadline < math.inf):
            waiting.done(error)
        else:
            staying.append(waiting)
    return staying
