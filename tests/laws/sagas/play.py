"""The workflow that plays any tree, the steps that it calls, the world that they act on, and what the program saw.

Each success of a step has a unique number in its value (``k3#17``), and an undo gets that value. So a journal says
exactly which execution was recorded, and which one was undone.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, Final, NoReturn, assert_never

import msgspec

from holdfast.journal.payload import RetryPolicy
from holdfast.programs.function import calls
from holdfast.programs.function.decorators import step, workflow
from holdfast.programs.function.forms import ask
from holdfast.programs.function.loop import durable_loop
from tests.laws.sagas import tree as t

MAX_ATTEMPTS: Final = 2
SAID: Final = "the program says so"

_RETRY: Final = RetryPolicy(max_attempts=MAX_ATTEMPTS, initial=1.0, jitter=0.0)


class Unlucky(Exception):
    """What a failing step raises."""


class Abort(BaseException):
    """What some author derives from BaseException."""


class World:
    """What the steps act on. It counts attempts over all generations: what fails at first works when it is retried."""

    def __init__(self) -> None:
        self.attempts: Counter[str] = Counter()
        self._numbers = itertools.count(1)

    async def perform(self, name: str, *args: Any) -> str:
        """Do one attempt of the step of this name, for its number."""
        return self.attempt(name, *args)

    def attempt(self, name: str, *args: Any) -> str:
        return self.undo(*args) if name in (undo.name, unbook.name) else self.do(*args)

    def do(self, key: str, fails: int) -> str:
        self.attempts[key] += 1
        if self.attempts[key] <= fails:
            raise Unlucky(key)
        return f"{key}#{next(self._numbers)}"

    def undo(self, value: str) -> str:
        key = key_of(value)
        self.attempts[f"undo {value}"] += 1
        if key.endswith("!") or (key.endswith("?") and self.attempts[f"undo {value}"] == 1):
            raise Unlucky(f"undo {value}")
        return f"{value} undone by {next(self._numbers)}"


class Booking(msgspec.Struct, frozen=True):
    """A result that is more than a text."""

    value: str


class Answer(msgspec.Struct, frozen=True):
    """What people answer to a form."""

    word: str


def key_of(value: str) -> str:
    """The key of the effect that an execution had."""
    return value.partition("#")[0]


world: Final[ContextVar[World]] = ContextVar("world")


@step(name="sagas.undo", retry=_RETRY)
async def undo(value: str) -> str:
    return await world.get().perform(undo.name, value)


@step(name="sagas.do", undo=undo, retry=_RETRY)
async def do(key: str, fails: int) -> str:
    return await world.get().perform(do.name, key, fails)


@step(name="sagas.unbook", retry=_RETRY)
async def unbook(booking: Booking, key: str) -> str:
    return await world.get().perform(unbook.name, _checked(booking, key))


@step(name="sagas.book", undo=unbook, retry=_RETRY)
async def book(key: str, fails: int) -> Booking:
    return Booking(await world.get().perform(book.name, key, fails))


@step(name="sagas.plain", retry=_RETRY)
async def plain(key: str, fails: int) -> str:
    return await world.get().perform(plain.name, key, fails)


def _checked(booking: Booking, key: str) -> str:
    """Check that an undo got the arguments and the result of its call."""
    return booking.value if key_of(booking.value) == key else f"{booking.value} as {key}"


def call(node: t.Do) -> Any:
    """The call of a step, not begun."""
    definition = plain if not node.undoable else book if node.typed else do
    return definition(node.key, node.fails)


class Note(msgspec.Struct, frozen=True):
    """What the program saw: that it ``wants``, ``got`` or ``missed`` a signal, ``asks`` a form that was ``answered``
    or ``unanswered``, ``gave up`` a step, ``continues`` as new, has ``left``."""

    what: str
    name: str = ""
    value: str = ""
    at: int = 0  # how many events the journal had then


class Trace:
    """All that one program saw, from its start. A rebuilt program sees all of it again."""

    def __init__(self) -> None:
        self.notes: list[Note] = []

    def note(self, what: str, name: str = "", value: str = "") -> None:
        loop = durable_loop()
        if loop is not None and not loop.is_closed():  # a program that was closed sees nothing more
            self.notes.append(Note(what, name, value, loop.scribe.version))


begun: Final[list[Trace]] = []
"""The traces of the programs that have begun. The caller that begins or rebuilds one takes its trace from here."""


@workflow(name="sagas.play")
async def play(tree: t.Node) -> Any:
    trace = Trace()
    begun.append(trace)
    try:
        value = await Player(trace).play(tree)
    except BaseException as error:
        trace.note("left", "raised", " ".join(sorted(set(_leaves(error)))))
        raise
    trace.note("left", "returned")
    return value


def _leaves(error: BaseException) -> list[str]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [type(error).__name__]


class Player:
    """Plays trees for one run."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._loose: list[asyncio.Task[Any]] = []

    async def play(self, node: t.Node) -> Any:
        match node:
            case t.Do():
                return await self._do(node)
            case t.Sleep(seconds=seconds):
                return await asyncio.sleep(seconds, "slept")
            case t.Receive(name=name):
                return await self._receive(name)
            case t.Drain(name=name):
                return await self._drain(name)
            case t.Ask():
                return await self._ask(node)
            case t.Child(item=item):
                return await play(item)
            case t.Again(item=item):
                return self._continue(item)
            case t.Raise(what=what):
                return _raise(what)
            case _:
                return await self._compose(node)

    async def _compose(self, node: Any) -> Any:
        match node:
            case t.Seq(items=items):
                return [await self.play(item) for item in items]
            case t.Gather(items=items, keep_errors=keep):
                found = await asyncio.gather(*map(self.play, items), return_exceptions=keep)
                return [type(one).__name__ if isinstance(one, BaseException) else one for one in found]
            case t.Group(items=items):
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(self.play(item)) for item in items]
                return [task.result() for task in tasks]
            case t.Race():
                return await self._race(node)
            case t.AsCompleted(items=items):
                return [await one for one in asyncio.as_completed([self.play(item) for item in items])]
            case t.Join():
                return await self._join(node)
            case t.Stream():
                return await self._stream(node)
            case _:
                return await self._guard(node)

    async def _guard(self, node: Any) -> Any:
        match node:
            case t.Timeout(seconds=seconds, item=item, wait_for=True):
                return await asyncio.wait_for(self.play(item), seconds)
            case t.Timeout(seconds=seconds, item=item):
                async with asyncio.timeout(seconds):
                    return await self.play(item)
            case t.Shield(item=item):
                return await asyncio.shield(self.play(item))
            case t.Loose(item=item):
                self._loose.append(asyncio.create_task(self.play(item)))
                return "loose"
            case t.Rescue(item=item, other=other, stubborn=stubborn):
                caught = (Exception, asyncio.CancelledError) if stubborn else Exception
                try:
                    return await self.play(item)
                except caught as error:
                    name = type(error).__name__
                return [name, await self.play(other)]
            case t.Ensure(item=item, cleanup=cleanup):
                try:
                    return await self.play(item)
                finally:
                    await self.play(cleanup)
            case _ as never:
                assert_never(never)

    def _continue(self, item: t.Node) -> NoReturn:
        try:
            calls.continue_as_new(item)
        except BaseException as control:
            self._trace.note("continues", type(control).__name__)
            raise

    async def _do(self, node: t.Do) -> Any:
        try:
            return await call(node)
        except asyncio.CancelledError:
            self._trace.note("gave up", node.key)
            raise

    async def _receive(self, name: str) -> str:
        self._trace.note("wants", name)
        try:
            value: str = await calls.receive(name, str)
        except BaseException:
            self._trace.note("missed", name)
            raise
        self._trace.note("got", name, value)
        return value

    async def _ask(self, node: t.Ask) -> str:
        self._trace.note("asks", node.title)
        expire = None if node.seconds is None else timedelta(seconds=node.seconds)
        try:
            answer = await ask(node.title, Answer, expire=expire)
        except BaseException as error:
            self._trace.note("unanswered", node.title, type(error).__name__)
            raise
        self._trace.note("answered", node.title, answer.word)
        return answer.word

    async def _drain(self, name: str) -> list[str]:
        found: list[str] = []
        try:
            while True:
                async with asyncio.timeout(1.0):
                    found.append(await self._receive(name))
        except TimeoutError:
            return found

    async def _race(self, node: t.Race) -> Any:
        waited: list[asyncio.Future[Any]] = []
        for number, item in enumerate(node.items):
            if not node.futures:
                waited.append(asyncio.create_task(self.play(item)))
            else:
                waited.append(asyncio.shield(self.play(item)) if number % 2 else asyncio.gather(self.play(item)))
        done, pending = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        for one in pending:
            one.cancel()
        if pending and node.tidy:
            await asyncio.wait(pending)
        return [one.result() for one in done]

    async def _join(self, node: t.Join) -> Any:
        members = calls.join_set()
        for item in node.items:
            if isinstance(item, t.Child):
                members.submit(play(item.item))
            else:
                members.submit(call(item))
        if node.taken is None:
            return await members.all()
        return [await members.next() for _ in range(min(node.taken, len(node.items)))]

    async def _stream(self, node: t.Stream) -> Any:
        found: list[Any] = []
        async for value in self._values(node):
            found.append(value)
            if len(found) == node.taken:
                break
        return found

    async def _values(self, node: t.Stream) -> AsyncIterator[Any]:
        try:
            for item in node.items:
                yield await self.play(item)
        finally:
            await self.play(node.cleanup)


def _raise(what: t.Ending) -> NoReturn:
    match what:
        case "error":
            raise ArithmeticError(SAID)
        case "exit":
            sys.exit(SAID)
        case "interrupt":
            raise KeyboardInterrupt(SAID)
        case "abort":
            raise Abort(SAID)
        case "stray":
            raise asyncio.CancelledError(SAID)
        case _ as never:
            assert_never(never)
