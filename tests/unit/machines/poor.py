"""Machines that do what machines must not."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from holdfast import Cell, Settled, machine, step
from holdfast.programs.machine.schemas import schema


@dataclass
@schema("poor/Told@1")
class Told:
    name: str
    what: str


@dataclass
@schema("poor/Ping@1")
class Ping:
    name: str


@dataclass
@schema("poor/Pinged@1")
class Pinged:
    count: int


@dataclass
@schema("poor/Later@1")
class Later:
    name: str
    what: str


@dataclass
@schema("poor/Done@1")
class Done:
    words: list[str] = field(default_factory=list)


@step(name="poor.look")
async def look(name: str) -> str:
    return name


def no_mend(what: str) -> None:
    """What a test changes to mend a handler."""
    if what not in mended:
        raise ValueError(f"broken by {what}")


mended: set[str] = set()


@machine(key="name", effects=[look], name="poor.cell", lanes=2)
def poor(state: Done | None, event: Told | Later | Settled, cell: Cell) -> Done | None:
    """It does what it is told."""
    now: Any = state or Done()
    match event:
        case Told(what="raise") | Later(what="raise"):
            no_mend("raise")
        case Told(what="look"):
            cell.do(look, cell.key)
        case Settled():
            no_mend("settled")
        case Told(what="later"):
            cell.send(Later(cell.key, "raise"), after=timedelta(seconds=10))
        case Told(what="sleep"):
            time.sleep(0.01)  # holdfast: ignore
        case Told(what="swallow"):
            try:
                time.sleep(0.01)  # holdfast: ignore
            except Exception:
                now.words.append("swallowed")
        case Told(what="spin"):
            until = time.monotonic() + 1.5  # holdfast: ignore
            while time.monotonic() < until:  # holdfast: ignore
                pass
        case Told(what="another type"):
            return {"words": []}  # type: ignore[return-value]  # on purpose
        case Told(what="wrong field"):
            return Done(words="abc")  # type: ignore[arg-type]  # on purpose
        case Told(what="mutate and raise"):
            now.words.append("mutated")
            event.what = "another"
            no_mend("mutate")
        case Told(what="undeclared"):
            cell.do(asyncio.sleep, 1)
        case Told(what="keep"):
            kept.append(cell)
        case Told(what="chance"):
            now.words += [str(cell.random.random()), str(cell.random.random()), str(cell.uuid()), str(cell.uuid())]
    if isinstance(event, Told):
        now.words.append(event.what)
    return now


kept: list[Cell] = []


@machine(key="name", emits=[Ping], name="poor.echo", lanes=2)
def echo(state: Pinged | None, event: Ping, cell: Cell) -> Pinged | None:
    """It emits to itself for ever."""
    cell.emit(event)
    return Pinged(1 if state is None else state.count + 1)
