"""The workflow function that plays any program. It gives the business keys of the acts that it relies on, sorted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

import msgspec

from holdfast import receive, workflow
from tests.laws.twins.grow import Op
from tests.laws.twins.world import ACTS, doubt, mark


class Start(msgspec.Struct, frozen=True):
    """A program, and the run that marks name."""

    run: str
    ops: tuple[Op, ...]


class Unhappy(Exception):
    """The program fails."""


@workflow(name="twins.function")
async def function(start: Start) -> list[str]:
    player = Player(start.run)
    await player.play_all(start.ops)
    return sorted(player.relied)


class Player:
    """One body."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.relied: list[str] = []

    async def play_all(self, ops: tuple[Op, ...]) -> None:
        for op in ops:
            await self.play(op)

    async def play(self, op: Op) -> None:
        match op.do:
            case "gather":
                rows = [Player(self.run) for _ in op.parts]
                await _together([each.play_all(row.parts) for each, row in zip(rows, op.parts, strict=True)])
                self.relied += [key for each in rows for key in each.relied]
            case "limit":
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(op.seconds):
                        await self.play_all(op.parts)
            case "race":
                tasks = [asyncio.ensure_future(ACTS[part.do](part.at, part.order, part.seconds)) for part in op.parts]
                won = await _first(tasks)
                self.relied.append(won)
            case "try":
                with contextlib.suppress(Exception):
                    await self.play_all(op.parts)
            case "child":
                await function(Start(self.run, op.parts))
            case "sleep":
                await asyncio.sleep(op.seconds)
            case "word":
                if await receive("word", str) == "bad":
                    raise Unhappy("a bad word")
            case "doubt":
                await doubt(op.at, op.seconds)
            case "mark":
                await mark(self.run, op.at)
            case "fail":
                raise Unhappy("the program fails")
            case _:
                self.relied.append(await ACTS[op.do](op.at, op.order, op.seconds))


async def _together(parts: list[Coroutine[Any, Any, None]]) -> None:
    """All of them; one that fails cancels the others."""
    try:
        async with asyncio.TaskGroup() as group:
            for part in parts:
                group.create_task(part)
    except ExceptionGroup as several:
        raise several.exceptions[0] from None


async def _first(tasks: list[asyncio.Future[str]]) -> str:
    """The first that succeeds; the others are cancelled. Fails if all fail."""
    left = {*tasks}
    try:
        while True:
            done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            won = [task for task in tasks if task in done and task.exception() is None]
            if won or not left:
                return won[0].result() if won else done.pop().result()
    finally:
        for task in left:
            task.cancel()
