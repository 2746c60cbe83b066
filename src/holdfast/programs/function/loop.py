"""A deterministic asyncio event loop.

No selector, no thread, no clock: ready callbacks run first in, first out until none is left, and time comes from the
journal. ``asyncio.sleep``, ``timeout``, ``gather``, ``wait``, ``TaskGroup``, ``Event`` and ``Queue`` work on it
unchanged, because they need nothing but futures, callbacks and timers. Real I/O raises BlockedLoop.

Sets of tasks and futures, which asyncio and authors iterate over, have the same order in every replay: see
``determinism``.

The loop is stepped from a plain callback of the worker's own loop, never from inside a task: newer Pythons refuse a
task inside a running task of the same thread.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import sys
from asyncio import events
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from holdfast.errors import AuthorError, BlockedLoop, NotAwaited
from holdfast.journal.promise import PromiseId
from holdfast.kernel.pen import Halt
from holdfast.kernel.program import Scribe
from holdfast.programs.function import determinism
from holdfast.programs.function.call_site import CallSite, complaint
from holdfast.programs.function.determinism import DurableFuture
from holdfast.programs.function.interrupts import is_interrupt

if TYPE_CHECKING:
    from holdfast.programs.function.program import FunctionProgram

T = TypeVar("T")

determinism.install()

TASKS_KEPT: Final = 16
"""How many tasks a loop keeps before it removes the ended ones."""


class Promised(asyncio.Future[Any]):
    """The future of one promise. Cancelling it abandons the promise."""

    promise_id: PromiseId

    def cancel(self, msg: object = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled:
            loop = self.get_loop()
            assert isinstance(loop, DurableLoop)
            loop.forget(self.promise_id)
        return cancelled


class Ready(asyncio.Handle):
    """A callback that waits for its turn. asyncio's own handle also keeps data that only debugging needs."""

    __slots__ = ()

    _callback: Callable[..., object]
    _context: Context
    _repr = _source_traceback = None

    def __init__(
        self, callback: Callable[..., object], args: tuple[object, ...], loop: DurableLoop, context: Context | None
    ) -> None:
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = copy_context() if context is None else context
        self._cancelled = False


class DurableTimer(asyncio.TimerHandle):
    """A timer that is a promise. Cancelling the handle abandons it, so a timer ends with its scope."""

    _callback: Callable[..., object]
    _context: Context

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[object, ...],
        loop: DurableLoop,
        context: Context | None,
        promise_id: PromiseId,
    ) -> None:
        super().__init__(when, callback, args, loop, context)
        self._durable = loop
        self.promise_id = promise_id

    def cancel(self) -> None:
        if not self.cancelled():
            super().cancel()
            self._durable.forget_timer(self.promise_id)


class DurableTask(asyncio.Task[T]):
    """A task whose hash is its number in its run, so that sets of tasks keep their order in every replay.

    asyncio puts a new task into a set of all tasks of the process, before it has its number. There it hashes by its
    address: the numbers of other runs' tasks are the same, so they would collide.
    """

    number = 0

    def __hash__(self) -> int:
        return self.number or object.__hash__(self)


class LastingTask(DurableTask[T]):
    """A task that nothing can cancel."""

    def cancel(self, msg: object = None) -> bool:
        return False


