"""The committer: one per process, it groups whatever has gathered while the last transaction was under way.

An idle engine commits at once, a busy one in batches, and there is nothing to tune. A change is answered only after it
is durable. While the store does not answer, nothing is answered: the batch is tried again until it is.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from typing import Final

import msgspec

from holdfast.errors import InvalidRequest, OperatorError, StoreLost, StoreUnavailable
from holdfast.store.patience import LONGEST_SECONDS, SHORTEST_SECONDS, TROUBLE
from holdfast.store.protocol import Answer, Change, Store

log = logging.getLogger("holdfast.committer")

Done = Callable[[Answer | Exception], None]

BATCH_LIMIT: Final = 256
"""What more there is goes with the next transaction: while one is under way, the runs of the other go on."""

CALLER_PATIENCE_SECONDS: Final = 30.0
"""How long a caller's own change waits for a store that does not answer. A turn waits as long as it takes."""


class Submission(msgspec.Struct, gc=False):
    """A change, whom to tell, and until when it may wait for the store to answer."""

    change: Change
    done: Done
    deadline: float


class Committer:
    """Takes changes, commits them in groups, and calls back with each one's answer."""

    def __init__(self, store: Store) -> None:
        self._store = store
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

        With a finite patience it is answered with the store's error instead, at once where an operator must act. Once
        it is stopped nothing is committed: callers are told so, and a turn has nobody to be told.
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
        """Take changes, after it refused them."""
        self._refusal = None

    def refuse(self, why: str) -> None:
        """Take nothing from now on; callers are told why."""
        self._refusal = why

    async def stop(self, refusal: str = "the engine is closed") -> None:
        """Give up whatever is not committed, and say so to callers that wait. What was committed stays."""
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
        """It was stopped while these were on their way: whether they were made is not known."""
        told = (
            "the engine was closed while this was committed, and may have made it durable: ask again, with the same id"
        )
        for waiting in group:
            if waiting.deadline < math.inf:
                waiting.done(StoreUnavailable(told))

    async def _settle(self, group: list[Submission]) -> None:
        """Commit until the store answers. A change that the store cannot take is answered with its error, alone."""
        pause = SHORTEST_SECONDS
        while group:
            try:
                answers = await self._store.commit([waiting.change for waiting in group])
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
    """A callback that settles a future, unless nobody waits for it any more."""

    def done(answer: Answer | Exception) -> None:
        if future.done():
            return
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)

    return done


def _dismiss(group: list[Submission], error: Exception) -> list[Submission]:
    """Tell those who cannot wait for an operator, or no longer; the others stay."""
    now = asyncio.get_running_loop().time()
    staying = []
    for waiting in group:
        if waiting.deadline < now or (isinstance(error, OperatorError) and waiting.deadline < math.inf):
            waiting.done(error)
        else:
            staying.append(waiting)
    return staying
