"""The note of a lane's turn: the commit writes its cells, and delivers what they emit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import cbor2
import msgspec

from holdfast.errors import EngineError
from holdfast.journal.events import InvokeScheduled
from holdfast.kernel.requests import Carry
from holdfast.runs.kinds.kind import CallingRun, Errand, Kind, Shown
from holdfast.runs.lanes import LaneMessage, lane_start
from holdfast.store.protocol import CellChange, DeadLetter, HeldChange, MarkSplit, PutCells

CELLS: Final = "cells"


class Freight(msgspec.Struct, frozen=True, gc=False):
    """What the commit of a lane's turn carries along: its changed cells, what is held for them, and what they emit.

    The lanes that hear it are begun in the same commit, where they are not there yet: else it could be lost. With
    ``opens`` the lane has handled all that it inherited.
    """

    machine: str
    cells: tuple[CellChange, ...]
    emitted: tuple[LaneMessage, ...] = ()
    dead: tuple[DeadLetter, ...] = ()
    opens: bool = False
    held: tuple[HeldChange, ...] = ()


class CellsKind(Kind):
    """What a turn of a lane made of its cells. It is settled when it is recorded."""

    name: ClassVar[str] = CELLS

    def carry(self, run: CallingRun, request: Carry, now: int) -> Sequence[Errand]:
        freight = request.freight
        if not isinstance(freight, Freight):
            raise EngineError(f"a lane carries {freight!r:.60}")
        tenant = run.key.tenant
        written = PutCells(run.key, freight.machine, run.version, freight.cells, freight.dead, freight.held)
        lanes = dict.fromkeys((each.machine, each.lane) for each in freight.emitted if each.place is not None)
        births = [Errand(lane_start(tenant, machine, index, now)) for machine, index in lanes]
        letters = [Errand(each.deliver(tenant, now)) for each in freight.emitted]
        marks = [Errand(MarkSplit(run.key, None))] if freight.opens else []
        return [Errand(written), *marks, *births, *letters]

    def show(self, event: InvokeScheduled) -> Shown:
        cells, intents, _, failures, *_ = cbor2.loads(event.input.data)
        parts = [f"{len(cells)} cells"]
        parts += [f"{len(intents)} effects"] if intents else []
        parts += [f"{len(failures)} parked"] if failures else []
        return Shown(f"{event.function_name} ({self.name})", f"({', '.join(parts)})")