class DurableLoop(asyncio.AbstractEventLoop):
    """The loop of one run. Its ``scribe`` is the kernel. Methods of asyncio's loops that are not below are refused."""

    def __init__(self, scribe: Scribe, program: FunctionProgram) -> None:
        self.scribe = scribe
        self.program = program
        self.futures: dict[PromiseId, Promised] = {}
        self.timers: dict[PromiseId, DurableTimer] = {}
        self.fault: AuthorError | None = None
        self.unawaited: dict[int, CallSite] = {}
        self.body_ended = False  # from here on tasks that the body left behind can do nothing more
        self._ready: deque[Ready | DurableTimer] = deque()
        self._tasks: list[asyncio.Task[Any]] = []
        self._tasks_limit = TASKS_KEPT
        self._numbers = itertools.count(1)
        self._time = 0.0
        self._closed = False
        _live.add(self)

    # -- promises ------------------------------------------------------------------------------------------------

    def promise(self, promise_id: PromiseId) -> Promised:
        """A future that the promise's settlement will settle."""
        future = self.futures[promise_id] = Promised(loop=self)
        future.promise_id = promise_id
        return future

    def forget(self, promise_id: PromiseId) -> None:
        if self.futures.pop(promise_id, None) is not None and not self._closed:
            self.program.give_up(promise_id)

    def forget_timer(self, promise_id: PromiseId) -> None:
        if self.timers.pop(promise_id, None) is not None and not self._closed:
            self.scribe.abandon(promise_id)

    def fire(self, timer: DurableTimer) -> None:
        """Run a fired timer's callback; the loop's time becomes the timer's."""
        self._time = max(self._time, timer.when())
        self._ready.append(timer)

    def check_awaited(self) -> None:
        """Raises NotAwaited where a call was made and never begun: it was not done."""
        for site in self.unawaited.values():
            raise NotAwaited(complaint(*site))

    # -- stepping ------------------------------------------------------------------------------------------------

    def run_ready(self) -> None:
        """Run callbacks until everything waits."""
        ready = self._ready
        if not ready:
            return
        outer, hooks = events._get_running_loop(), sys.get_asyncgen_hooks()  # as in _current, at half the cost
        events._set_running_loop(self)
        sys.set_asyncgen_hooks(firstiter=None, finalizer=self._finalize)
        try:
            while ready:
                handle = ready.popleft()
                if handle._cancelled:  # cancelled() costs a call on the hot path
                    continue
                try:
                    handle._context.run(handle._callback, *handle._args)
                except BaseException as error:  # its task keeps it too, and fails the run, not the worker
                    if is_interrupt(error):
                        raise
                    self.call_exception_handler({"exception": error})
        finally:
            sys.set_asyncgen_hooks(*hooks)
            events._set_running_loop(outer)

    @contextmanager
    def _current(self) -> Iterator[None]:
        """Make this the thread's running loop. Async generators are finalized here, never by the worker's loop."""
        outer, hooks = events._get_running_loop(), sys.get_asyncgen_hooks()
        events._set_running_loop(self)
        sys.set_asyncgen_hooks(firstiter=None, finalizer=self._finalize)
        try:
            yield
        finally:
            sys.set_asyncgen_hooks(*hooks)
            events._set_running_loop(outer)

    def _finalize(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Close a generator that the body left early. A generator of a disposed run is not run again, nor one that the
        garbage collector found: the collector runs at other moments in each replay."""
        if not self._closed and self.is_running() and not determinism.is_collecting():
            self.create_task(generator.aclose())

    def dispose(self) -> None:
        """Unwind every coroutine. From here on commands raise, so no author's ``finally`` can cause an effect."""
        self._closed = True
        self._ready.clear()
        with self._current():
            for task in self._tasks:
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # given up on purpose
                if not task.done():
                    _unwind(task.get_coro())
        self._tasks.clear()
        self.futures.clear()
        self.timers.clear()
        _live.discard(self)

    @property
    def disposed(self) -> bool:
        """Whether a command of the author's code unwinds its task instead of being recorded."""
        return self._closed or self.body_ended

    # -- the methods that asyncio needs ----------------------------------------------------------------------------

    def call_soon(
        self, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.Handle:
        handle = Ready(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._time + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if self._closed or self.body_ended:
            raise Halt
        duration = max(0, round((when - self._time) * 1e6))
        promise_id = self.scribe.timer(duration)
        timer = self.timers[promise_id] = DurableTimer(when, callback, args, self, context, promise_id)
        return timer

    def time(self) -> float:
        """The time in seconds, as the run's timers have moved it: a clock for durations, not for dates."""
        return self._time

    def create_future(self) -> asyncio.Future[Any]:
        return DurableFuture(loop=self)

    def create_task(  # type: ignore[override]  # newer stubs add keywords that newer Pythons pass
        self, coro: Coroutine[Any, Any, T], **options: Any
    ) -> asyncio.Task[T]:
        task = DurableTask(coro, loop=self, **options)
        task.number = self.number()
        self._tasks.append(task)
        if len(self._tasks) > self._tasks_limit:
            self._tasks = [task for task in self._tasks if not task.done()]
            self._tasks_limit = max(TASKS_KEPT, 2 * len(self._tasks))
        return task

    def create_lasting_task(self, coro: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task of the engine's own: no code of the author can end it."""
        task = LastingTask(coro, loop=self)
        task.number = self.number()
        self._tasks.append(task)
        return task

    def number(self) -> int:
        """The next number of a task or call of this run. It is also its hash."""
        return next(self._numbers)

    def is_running(self) -> bool:
        return events._get_running_loop() is self

    def is_closed(self) -> bool:
        return self._closed

    def get_debug(self) -> bool:
        return False

    def get_task_factory(self) -> None:
        """There is none: the loop makes its own tasks. Libraries look for a factory before they make a task."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """An exception that the workflow did not retrieve changes nothing."""

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """As above."""

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """asyncio notifies its loop of cancelled handles; DurableTimer has acted already."""

    async def shutdown_asyncgens(self) -> None:
        """Nothing to shut down: the loop owns no resources."""

    def refuse(self, what: str) -> NoReturn:
        """Park the run: its body did something that only a step may do."""
        error = BlockedLoop(
            f"the workflow body did real I/O or a blocking call ({what}). A workflow must be able to replay, so "
            "move this into a @step and await that."
        )
        if not self.body_ended:
            self.fault = self.fault or error
        raise error


_live: Final[set[DurableLoop]] = set()
"""Every loop that is not disposed. They are kept from the garbage collector: it would unwind their coroutines outside
any workflow, and a ``finally:`` that calls a step would run it, unrecorded."""


def dispose_all() -> None:
    """Unwind every workflow of this process; at exit, or when a simulated process has died."""
    for loop in list(_live):
        loop.dispose()


atexit.register(dispose_all)


def _unwind(coroutine: Any) -> None:
    try:
        coroutine.close()
    except BaseException:
        # Nothing can handle an exception of the author's cleanup here: commands raise on purpose.
        return


def durable_loop() -> DurableLoop | None:
    """The loop of the calling workflow, or None outside of one."""
    loop = events._get_running_loop()
    return loop if type(loop) is DurableLoop else None


def _refusing(name: str) -> Callable[..., NoReturn]:
    def refused(self: DurableLoop, *_args: object, **_kwargs: object) -> NoReturn:
        self.refuse(f"loop.{name}")

    refused.__name__ = name
    return refused


for _name, _method in vars(asyncio.AbstractEventLoop).items():
    if callable(_method) and not _name.startswith("_") and _name not in vars(DurableLoop):
        setattr(DurableLoop, _name, _refusing(_name))
