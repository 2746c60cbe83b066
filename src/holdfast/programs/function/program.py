"""A function as the kernel's program: its coroutine on a durable loop, its waits, its end, its compensation.

A run has three phases. First comes the body. When it has ended, its calls that must be awaited are stopped, and their
ends awaited: calls with an ``undo=``, and, if the body failed or was cancelled, the children of the run. Everything
else that it left behind is called off. Then successes are undone: all of them if the body failed or was cancelled, else
those of calls that it had given up. The last phase is a task of its own, which nothing can cancel.

In editions 0 and 1 there is no second phase.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.errors import EngineError, Undecodable
from holdfast.journal import events as e
from holdfast.journal.payload import Failure, Outcome, Payload
from holdfast.journal.promise import PromiseId
from holdfast.journal.secrecy import scrubbed
from holdfast.kernel.pen import Halt
from holdfast.kernel.program import Continued, Ending, Raised, Returned, Scribe, Stopped, Waiting, Yielded
from holdfast.programs.cleanup import CleanupWait
from holdfast.programs.function.compensation import Compensations
from holdfast.programs.function.failures import continuation, describe, is_at_fault, misfit, unwrap
from holdfast.programs.function.first_edition import FirstEdition
from holdfast.programs.function.loop import DurableLoop

if TYPE_CHECKING:
    from holdfast.programs.function.decorators import Step, Workflow
    from holdfast.programs.function.joinset import JoinSet, Members
    from holdfast.programs.function.named_workflows import Directory

LISTED: Final = 16
"""A wait for more promises than this lists none. Each resumption writes the list again, so it must stay short."""

_SINGLE: Final = e.Single()
_ANY: Final = e.Any()
_OPEN: Final = Waiting((), e.Open())

_STRAY = Failure("asyncio.exceptions:CancelledError", "the workflow let a CancelledError through that nobody asked for")
"""The end of a body that awaited a task it had cancelled itself: an error of the body, no cancellation of the run."""


class FunctionProgram:
    """One run of one workflow function."""

    needs: Final = ()  # a step that is missing is an error of the call
    reference: Final = None

    def __init__(self, workflow: Workflow[..., Any], directory: Directory | None = None) -> None:
        self.workflow = workflow
        self.idempotency_key = ""  # of its run, once it is started
        self.directory = directory  # what it can call by name
        self.names: Mapping[str, str | None] = {}
        self.compensations = Compensations()
        self.first_edition: FirstEdition | None = None
        self.children: set[PromiseId] = set()  # its child workflows that have not ended
        self._cleanup = CleanupWait()  # the wait for them
        self.fresh: set[PromiseId] = set()  # calls to be awaited that were made since the last wait: none has begun
        self.signals: dict[PromiseId, str] = {}
        self.join_waits: dict[Members, e.AwaitKind] = {}
        self.members: dict[PromiseId, JoinSet[Any]] = {}
        self.patches: dict[str, bool] = {}
        self.inline: dict[PromiseId, Step[..., Any]] = {}  # steps of ``perform``, until they are settled
        self.secrets: set[str | bytes | int | float] = set()  # secret arguments of its actions: no error may quote them
        self._loop: DurableLoop | None = None
        self._main: asyncio.Task[Ending] | None = None
        self._undoing: asyncio.Task[None] | None = None
        self._ended: Ending | None = None
        self._cancelled = False
        self.edition = e.EDITION
        self._left = False  # the body has ended, and what it left behind is called off or stopped

    # -- the kernel's side -----------------------------------------------------------------------------------------

    def start(self, scribe: Scribe, started: e.ExecutionStarted) -> None:
        self.idempotency_key = started.idempotency_key
        self.edition = started.edition
        loop = self._loop = DurableLoop(scribe, self)  # type: ignore[abstract]  # it refuses the rest by name
        if started.edition:
            self.compensations = Compensations(started.carried)
            self._main = loop.create_task(self._drive(started.input))
        else:
            self.first_edition = FirstEdition(self.workflow)
            self._main = loop.create_task(self.first_edition.drive(started.input))

    def settle(self, promise_id: PromiseId, outcome: Outcome | None) -> None:
        loop = self._running()
        if self.compensations.asked:
            self.compensations.settled(promise_id, outcome)
        if self.children:
            self.children.discard(promise_id)
        if promise_id in self._cleanup.promises:
            self._leave_children()
        if self.inline:
            self.inline.pop(promise_id, None)
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
        if main is not None and not main.done():  # else it is being undone, and a cancellation must not end that
            self._cancelled = True
            main.cancel(reason)
        loop.run_ready()

    def revise(self, payload: Payload) -> None:
        raise EngineError("the code of a function comes with its worker, and not by a revision")

    def run(self) -> Yielded:
        loop, main = self._running(), self._main
        loop.run_ready()
        if loop.fault is not None:
            raise loop.fault
        if main is None or not main.done():
            self.fresh.clear()
            return self._waiting(loop)
        ending = self._ending(main)
        fails = type(ending) is Raised or type(ending) is Stopped
        if self.edition >= 2:
            if not self._left:
                self._leave(loop, fails=fails)
            if self._cleanup.promises and not self.children:
                self._cleanup.end(loop.scribe)
            if self._owed(fails=fails):
                return self._closing(fails=fails)
        elif fails:
            loop.body_ended = self.first_edition is None  # tasks that it left behind end at their next command
        if (fails or self.edition >= 2) and not self._undo(loop, fails=fails):
            return self._waiting(loop)
        if type(ending) is Continued and not self.compensations.failures:
            return msgspec.structs.replace(ending, carried=self.compensations.carried(self))
        return self._with_failures(ending)

    def clock_of(self, promise_id: PromiseId) -> PromiseId | None:
        """None: the timers of a function are its author's own."""
        return None

    def checkpoint(self) -> bytes | None:
        """None: the stack of a coroutine cannot be written. A function is rebuilt by replay."""
        return None

    def restore(self, scribe: Scribe, started: e.ExecutionStarted, checkpoint: bytes) -> None:
        raise ValueError("a function has no checkpoints")

    def close(self) -> None:
        if self._loop is not None:
            self._loop.dispose()
            self._loop = self._main = self._undoing = None

    # -- waiting and ending ----------------------------------------------------------------------------------------

    def _waiting(self, loop: DurableLoop) -> Waiting:
        futures, timers, joins = loop.futures, loop.timers, self.join_waits
        count = len(futures) + len(timers)
        if count == 1 and not joins:
            promise = next(iter(futures or timers))
            name = self.signals.get(promise)
            return Waiting((promise,), _SINGLE if name is None else e.Signal(name, promise))
        if len(joins) == 1 and not count:
            members, kind = next(iter(joins.items()))
            listed = type(kind) is e.All or members.missing <= LISTED  # a wait for all is written once
            return Waiting(self.waiting_on(), kind) if listed else _OPEN
        if count + sum(members.missing for members in joins) > LISTED:
            return _OPEN
        return Waiting(self.waiting_on(), _ANY)

    def waiting_on(self) -> tuple[PromiseId, ...]:
        loop = self._running()
        union = dict.fromkeys([*loop.futures, *loop.timers])
        if self._left:
            union.update(dict.fromkeys(self._owed(fails=type(self._ended) is not Returned)))
            union.update(dict.fromkeys(self._cleanup.promises))
        for members in self.join_waits:
            union.update(dict.fromkeys(members.open()))
        return tuple(union)

    def _ending(self, main: asyncio.Task[Ending]) -> Ending:
        """The end of the body. It is computed once."""
        if self._ended is None:
            self._ended = self._ending_of(main)
        return self._ended

    def _ending_of(self, main: asyncio.Task[Ending]) -> Ending:
        if main.cancelled():
            return Stopped() if self._cancelled else Raised(_STRAY)
        error = main.exception()
        if error is None:
            return main.result()
        if isinstance(error, Halt):
            return Stopped()
        if is_at_fault(error):  # the run is parked, and nothing is undone
            raise error
        return Raised(scrubbed(describe(error), self.secrets))

    def _leave(self, loop: DurableLoop, *, fails: bool) -> None:
        """The body has ended: stop its calls that must be awaited, and call off everything else that it left behind."""
        self._left = loop.body_ended = True
        if not fails:
            self.children.clear()  # a run that returns cancels them, and does not wait
        left = [*loop.futures, *self.members]
        loop.futures.clear()
        self.members.clear()
        self.join_waits.clear()
        for promise in left:
            self.give_up(promise)
        for promise in list(loop.timers):
            loop.forget_timer(promise)
        self.fresh.clear()
        if self.children:
            seconds = self.workflow.cleanup_timeout
            self._cleanup.begin(loop.scribe, None if seconds is None else round(seconds * 1e6), may_differ=True)
            if self._cleanup.is_over:
                self._leave_children()

    def _leave_children(self) -> None:
        self._cleanup.leave(self.children)
        self.children.clear()
        self._cleanup.end(self._running().scribe)

    def _owed(self, *, fails: bool) -> tuple[PromiseId, ...]:
        """The calls that must end before anything is undone."""
        return (*self.compensations.asked, *(sorted(self.children) if fails else ()))

    def _closing(self, *, fails: bool) -> Waiting:
        owed = (*self._owed(fails=fails), *self._cleanup.promises)
        if len(owed) > LISTED:
            return _OPEN
        return Waiting(owed, _SINGLE if len(owed) == 1 else _ANY)

    def _undo(self, loop: DurableLoop, *, fails: bool) -> bool:
        """Continue the undoing; gives whether it is finished. A late success is undone, too."""
        while self.compensations.has_more(fails=fails) or (self._undoing is not None and not self._undoing.done()):
            if self._undoing is None or self._undoing.done():
                self._undoing = loop.create_lasting_task(self.compensations.undo(loop, fails=fails))
                loop.run_ready()
            if not self._undoing.done():
                return False
            if self._undoing.exception() is not None:  # its code and its journal disagree: the kernel raises that
                return True
        return True

    def _with_failures(self, ending: Ending) -> Ending:
        """The ending, with the successes that could not be undone in its message."""
        failures, note = self.compensations.failures, self._cleanup.note(self.idempotency_key)
        if note and not failures:
            return Stopped(note) if type(ending) is Stopped else _noted(ending, note)
        if not failures:
            return ending
        failures = [*failures, note] if note else failures
        problem, trace = f"what was done could not all be taken back: {'; '.join(failures)}", ""
        if type(ending) is Returned or type(ending) is Continued:
            problem = f"the workflow returned, and of the calls that it had given up {problem}"
        else:
            cause = ending.failure if type(ending) is Raised else Failure("asyncio.exceptions:CancelledError", "")
            problem, trace = f"{cause.message or cause.type}; and {problem}", cause.trace
        return Raised(scrubbed(Failure("holdfast.errors:StepFailed", problem, trace), self.secrets))

    def _running(self) -> DurableLoop:
        if self._loop is None:
            raise EngineError("the program is not running")
        return self._loop

    # -- the author's side -----------------------------------------------------------------------------------------

    async def _drive(self, input: Payload) -> Ending:
        """Call the function, and give its end.

        Arguments that do not fit fail the run, so that its waiters learn of it. Where the run has begun before, replay
        finds that the journal continues differently, and the run is parked.
        """
        loop, signature = self._running(), self.workflow.signature
        args, kwargs = signature.accept(input)
        try:
            value = await self.workflow.function(*args, **kwargs)
        except BaseException as error:
            again = continuation(error)
            if again is None:
                raise
            loop.check_awaited()
            return Continued(signature.write(*again.arguments))
        loop.check_awaited()
        return Returned(self._result(value))

    def _result(self, value: object) -> Payload:
        """The result of the body. Raises StepFailed if it does not fit the annotation, by which it would be read."""
        signature = self.workflow.signature
        result = signature.write_result(value)
        if self.edition >= 2:
            try:
                signature.read_result(result)
            except Undecodable as error:
                raise misfit(error) from error
        return result

    def own(self, child: PromiseId) -> PromiseId:
        """A child workflow was called. Gives its promise back."""
        if self.edition >= 2:
            self.children.add(child)
            self.fresh.add(child)
        return child

    def give_up(self, promise_id: PromiseId) -> None:
        """The body waits for this no longer. A call that must be awaited and may have begun is stopped; everything else
        is called off."""
        asked, scribe = self.compensations.asked, self._running().scribe
        if self.edition >= 2 and (promise_id in asked or promise_id in self.children) and promise_id not in self.fresh:
            if promise_id in asked:
                self.compensations.given_up.add(promise_id)
            scribe.stop(promise_id)
            return
        asked.pop(promise_id, None)
        self.children.discard(promise_id)
        self.inline.pop(promise_id, None)
        scribe.abandon(promise_id)

    def keep_done(self) -> None:
        """Declare all successes so far as final: they are never undone."""
        if kept := self.compensations.keep():
            self._running().scribe.keep(kept)
        if self.first_edition is not None:
            self.first_edition.keep()

    async def value(self, promise_id: PromiseId, what: str) -> Payload:
        """Wait for a promise and give its value, or raise its error."""
        return unwrap(await self._running().promise(promise_id), what)


def _noted(ending: Ending, note: str) -> Ending:
    if type(ending) is not Raised:
        return ending
    message = f"{ending.failure.message}; {note}" if ending.failure.message else note
    return Raised(msgspec.structs.replace(ending.failure, message=message))
