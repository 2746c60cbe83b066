"""Join sets: concurrent calls whose results are taken one by one, in the order in which they were settled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from holdfast.errors import InvalidDefinition
from holdfast.journal.events import All, AwaitKind
from holdfast.journal.events import Any as AnyKind
from holdfast.journal.payload import Outcome
from holdfast.journal.promise import PromiseId
from holdfast.programs.function.definitions import Call, Durable, Step, current
from holdfast.programs.function.program import unwrap

if TYPE_CHECKING:
    from collections.abc import Coroutine

P = ParamSpec("P")
T = TypeVar("T")


class JoinSet(Generic[T]):
    """A set of calls of one result type. Nothing can be submitted once the first result has been taken."""

    def __init__(self) -> None:
        loop, program = current("join_set()")
        self._loop = loop
        self._program = program
        self._id = loop.scribe.join_set()
        self._calls: dict[PromiseId, tuple[Durable[Any], tuple[Any, ...]]] = {}
        self._settled: dict[PromiseId, Outcome] = {}
        self._waiter: tuple[AwaitKind, asyncio.Future[None]] | None = None
        self._order: list[PromiseId] = []

    def __len__(self) -> int:
        """How many results have not been taken."""
        return len(self._calls)

    @overload
    def submit(self, call: Coroutine[Any, Any, T], /) -> None: ...

    @overload
    def submit(self, call: Durable[T], /, *args: Any, **kwargs: Any) -> None: ...

    def submit(self, call: Any, /, *args: Any, **kwargs: Any) -> None:
        """Begin a call of a step or child workflow: ``submit(charge(order))`` or ``submit(charge, order)``."""
        loop, _ = current("JoinSet.submit()")
        if isinstance(call, Call) and not args and not kwargs:
            call, args, kwargs = call.definition, call.args, call.kwargs
        if not isinstance(call, Durable):
            raise InvalidDefinition(f"a join set takes calls of steps and workflows, not {call!r}")
        promise = call.schedule(loop, args, kwargs)
        loop.scribe.submit(self._id, promise)
        self._calls[promise] = (call, args)
        self._order.append(promise)
        self._program.members[promise] = self

    async def next(self) -> T:
        """The next result, in the order in which they were settled; a failed call raises. IndexError after the last."""
        if not self._calls:
            raise IndexError("every result of this join set has been taken")
        while not self._settled:
            await self._wait(AnyKind())
        promise, outcome = next(iter(self._settled.items()))
        return self._take(promise, outcome)

    async def all(self) -> list[T]:
        """Every result not taken yet, in the order of submission; the first failed call raises."""
        while len(self._settled) < len(self._calls):
            await self._wait(All())
        wanted = [promise for promise in self._order if promise in self._calls]
        return [self._take(promise, self._settled[promise]) for promise in wanted]

    def __aiter__(self) -> AsyncIterator[T]:
        return self._results()

    async def _results(self) -> AsyncIterator[T]:
        while self._calls:
            yield await self.next()

    def _take(self, promise: PromiseId, outcome: Outcome) -> T:
        loop, program = current("a join set's result")
        loop.scribe.consume(self._id, promise, outcome)
        del self._settled[promise]
        definition, args = self._calls.pop(promise)
        payload = unwrap(outcome, definition.what)
        value: T = definition.read_result(payload)
        if isinstance(definition, Step):
            definition.done(program, value, args)
        return value

    async def _wait(self, kind: AwaitKind) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiter = (kind, waiter)
        self._program.join_waits[self] = (kind, self._missing())
        try:
            await waiter
        finally:
            self._waiter = None
            self._program.join_waits.pop(self, None)

    def settled(self, promise: PromiseId, outcome: Outcome) -> None:
        """The kernel delivered a member's outcome."""
        self._settled[promise] = outcome
        if self._waiter is not None:
            kind, waiter = self._waiter
            enough = len(self._settled) == len(self._calls) if isinstance(kind, All) else True
            if enough and not waiter.done():
                waiter.set_result(None)
            elif not enough:  # beside other waits a run resumes for each: what is here is waited for no longer
                self._program.join_waits[self] = (kind, self._missing())

    def _missing(self) -> tuple[PromiseId, ...]:
        return tuple(promise for promise in self._calls if promise not in self._settled)
