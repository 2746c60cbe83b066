"""The machine for tests that kill its workers: each event asks for a step, rings a timer and tells the next cell."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import timedelta

from holdfast import Cell, Holdfast, Ok, Settled, WorkerOptions, machine, step
from tests.acceptance.storm_app import note

KEYS = 8

# Workers are killed so often that a high number of crashes says nothing about the events.
app = Holdfast("sqlite:///storm.db", options=WorkerOptions(crash_limit=10_000), worker=False)


@dataclass
class StormTold:
    name: str
    id: int


@dataclass
class StormCopied:
    name: str
    id: int


@dataclass
class StormRung:
    name: str
    id: int


@dataclass
class StormPage:
    seen: list[int] = field(default_factory=list)
    copied: list[int] = field(default_factory=list)
    settled: list[int] = field(default_factory=list)
    rung: list[int] = field(default_factory=list)


@step(name="storm.write")
async def write(name: str, id: int) -> list[str]:
    note("begin")
    await asyncio.sleep(0.1 + id % 7 * 0.05)
    note("end")
    return [name, str(id)]


@machine(key="name", effects=[write], emits=[StormCopied], name="storm.page", lanes=4)
def page(state: StormPage | None, event: StormTold | StormCopied | StormRung | Settled, cell: Cell) -> StormPage | None:
    """Everything is written down, so that what was lost, doubled or misdelivered can be read off it."""
    now = state or StormPage()
    match event:
        case StormTold(id=id):
            cell.do(write, cell.key, id)
            cell.send(StormRung(cell.key, id), after=timedelta(milliseconds=50 + id % 5 * 60))
            cell.emit(StormCopied(f"k{(int(cell.key[1:]) + 1) % KEYS}", id))
            return replace(now, seen=[*now.seen, id])
        case StormCopied(id=id):
            return replace(now, copied=[*now.copied, id])
        case StormRung(id=id):
            return replace(now, rung=[*now.rung, id])
        case Settled(outcome=Ok([name, id])) if name == cell.key:
            return replace(now, settled=[*now.settled, int(id)])
    raise ValueError(f"it got {event!r}")
