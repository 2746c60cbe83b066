"""The outside world: it does acts, undoes them and takes them back, and counts that by what each act says it is.

An act is identified by its tenant and the key that the engine sends along. An undo by a step is sent under a key, too,
and counts once under each. What an engine that was killed had begun never goes on.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from contextvars import ContextVar
from typing import Final, Protocol

import msgspec

from holdfast import OutcomeUnknown, Receipt, TerminalError, action, step, step_info

Act = tuple[str, str]
"""A tenant and a key."""

OUTSIDE: Final = "bank"
ORDERS: Final = ("k0", "k1", "k2")


class Mood(msgspec.Struct, frozen=True):
    """How the world is: how likely an act fails, or what came of it stays unknown, before or after it was done."""

    fails: float = 0.0
    unknown_before: float = 0.0
    unknown_after: float = 0.0
    undo_fails: float = 0.0
    seconds: tuple[float, ...] = (0.0, 0.0, 0.2, 1.0, 4.0)


class Place(Protocol):
    """The engine in which code runs."""

    number: int
    dead: bool


place: ContextVar[Place] = ContextVar("place")


class World:
    """What was really done."""

    def __init__(self, source: random.Random, mood: Mood) -> None:
        self.source = source
        self.mood = mood
        self.done: Counter[Act] = Counter()
        self.undone: Counter[Act] = Counter()
        self.reversed: Counter[Act] = Counter()
        self.happened: dict[Act, str] = {}
        """What came of everything that has a receipt, by the receipt's key."""
        self.undos_failed: defaultdict[Act, set[str]] = defaultdict(set)
        """The runs of which an undo failed for good, by the act that it was to take back."""
        self.kept: defaultdict[Act, set[str]] = defaultdict(set)
        """The runs that have declared an act done for good, where the engine knows that surely."""
        self.perhaps_kept: set[Act] = set()
        """What a body has declared done. It may have been said in a turn that was lost."""
        self.final: set[Act] = set()
        """Acts for which some run called an action that has no undo."""
        self.undo_keys: set[Act] = set()
        self.story: list[str] = []

    def tell(self, what: str) -> None:
        self.story.append(f"{asyncio.get_running_loop().time():9.3f}  {what}")

    async def pass_time(self) -> None:
        """Something takes a while. In an engine that was killed it never ends."""
        await asyncio.sleep(self.source.choice(self.mood.seconds))
        if place.get().dead:
            await asyncio.get_running_loop().create_future()

    def is_so(self, chance: float) -> bool:
        return self.source.random() < chance

    async def act(self, what: str, counter: Counter[Act], act: Act, result: str) -> str:
        """Do it, under the key of the receipt."""
        info, mood = step_info(), self.mood
        who = f"engine {place.get().number}, {info.tenant} {info.run}: {what} {act[1]}"
        await self.pass_time()
        if self.is_so(mood.fails):
            self.tell(f"{who} fails")
            raise TerminalError("the bank says no") if self.is_so(0.5) else ArithmeticError("the line is busy")
        if self.is_so(mood.unknown_before):
            self.tell(f"{who} is not done, which nobody knows")
            raise OutcomeUnknown("the line broke")
        counter[act] += 1
        self.happened[info.tenant, info.key] = result
        self.tell(f"{who} is done")
        await self.pass_time()
        if self.is_so(mood.unknown_after):
            self.tell(f"{who} was done, which nobody knows")
            raise OutcomeUnknown("the line broke")
        return result

    async def undo(self, act: Act) -> None:
        """Take an act back as a step does it: again and again, until its end is recorded."""
        info = step_info()
        who = f"engine {place.get().number}, {info.tenant} {info.run}: undo {act[1]}"
        await self.pass_time()
        is_done = (info.tenant, info.key) in self.undo_keys
        if not is_done and self.is_so(self.mood.undo_fails):
            self.tell(f"{who} fails")
            if info.attempt > 1:
                self.undos_failed[act].add(info.run)
            raise ArithmeticError("the bank is closed")
        if not is_done:
            self.undo_keys.add((info.tenant, info.key))
            self.undone[act] += 1
            self.tell(f"{who} is done")
        await self.pass_time()


worlds: list[World] = []
"""The world of the present life."""


@step(name="acts.refund", retries=1)
async def refund(key: str) -> None:
    await worlds[-1].undo((step_info().tenant, key))


@action(connector=OUTSIDE, operation="unhire", target="{key}", name="acts.unhire")
async def unhire(key: str) -> str:
    world, info = worlds[-1], step_info()
    act = info.tenant, key
    try:
        return await world.act("unhire", world.undone, act, key)
    except (ArithmeticError, TerminalError):
        world.undos_failed[act].add(info.run)
        raise


@action(connector=OUTSIDE, operation="back", target="{receipt.key}", name="acts.back")
async def back(receipt: Receipt) -> str:
    world = worlds[-1]
    return await world.act("reverse", world.reversed, (step_info().tenant, receipt.key), receipt.key)


async def _do(what: str) -> str:
    world, info = worlds[-1], step_info()
    return await world.act(what, world.done, (info.tenant, info.key), info.key)


@action(
    connector=OUTSIDE,
    operation="pay",
    target="{order}",
    idempotency_key="pay:{order}",
    undo=refund,
    reverse=back,
    retries=1,
    name="acts.pay",
)
async def pay(order: str) -> str:
    """A key of the author's, undone by a step."""
    return await _do("pay")


@action(
    connector=OUTSIDE,
    operation="hire",
    target="{order}",
    idempotency_key="hire:{order}",
    undo=unhire,
    reverse=back,
    name="acts.hire",
)
async def hire(order: str) -> str:
    """A key of the author's, undone by an action."""
    return await _do("hire")


@action(connector=OUTSIDE, operation="buy", target="{order}", undo=refund, reverse=back, name="acts.buy")
async def buy(order: str) -> str:
    """The default key, undone by a step."""
    return await _do("buy")


@action(
    connector=OUTSIDE,
    operation="pay",
    target="{order}",
    idempotency_key="pay:{order}",
    reverse=back,
    name="acts.tip",
)
async def tip(order: str) -> str:
    """The same act as ``pay``, for a run that does not undo it."""
    return await _do("tip")


@step(name="acts.doubt", retries=1)
async def doubt() -> None:
    """Fails, until it does not."""
    if worlds[-1].is_so(0.6):
        raise TerminalError("doubtful")


@step(name="acts.note_kept", repeatable=True)
async def note_kept(keys: list[str]) -> None:
    """These were declared done: the turn that said so is committed."""
    world, info = worlds[-1], step_info()
    for key in keys:
        world.kept[info.tenant, key].add(info.run)
