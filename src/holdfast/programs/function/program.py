"""A function as the kernel's program: its coroutine on a durable loop, its waits, its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from holdfast.errors import AuthorError, EngineError, StepFailed
from holdfast.journal.events import All as AllKind
from holdfast.journal.events import Any as AnyKind
from holdfast.journal.events import AwaitKind, Single
from holdfast.journal.events import Signal as SignalKind
from holdfast.journal.payload import Err, Failure, Ok, Outcome, Payload
from holdfast.journal.promise import PromiseId
from holdfast.kernel.execution import Halt
from holdfast.kernel.program import Continued, Ending, Raised, Returned, Scribe, Stopped, Waiting, Yielded
from holdfast.programs.function.failures import describe, revive
from holdfast.programs.function.loop import DurableLoop

if TYPE_CHECKING:
    from holdfast.programs.function.definitions import Step, Workflow
    from holdfast.programs.function.joinset import JoinSet

_SINGLE, _ANY, _ALL = Single(), AnyKind(), AllKind()

_STRAY = Failure("asyncio.exceptions:CancelledError", "the workflow let a CancelledError through that nobody asked for")
"""The end of a body that awaited a task it had cancelled itself: an error of its own, no cancellation of the run."""


class ContinueAsNew(BaseException):
    """Ends this generation of the run and begins the next. A BaseException, so that ``except Exception`` lets it by."""

    def __init__(self, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        super().__init__("the run continues as new")
        self.arguments = args, kwargs


class FunctionProgram:
    """One run of one workflow function."""

    def __init__(self, workflow: Workflow[..., Any]) -> None:
        self.workflow = workflow
        self.compensations: list[tuple[Step[..., Any], tuple[Any, ...]]] = []
        self.signals: dict[PromiseId, str] = {}
        self.join_waits: dict[JoinSet[Any], tuple[AwaitKind, tuple[PromiseId, ...]]] = {}
        self.members: dict[PromiseId, JoinSet[Any]] = {}
        self.patches: dict[str, bool] = {}
        self._loop: DurableLoop | None = None
        self._main: asyncio.Task[Ending] | None = None
        self._cancelled = False

    # -- the kernel's side -----------------------------------------------------------------------------------------

    def start(self, scribe: Scribe, input: Payload) -> None:
        loop = self._loop = DurableLoop(scribe, self)  # type: ignore[abstract]  # it refuses the rest by name
        self._main = loop.create_task(self._drive(input))

    def settle(self, promise_id: PromiseId, outcome: Outcome | None) -> None:
        loop = self._running()
        future = loop.futures.pop(promise_id, None)
        if future is not None:
            self.signals.pop(promise_id, None)
            if outcome is not None and not future.done():
                future.set_result(outcome)
        elif (timer := loop.timers.pop(promise_id, None)) is not None:
            loop.fire(timer)
        elif (owner := self.members.pop(promise_id, None)) is not None and outcome is not None:
            owner.settled(promise_id, outcome)
        loop.run_ready()

    def cancel(self, reason: str) -> None:
        loop, main = self._running(), self._main
        self._cancelled = True
        if main is not None and not main.done():
            main.cancel(reason)
        loop.run_ready()

    def run(self) -> Yielded:
        loop, main = self._running(), self._main
        loop.run_ready()
        if loop.fault is not None:
            raise loop.fault
        if main is not None and main.done():
            return self._ending(main)
        return self._waiting(loop)

    def close(self) -> None:
        if self._loop is not None:
            self._loop.dispose()
            self._loop = self._main = None

    # -- waiting and ending ----------------------------------------------------------------------------------------

    def _waiting(self, loop: DurableLoop) -> Waiting:
        futures, timers, joins = loop.futures, loop.timers, self.join_waits
        if len(futures) + len(timers) + len(joins) == 1:
            if joins:
                kind, members = next(iter(joins.values()))
                return Waiting(members, kind)
            promise = next(iter(futures or timers))
            name = self.signals.get(promise)
            return Waiting((promise,), _SINGLE if name is None else SignalKind(name, promise))
        union = dict.fromkeys([*futures, *timers])
        for _, members in joins.values():
            union.update(dict.fromkeys(members))
        return Waiting(tuple(union), _ANY)

    def _ending(self, main: asyncio.Task[Ending]) -> Ending:
        if main.cancelled():
            return Stopped() if self._cancelled else Raised(_STRAY)
        error = main.exception()
        if error is None:
            return main.result()
        if isinstance(error, Halt):
            return Stopped()
        if _is_at_fault(error):
            raise error
        return Raised(describe(error))

    def _running(self) -> DurableLoop:
        if self._loop is None:
            raise EngineError("the program is not running")
        return self._loop

    # -- the author's side -----------------------------------------------------------------------------------------

    async def _drive(self, input: Payload) -> Ending:
        """Call the function; on failure or cancellation undo what was done, newest first.

        Arguments that do not fit fail the run, so that whoever waits for it is told. Where it has begun, replay finds
        that the journal goes on otherwise, and it is parked.
        """
        args, kwargs = self.workflow.signature.accept(input)
        try:
            value = await self.workflow.function(*args, **kwargs)
            return Returned(self.workflow.signature.write_result(value))
        except ContinueAsNew as again:
            return Continued(self.workflow.signature.write(*again.arguments))
        except asyncio.CancelledError as cancelled:
            await self._undo(cancelled)
            raise
        except Exception as error:
            if not _is_at_fault(error):  # else the run is parked as it is, and nothing is undone
                await self._undo(error)
            raise

    async def _undo(self, cause: BaseException) -> None:
        """Take back what was done, newest first, all of it; what cannot be taken back is said."""
        failed: list[str] = []
        while self.compensations:
            undo, args = self.compensations.pop()
            try:
                await undo(*args)
            except StepFailed as error:
                failed.append(str(error))
        if failed:
            what = str(cause) or type(cause).__name__
            raise StepFailed(f"{what}; and what was done could not all be taken back: {'; '.join(failed)}") from cause

    async def value(self, promise_id: PromiseId, what: str) -> Payload:
        """Wait for a promise and give its value, or raise its error."""
        return unwrap(await self._running().promise(promise_id), what)


def _is_at_fault(error: BaseException) -> bool:
    """Whether the body's own code must change. A step that failed that way has failed, like any other."""
    return isinstance(error, AuthorError) and not isinstance(error, StepFailed)


def unwrap(outcome: Outcome, what: str) -> Payload:
    """The value of an outcome, or its error raised."""
    if type(outcome) is Err:
        raise revive(outcome.failure, what)
    return cast("Ok", outcome).value
