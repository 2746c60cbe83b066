"""Join sets: concurrent calls whose results are taken one by one, in the order in which they were settled."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload

from holdfast.errors import InvalidFunction
from holdfast.journal.events import All, AwaitKind
from holdfast.journal.events import Any as AnyKind
from holdfast.journal.payload import Outcome
from holdfast.journal.promise import PromiseId
from holdfast.programs.function.decorators import Durable, Step, current
from holdfast.programs.function.durable_call import DurableCall
from holdfast.programs.function.failures import unwrap

if TYPE_CHECKING:
    from collections.abc import Coroutine

P = ParamSpec("P")
T = TypeVar("T")


class Members:
    """The calls of one join set whose results have not been taken, and which of them have ended."""

    __slots__ = ("calls", "ended", "in_order")

    def __init__(self) -> None:
        self.calls: dict[PromiseId, tuple[Durable[Any], tuple[Any, ...]]] = {}
        self.ended: dict[PromiseId, Outcome] = {}
        self.in_order: deque[PromiseId] = deque()  # as they ended

    @property
    def missing(self) -> int:
        """How many have not ended."""
        return len(self.calls) - len(self.ended)

    def open(self) -> tuple[PromiseId, ...]:
        """The calls that have not ended, in the order of submission."""
        return tuple(promise for promise in self.calls if promise not in self.ended)

    def end(self, promise: PromiseId, outcome: Outcome) -> None:
        """A call has ended."""
        self.ended[promise] = outcome
        self.in_order.append(promise)

    def next_ended(self) -> PromiseId:
        """The call that ended first."""
        while (promise := self.in_order.popleft()) not in self.ended:  # its result was taken by ``all``
            continue
        return promise

    def take(self, promise: PromiseId) -> tuple[Outcome, Durable[Any], tuple[Any, ...]]:
        """The result of a call that has ended. The call is no longer a member."""
        return self.ended.pop(promise), *self.calls.pop(promise)


class JoinSet(Generic[T]):
    """A set of calls of one result type. Nothing can be submitted once the first result has been taken."""

    def __init__(self) -> None:
        loop, program = current("join_set()")
        self._loop = loop
        self._program = program
        self._id = loop.scribe.join_set()
        self._members = Members()
        self._waiter: tuple[AwaitKind, asyncio.Future[None]] | None = None

    def __len__(self) -> int:
        """How many results have not been taken."""
        return len(self._members.calls)

    @overload
    def submit(self, call: Coroutine[Any, Any, T], /) -> None: ...

    @overload
    def submit(self, call: Durable[T], /, *args: Any, **kwargs: Any) -> None: ...

    def submit(self, call: Any, /, *args: Any, **kwargs: Any) -> None:
        """Begin a call of a step or child workflow: ``submit(charge(order))`` or ``submit(charge, order)``."""
        loop, _ = current("JoinSet.submit()")
        if isinstance(call, DurableCall) and not args and not kwargs:
            call.submit()
            call, args, kwargs = call.definition, call.args, call.kwargs
        if inspect.iscoroutine(call):
            call.close()  # else Python warns that nobody awaited it
            raise InvalidFunction(
                f"a join set takes calls of steps and workflows, and {call.__qualname__}() is neither: "
                "call it in a child workflow, or use asyncio.gather()"
            )
        if not isinstance(call, Durable):
            raise InvalidFunction(f"a join set takes calls of steps and workflows, not {call!r}")
        promise = call.schedule(loop, args, kwargs)
        loop.scribe.submit(self._id, promise)
        self._members.calls[promise] = (call, args)
        self._program.members[promise] = self

    async def next(self) -> T:
        """The next result, in the order in which they were settled; a failed call raises. IndexError after the last."""
        if not self._members.calls:
            raise IndexError("every result of this join set has been taken")
        while not self._members.ended:
            await self._wait(AnyKind())
        return self._take(self._members.next_ended())

    async def all(self) -> list[T]:
        """Every result not taken yet, in the order of submission; the first failed call raises."""
        while self._members.missing:
            await self._wait(All())
        return [self._take(promise) for promise in list(self._members.calls)]

    def __aiter__(self) -> AsyncIterator[T]:
        return self._results()

    async def _results(self) -> AsyncIterator[T]:
        while self._members.calls:
            yield await self.next()

    def _take(self, promise: PromiseId) -> T:
        loop, program = current("a join set's result")
        loop.scribe.consume(self._id, promise, self._members.ended[promise])
        outcome, definition, args = self._members.take(promise)
        payload = unwrap(outcome, definition.what)
        if not isinstance(definition, Step):
            return cast("T", definition.read_result(payload))
        value: T = definition.value_of(payload, program)
        definition.got(program, value, args)
        return value

    async def _wait(self, kind: AwaitKind) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiter = (kind, waiter)
        self._program.join_waits[self._members] = kind
        try:
            await waiter
        finally:
            self._waiter = None
            self._program.join_waits.pop(self._members, None)

    def settled(self, promise: PromiseId, outcome: Outcome) -> None:
        """The kernel delivered a member's outcome."""
        self._members.end(promise, outcome)
        if self._waiter is not None:
            kind, waiter = self._waiter
            if not (isinstance(kind, All) and self._members.missing) and not waiter.done():
                waiter.set_result(None)
