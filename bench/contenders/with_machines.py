"""Holdfast with a machine: W8's events for keys, each counted in the state of its cell."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import workloads

from holdfast import Cell, Holdfast, machine, tune_process


@dataclass
class Counted:
    key: str
    amount: int


@dataclass
class Count:
    total: int = 0
    events: int = 0


@machine(key="key", name="bench.counter")
def counter(state: Count | None, event: Counted, _cell: Cell) -> Count | None:
    now = state or Count()
    return Count(now.total + event.amount, now.events + 1)


class WithMachines:
    """One engine, and where the last event of each key is."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app
        self._last: dict[str, Any] = {}

    async def event(self, key: str, number: int) -> None:
        sent = await self._app.emit(Counted(key, number))
        self._last[key] = sent.places[0]

    async def handled(self, key: str) -> None:
        await self._app.cell(counter, key).state(after=self._last[key])


@asynccontextmanager
async def opened(parameters: dict[str, Any]) -> AsyncIterator[WithMachines]:
    async with Holdfast(parameters["url"]) as app:
        tune_process()
        yield WithMachines(app)


if __name__ == "__main__":
    workloads.main(opened)
