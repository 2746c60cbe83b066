"""The processes that read what users send, and the queue before them: at most two work, and callers take turns.

A caller whose requests take long waits for these alone: the callers of whom something waits are served one after the
other, whatever the number of requests that each has sent. What is over the bounds of the queue is refused at once.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from holdfast.client.definitions.process import BUDGET_SECONDS, ReaderBroken, ReaderProcess, too_costly
from holdfast.errors import EngineError, InvalidRequest, TooCostly, TooManyRequests

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

MOST_PROCESSES: Final = 2
WAITING_EACH: Final = 4
"""How many requests of one caller wait, beside those under way."""
WAITING: Final = 32
"""How many requests of all callers wait."""


class Readers:
    """The processes of one engine. They are started when they are needed, kept, and ended with the engine."""

    def __init__(self) -> None:
        self.serves = False
        """Whether a server of the engine answers others: then everything is read in these processes."""
        self.budget_seconds = BUDGET_SECONDS
        self._idle = [ReaderProcess() for _ in range(MOST_PROCESSES)]
        self._all = tuple(self._idle)
        self._waiting: OrderedDict[str, deque[asyncio.Future[ReaderProcess]]] = OrderedDict()
        self._threads: ThreadPoolExecutor | None = None

    async def work(self, caller: str, name: str, question: bytes, spent: float = 0.0) -> tuple[bytes, float]:
        """What ``ReaderProcess.work`` gives, in this caller's turn. ``spent`` is how much of the budget is used up.

        Raises TooCostly, TooManyRequests and what the work raises. A process that works for a request that was given up
        is free again when its budget is used up.
        """
        seconds = self.budget_seconds - spent
        if seconds <= 0:
            raise too_costly()
        process = await self._turn(caller)
        loop = asyncio.get_running_loop()
        if self._threads is None:
            self._threads = ThreadPoolExecutor(MOST_PROCESSES, "holdfast-reader")
        working = loop.run_in_executor(self._threads, process.work, name, question, seconds)
        working.add_done_callback(lambda done: self._worked(process, done))
        try:
            return await asyncio.shield(working)
        except TooCostly:
            if self._threads is None:  # its process was ended with all others
                raise _closed() from None
            raise
        except ReaderBroken as error:
            raise EngineError(f"{name} failed in its process:\n{error}") from None
        except OSError as error:
            raise EngineError(f"no process can be started to {name} what was sent: {error}") from error

    async def _turn(self, caller: str) -> ReaderProcess:
        if self._idle:
            return self._idle.pop()
        mine = self._waiting.get(caller, ())
        if len(mine) >= WAITING_EACH or sum(map(len, self._waiting.values())) >= WAITING:
            raise TooManyRequests(
                f"{'your' if len(mine) >= WAITING_EACH else 'too many'} definitions wait to be read already, and at "
                f"most {WAITING_EACH} of one caller do, {WAITING} together.",
                retry_after=BUDGET_SECONDS,
            )
        turn: asyncio.Future[ReaderProcess] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._free(turn.result())
            raise

    def _worked(self, process: ReaderProcess, done: asyncio.Future[tuple[bytes, float]]) -> None:
        """A process that was ended is started anew before its next turn: the next caller need not wait for that."""
        if done.cancelled() or done.exception() is None or process.is_running or self._threads is None:
            self._free(process)
            return
        starting = asyncio.get_running_loop().run_in_executor(self._threads, process.start)
        starting.add_done_callback(lambda started: self._started(process, started))

    def _started(self, process: ReaderProcess, started: asyncio.Future[None]) -> None:
        """If it could not be started, the next question tries again, and says why."""
        if not started.cancelled():
            started.exception()
        self._free(process)

    def _free(self, process: ReaderProcess) -> None:
        while self._waiting:
            caller, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[caller] = turns  # behind all others
            if not turn.done():
                turn.set_result(process)
                return
        self._idle.append(process)

    async def close(self) -> None:
        """End the processes, and wait for that. What is under way fails. Another question would start them again."""
        threads, self._threads = self._threads, None
        if threads is None:
            return
        waiting, self._waiting = self._waiting, OrderedDict()
        for turn in (turn for turns in waiting.values() for turn in turns if not turn.done()):
            turn.set_exception(_closed())
        for process in self._all:
            process.stop()
        await asyncio.to_thread(threads.shutdown, cancel_futures=True)
        for process in self._all:  # one that was being started
            process.end()


def _closed() -> InvalidRequest:
    return InvalidRequest("the engine was closed before this was read: open it, and send it again.")


def reads_apart(app: Holdfast) -> bool:
    """Whether what this client is given is read in other processes: it may be anybody's who can send requests."""
    return app.binding is not None or app.readers.serves


def caller_key(app: Holdfast) -> str:
    """Who takes a turn in the queue."""
    caller = app.caller
    return "" if caller is None else f"{caller.tenant}/{caller.user}"
