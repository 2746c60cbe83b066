"""Whether the code of a machine can go on with cells that other code of it has left."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.cells.cell import TERMINAL, CellRecord
from holdfast.programs.machine.machine import Machine


def undeclared(machine: str, effect: str) -> str:
    """Why a cell is parked by a receipt, and what to do."""
    return (
        f"machine {machine} no longer declares {effect}, and this is a receipt of it: start a worker with the code "
        "that declares it, or apply a manifest that does, then release the cell."
    )


def foreign_effect(machine: Machine[object], cells: Iterable[CellRecord | None]) -> str | None:
    """An effect that a cell waits for and the machine does not declare: it could not read the receipt."""
    for record in cells:
        if record is not None and record.intents and record.status not in TERMINAL:
            for intent in record.intents:
                if intent.effect not in machine.effects:
                    return intent.effect
    return None
