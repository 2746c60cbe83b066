"""The app whose machines the command line's tests look at."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast import Cell, machine
from holdfast.programs.machine.schemas import schema


@schema("tank/Poured@1")
@dataclass
class Poured:
    tank: int
    litres: int


@schema("tank/Tank@1")
@dataclass
class Tank:
    litres: int
    label: str = "water"


@schema("tank/Full@1")
@dataclass
class Full:
    """Nobody hears it."""

    tank: int


@machine(key="tank", emits=[Full], name="cli_tank", lanes=2)
def tank(state: Tank | None, event: Poured, cell: Cell) -> Tank | None:
    if event.litres < 0:
        raise ValueError("a tank cannot be emptied\nlike this")
    found = Tank((state.litres if state else 0) + event.litres)
    if found.litres > 100:
        cell.emit(Full(cell.key))
    return found
