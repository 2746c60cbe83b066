"""Random workflow programs: trees of data, one workflow that plays any of them, and the world that answers.

A tree is made from a seed alone, so a seed reproduces a program. ``play`` interprets it with plain asyncio, as an
author would write it. Every tree ends if every step is settled, every timer fires and every awaited signal is sent.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, assert_never

import msgspec

from holdfast.journal.payload import RetryPolicy
from holdfast.programs.function import calls
from holdfast.programs.function.decorators import step, workflow

SIGNALS: Final = ("left", "right")
MAX_ATTEMPTS: Final = 3


class Perform(msgspec.Struct, frozen=True, tag="perform"):
    """A step whose first ``fails`` attempts fail; with ``MAX_ATTEMPTS`` or more it fails for good."""

    key: str
    fails: int


class Sleep(msgspec.Struct, frozen=True, tag="sleep"):
    seconds: float


class Receive(msgspec.Struct, frozen=True, tag="receive"):
    name: str


class Observe(msgspec.Struct, frozen=True, tag="observe"):
    """Recorded time and entropy."""


class Child(msgspec.Struct, frozen=True, tag="child"):
    """The tree below as a child workflow."""

    item: Node


class Sequence(msgspec.Struct, frozen=True, tag="sequence"):
    items: tuple[Node, ...]


class Gather(msgspec.Struct, frozen=True, tag="gather"):
    items: tuple[Node, ...]
    keep_errors: bool


class Group(msgspec.Struct, frozen=True, tag="group"):
    """A TaskGroup: one failing member cancels the others."""

    items: tuple[Node, ...]


class Race(msgspec.Struct, frozen=True, tag="race"):
    """The first to end wins, the others are cancelled."""

    items: tuple[Node, ...]


class Join(msgspec.Struct, frozen=True, tag="join"):
    """A join set, taken one by one or all at once."""

    items: tuple[Perform | Child, ...]
    at_once: bool


class Timeout(msgspec.Struct, frozen=True, tag="timeout"):
    seconds: float
    item: Node


class Rescue(msgspec.Struct, frozen=True, tag="rescue"):
    """``except Exception``, then the other."""

    item: Node
    other: Node


class Ensure(msgspec.Struct, frozen=True, tag="ensure"):
    """``finally``, also in a cancellation."""

    item: Node
    cleanup: Perform


Node = Perform | Sleep | Receive | Observe | Child | Sequence | Gather | Group | Race | Join | Timeout | Rescue | Ensure


class Unlucky(Exception):
    """What a failing step raises."""


class World:
    """What the steps do when a real worker runs them: the attempts of each, and each success."""

    def __init__(self) -> None:
        self.attempts: Counter[str] = Counter()
        self.succeeded: Counter[str] = Counter()

    async def perform(self, key: str, fails: int) -> str:
        self.attempts[key] += 1
        if self.attempts[key] <= fails:
            raise Unlucky(key)
        self.succeeded[key] += 1
        return key


world: Final[ContextVar[World]] = ContextVar("world", default=World())  # noqa: B039  # meant to be one
"""The world that steps act on; a simulation gives each of its workers its own."""


@step(name="laws.perform", retry=RetryPolicy(max_attempts=MAX_ATTEMPTS, initial=1.0, jitter=0.5))
async def perform(key: str, fails: int) -> str:
    return await world.get().perform(key, fails)


@workflow(name="laws.play")
async def play(tree: Node) -> Any:
    return await _play(tree)


async def _play(node: Node) -> Any:
    match node:
        case Perform(key=key, fails=fails):
            return await perform(key, fails)
        case Sleep(seconds=seconds):
            return await asyncio.sleep(seconds, "slept")
        case Receive(name=name):
            return await calls.receive(name)
        case Observe():
            return [calls.now().timestamp(), calls.random(), str(calls.uuid())]
        case Child(item=item):
            return await play(item)
        case Sequence(items=items):
            return [await _play(item) for item in items]
        case Gather(items=items, keep_errors=keep):
            found = await asyncio.gather(*map(_play, items), return_exceptions=keep)
            return [type(one).__name__ if isinstance(one, BaseException) else one for one in found]
        case Group(items=items):
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(_play(item)) for item in items]
            return [task.result() for task in tasks]
        case Race():
            return await _race(node)
        case Join():
            return await _join(node)
        case Timeout(seconds=seconds, item=item):
            async with asyncio.timeout(seconds):
                return await _play(item)
        case Rescue(item=item, other=other):
            try:
                return await _play(item)
            except Exception as error:
                return [type(error).__name__, await _play(other)]
        case Ensure(item=item, cleanup=cleanup):
            try:
                return await _play(item)
            finally:
                await perform(cleanup.key, cleanup.fails)
        case _ as never:
            assert_never(never)


async def _race(node: Race) -> Any:
    tasks = [asyncio.create_task(_play(item)) for item in node.items]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    if pending:
        await asyncio.wait(pending)
    return [task.result() for task in done]


async def _join(node: Join) -> Any:
    members = calls.join_set()
    for item in node.items:
        members.submit(perform(item.key, item.fails) if isinstance(item, Perform) else play(item.item))
    return await members.all() if node.at_once else [result async for result in members]


class Grower:
    """Grows a tree from a source of randomness: ``size`` bounds the number of its nodes."""

    def __init__(self, source: random.Random, *, prefix: str = "") -> None:
        self._source = source
        self._prefix = prefix
        self._steps = 0

    def grow(self, size: int) -> Node:
        if size <= 1:
            return self._source.choice(self._leaves())()
        return self._source.choice(self._branches())(size - 1)

    def _leaves(self) -> list[Callable[[], Node]]:
        return [self._perform, self._perform, self._perform, self._sleep, self._receive, Observe]

    def _branches(self) -> list[Callable[[int], Node]]:
        return [
            lambda size: Sequence(self._several(size)),
            lambda size: Gather(self._several(size), self._chance(0.5)),
            lambda size: Group(self._several(size)),
            lambda size: Race(self._several(size)),
            lambda size: Join(self._members(size), self._chance(0.5)),
            lambda size: Timeout(self._seconds(), self.grow(size)),
            lambda size: Rescue(self.grow(size // 2), self.grow(size - size // 2)),
            lambda size: Ensure(self.grow(size), self._perform()),
            lambda size: Child(self.grow(size)),
        ]

    def _perform(self) -> Perform:
        self._steps += 1
        fails = self._source.choices(range(MAX_ATTEMPTS + 1), weights=(70, 15, 5, 10))[0]
        return Perform(f"{self._prefix}{self._steps}", fails)

    def _sleep(self) -> Sleep:
        return Sleep(self._seconds())

    def _receive(self) -> Receive:
        return Receive(self._source.choice(SIGNALS))

    def _members(self, size: int) -> tuple[Perform | Child, ...]:
        count = self._source.randint(1, min(size, 4))
        return tuple(Child(self.grow(size // count)) if self._chance(0.2) else self._perform() for _ in range(count))

    def _several(self, size: int) -> tuple[Node, ...]:
        count = self._source.randint(1, min(size, 4))
        return tuple(self.grow(size // count) for _ in range(count))

    def _seconds(self) -> float:
        return self._source.choice((0.5, 1.0, 1.0, 3.0, 10.0))

    def _chance(self, probability: float) -> bool:
        return self._source.random() < probability


def tree(seed: int, size: int) -> Node:
    """The program of this seed and size."""
    return Grower(random.Random(seed)).grow(size)
