"""A driver of our own: a board in this process, which can lose, double and delay messages, hang, and be away."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from holdfast.wakeups.driver import Wakeups


class Board:
    """What the drivers of all processes share. ``messages`` are (channel, sender), as they were published."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, str]] = []
        self.ears: list[tuple[str, Callable[[str], None], asyncio.Future[None]]] = []
        self.under_way = 0
        self.most_under_way = 0
        self.seconds = 0.0
        self.refusal: Exception | None = None
        self.chance = random.Random(1)
        self.lost = self.doubled = self.late = 0.0

    def drop(self) -> None:
        """End every subscription."""
        for _, _, lost in self.ears:
            if not lost.done():
                lost.set_exception(ConnectionError("the board fell down"))

    def pass_on(self, channel: str, sender: str) -> None:
        for name, ear, _ in tuple(self.ears):
            copies = 0 if self.chance.random() < self.lost else 1 + (self.chance.random() < self.doubled)
            for _ in range(copies if name == channel else 0):
                delay = self.chance.uniform(0, 2) if self.chance.random() < self.late else 0.0
                asyncio.get_running_loop().call_later(delay, ear, sender)


class BoardWakeups(Wakeups):
    """One process's driver."""

    def __init__(self, board: Board) -> None:
        self._board = board

    async def publish(self, channel: str, sender: str) -> None:
        board = self._board
        board.under_way += 1
        board.most_under_way = max(board.most_under_way, board.under_way)
        try:
            await asyncio.sleep(board.seconds)
            if board.refusal is not None:
                raise board.refusal
            board.messages.append((channel, sender))
            board.pass_on(channel, sender)
        finally:
            board.under_way -= 1

    async def listen(self, channel: str, heard: Callable[[str], None]) -> None:
        if self._board.refusal is not None:
            raise self._board.refusal
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = (channel, heard, lost)
        self._board.ears.append(place)
        heard("")
        try:
            await lost
        finally:
            self._board.ears.remove(place)

    async def close(self) -> None:
        return None
