"""The outside world: what was done and undone for each run, when, and by which engine."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from typing import Final

import msgspec

from holdfast import TerminalError, action, step, step_info
from tests.laws.acts.world import Place, place

FAR: Final = "far"
"""The queue that some engines do not serve."""
MODERN: Final = "trees.modern"
"""The step that some engines do not have."""


class Done(msgspec.Struct, frozen=True):
    """An act was done, or undone, once more."""

    run: str
    began: float
    ended: float
    engine: Place
    key: str


class World:
    """What was really done. Acts are known by their labels, of which each call has its own."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self._loop = asyncio.get_running_loop()
        self.fails = source.choice((0.0, 0.0, 0.1, 0.3))
        self.seconds = source.choice(((0.0, 0.2, 1.0), (0.5, 6.0), (0.0, 3.0, 30.0)))
        self.fits = False
        """Whether the code is mended whose results did not fit."""
        self.done: defaultdict[str, list[Done]] = defaultdict(list)
        self.undone: defaultdict[str, list[Done]] = defaultdict(list)
        self.undoing: dict[str, float] = {}
        """When the first undo of an act began."""
        self.happened: dict[str, str] = {}
        """What came of each act of an action, by the key of its receipt."""
        self.asked: set[str] = set()
        """Acts that happened as a person said, not as the engine saw."""
        self.kept_by_people: set[str] = set()
        """Acts of which a person has refused the undo."""
        self.returned: dict[str, float] = {}
        """When a body first came to its end, by the label of its program."""
        self.deaths: list[float] = []
        self.story: list[str] = []

    @property
    def now(self) -> float:
        return self._loop.time()  # not that of the body that asks

    def tell(self, what: str) -> None:
        self.story.append(f"{self.now:9.3f}  {what}")

    async def pass_time(self) -> None:
        """Something takes a while. In an engine that was killed it never ends."""
        await asyncio.sleep(self.source.choice(self.seconds))
        if place.get().dead:
            await asyncio.get_running_loop().create_future()

    async def act(self, label: str) -> str:
        began, info = self.now, step_info()
        who = f"engine {place.get().number}, {info.run}: {label}"
        self.tell(f"{who} begins")
        await self.pass_time()
        if self.source.random() < self.fails:
            self.tell(f"{who} fails")
            raise TerminalError("the shop says no")
        self.done[label].append(Done(info.run, began, self.now, place.get(), info.key))
        self.happened[info.key] = label
        self.tell(f"{who} is done")
        return label

    async def undo(self, label: str) -> str:
        began, info = self.now, step_info()
        who = f"engine {place.get().number}, {info.run}: undo {label}"
        self.undoing.setdefault(label, began)
        self.tell(f"{who} begins")
        await self.pass_time()
        self.undone[label].append(Done(info.run, began, self.now, place.get(), info.key))
        self.happened[info.key] = label
        self.tell(f"{who} is done")
        return label


worlds: list[World] = []
"""The world of the present life."""


@step(name="trees.unbook")
async def unbook(label: str) -> None:
    await worlds[-1].undo(label)


@step(name="trees.book", undo=unbook)
async def book(label: str) -> str:
    return await worlds[-1].act(label)


@step(name="trees.fetch", undo=unbook, queue=FAR)
async def fetch(label: str) -> str:
    """On a queue that not every engine serves."""
    return await worlds[-1].act(label)


@step(name=MODERN, undo=unbook, retries=1)
async def modern(label: str) -> str:
    """A step that not every engine has. Its first attempt fails, so that others may have to go on with it."""
    if step_info().attempt == 1:
        raise ArithmeticError("not yet")
    return await worlds[-1].act(label)


@action(connector="agency", operation="unhire", target="{label}", name="trees.unhire")
async def unhire(label: str) -> str:
    return await worlds[-1].undo(label)


@action(connector="agency", operation="hire", target="{label}", undo=unhire, name="trees.hire")
async def hire(label: str) -> str:
    """A person approves it, and its undo."""
    return await worlds[-1].act(label)
