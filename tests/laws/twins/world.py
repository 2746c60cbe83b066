"""The outside of both ways. What it does is decided by the seed and by the place of a call in its program."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from holdfast import OutcomeUnknown, Receipt, TerminalError, action, step, step_info
from tests.laws.acts.world import Act, place

OUTSIDE: Final = "bank"


class World:
    """What was really done, by tenant and business key: the key that an order has for its kind of act."""

    def __init__(self, seed: int, *, is_doubtful: float, fails: float, unknown: float, undo_fails: float) -> None:
        self.seed = seed
        self.chances = {"doubt": is_doubtful, "fails": fails, "unknown": unknown, "undo": undo_fails}
        self.done: Counter[Act] = Counter()
        self.undone: Counter[Act] = Counter()
        self.reversed: Counter[Act] = Counter()
        self.happened: dict[Act, str] = {}
        """What came of all that has a receipt, by the receipt's key."""
        self.is_kind = False
        self.heard: Callable[[str, str], None] = lambda run, at: None
        self.story: list[str] = []
        self._undone: set[Act] = set()
        self._tries: Counter[tuple[str, str]] = Counter()

    def tell(self, what: str) -> None:
        self.story.append(f"{asyncio.get_running_loop().time():9.3f}  {what}")

    def is_so(self, what: str, *place: object) -> bool:
        return random.Random(f"{self.seed} {what} {place}").random() < self.chances[what]

    async def pass_time(self, seconds: float) -> None:
        """In an engine that was killed it never ends."""
        await asyncio.sleep(seconds)
        if place.get().dead:
            await asyncio.get_running_loop().create_future()

    async def act(self, at: str, what: str, order: str, seconds: float) -> str:
        """Do it; gives its business key. One whose order is its own may fail, or be of unknown outcome."""
        info, key = step_info(), f"{what}:{order}"
        await self.pass_time(seconds / 2)
        if order.startswith("own") and not self.is_kind and self.is_so("fails", at):
            self.tell(f"{info.run}: {key} fails")
            raise TerminalError(f"the bank says no to {at}")
        unknown = order.startswith("own") and info.key not in self.happened and self.is_so("unknown", at)
        tries = self._tries[at, info.key]
        self._tries[at, info.key] += 1
        if unknown and not tries and self.is_so("unknown", at, "before"):
            self.tell(f"{info.run}: {key} is not done, which nobody knows")
            raise OutcomeUnknown("the line broke")
        self.done[info.tenant, key] += 1
        self.happened[info.tenant, info.key] = key
        self.tell(f"{info.run}: {key} is done as {info.key}")
        await self.pass_time(seconds / 2)
        if unknown and not tries:
            raise OutcomeUnknown("the line broke")
        return key

    async def undo(self, key: str) -> None:
        """Take an act back as a step does it: again and again, until its end is recorded."""
        info = step_info()
        await self.pass_time(0.5)
        if (info.tenant, info.key) not in self._undone:
            if not self.is_kind and self.is_so("undo", key):
                self.tell(f"{info.run}: the undo of {key} fails")
                raise ArithmeticError("the bank is closed")
            self._undone.add((info.tenant, info.key))
            self.undone[info.tenant, key] += 1
            self.tell(f"{info.run}: {key} is undone")
        await self.pass_time(0.5)

    async def unhire(self, key: str) -> str:
        """Take an act back as an action does it: once."""
        info = step_info()
        await self.pass_time(0.5)
        self.undone[info.tenant, key] += 1
        self.happened[info.tenant, info.key] = key
        self.tell(f"{info.run}: {key} is undone by an action")
        await self.pass_time(0.5)
        return key

    async def back(self, key: str) -> str:
        info = step_info()
        await self.pass_time(1.0)
        self.reversed[info.tenant, key] += 1
        self.happened[info.tenant, info.key] = key
        self.tell(f"{key} is reversed")
        return key


worlds: list[World] = []
"""The world of the present life."""


@step(name="twins.refund", retries=1)
async def refund(key: str) -> None:
    await worlds[-1].undo(key)


@action(connector=OUTSIDE, operation="unhire", target="{key}", name="twins.unhire")
async def unhire(key: str) -> str:
    return await worlds[-1].unhire(key)


@action(connector=OUTSIDE, operation="back", target="{receipt.target}", name="twins.back")
async def back(receipt: Receipt) -> str:
    return await worlds[-1].back(f"{receipt.operation}:{receipt.target}")


def _acting(what: str, **how: Any) -> Any:
    """An action of this kind. Where it is in its program has no part in its key, if that is the author's."""

    async def act(at: str, order: str, seconds: float) -> str:
        return await worlds[-1].act(at, what, order, seconds)

    return action(connector=OUTSIDE, operation=what, target="{order}", reverse=back, name=f"twins.{what}", **how)(act)


ACTS: Final[dict[str, Any]] = {
    "pay": _acting("pay", idempotency_key="pay:{order}", undo=refund),
    "hire": _acting("hire", idempotency_key="hire:{order}", undo=unhire),
    "buy": _acting("buy", undo=refund),
    "tip": _acting("tip", idempotency_key="tip:{order}"),
}
"""A key of the author's, undone by a step or by an action; the default key; and an act without an undo."""
UNDOS: Final = {
    "pay": {"step": "twins.refund", "with": {"key": "=result"}},
    "hire": {"action": "twins.unhire", "with": {"key": "=result"}},
    "buy": {"step": "twins.refund", "with": {"key": "=result"}},
}
"""The same for definitions."""


@step(name="twins.doubt", retries=0)
async def doubt(at: str, seconds: float) -> None:
    """Fails, until the world is kind."""
    world = worlds[-1]
    await world.pass_time(seconds)
    if not world.is_kind and world.is_so("doubt", at):
        raise TerminalError(f"doubtful at {at}")


@step(name="twins.mark", repeatable=True)
async def mark(run: str, at: str) -> None:
    """The program has come to this place: people may wait for that."""
    worlds[-1].heard(run, at)
