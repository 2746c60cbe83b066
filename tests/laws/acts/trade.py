"""The workflow that plays any program. It gives the keys of the acts that it relies on."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

import msgspec

from holdfast import continue_as_new, keep_done, random, receive, workflow
from tests.laws.acts.world import ORDERS, buy, doubt, hire, note_kept, pay, tip, worlds


class Op(msgspec.Struct, frozen=True, omit_defaults=True):
    """One statement of a program. An order ``?`` is drawn when it is needed, and anew after a retry."""

    do: str
    order: str = ""
    seconds: float = 0.0
    parts: tuple[Op, ...] = ()


class Trade(msgspec.Struct, frozen=True):
    """A program, where it is played, and what earlier generations rely on."""

    tenant: str
    ops: tuple[Op, ...]
    relied: tuple[str, ...] = ()


class Unhappy(Exception):
    """The program fails."""


ACTS: Final[dict[str, Any]] = {"pay": pay, "hire": hire, "buy": buy, "tip": tip}


@workflow(name="acts.trade")
async def trade(given: Trade) -> list[str]:
    """Play a program to its end."""
    player = Player(given)
    for at, op in enumerate(given.ops):
        if op.do == "again":
            continue_as_new(Trade(given.tenant, given.ops[at + 1 :], tuple(player.relied)))
        await player.play(op)
    return player.relied


class Player:
    """One body."""

    def __init__(self, given: Trade) -> None:
        self.tenant = given.tenant
        self.relied = list(given.relied)

    async def play(self, op: Op) -> None:
        match op.do:
            case "pay" | "hire" | "buy" | "tip":
                await self._act(op)
            case "gather":
                found = await asyncio.gather(*map(self.play, op.parts), return_exceptions=True)
                for each in found:
                    if isinstance(each, Exception):
                        raise each
            case "limit":
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(op.seconds):
                        await self._play_all(op)
            case "try":
                with contextlib.suppress(Exception):
                    await self._play_all(op)
            case "child":
                await trade(Trade(self.tenant, op.parts))
            case "sleep":
                await asyncio.sleep(op.seconds)
            case "word":
                if await receive("word", str) == "bad":
                    raise Unhappy("a bad word")
            case "keep":
                worlds[-1].perhaps_kept |= {(self.tenant, key) for key in self.relied}
                keep_done()
                await note_kept(list(self.relied))
            case "doubt":
                await doubt()
            case "fail":
                raise Unhappy("the program fails")
            case other:
                raise AssertionError(other)

    async def _play_all(self, op: Op) -> None:
        for part in op.parts:
            await self.play(part)

    async def _act(self, op: Op) -> None:
        order = ORDERS[int(random() * len(ORDERS))] if op.order == "?" else op.order
        if op.do == "tip":
            worlds[-1].final.add((self.tenant, f"pay:{order}"))
        self.relied.append(await ACTS[op.do](order))
