"""One cell, for whoever looks at it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from holdfast.cells.cell import CellRecord, decode_cell
from holdfast.errors import InvalidRequest
from holdfast.programs.machine.lane_counts import LaneCounts
from holdfast.programs.machine.machine import Machine
from holdfast.runs.lanes import lane_id, lane_of
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast
    from holdfast.client.machines.proofs import CellProofFile

S = TypeVar("S")

_LOOK_SECONDS: Final = 0.05


class EventPlace(msgspec.Struct, frozen=True):
    """Where an event stands: its position in the inbox of a lane; None where it was taken in before."""

    machine: str
    lane: int
    position: int | None


class CellHandle(Generic[S]):
    """The cell of one key. Reading it costs its worker nothing."""

    def __init__(self, app: Holdfast, machine: Machine[S], key: Any, tenant: str) -> None:
        self._app = app
        self._machine = machine
        if machine.is_keyed and key is None:
            raise InvalidRequest(f"the cells of machine {machine.name} have keys: give one")
        self.key = key
        self._bytes = b"" if machine.key_schema is None else machine.key_schema.encode(key)
        self.lane = lane_of(self._bytes, machine.lanes)
        self._lane = p.Key(tenant, lane_id(machine.name, self.lane))

    async def state(self, *, after: EventPlace | None = None) -> S | None:
        """Its state; None where it does not exist. With ``after`` it has seen that event."""
        record = await self.record(after=after)
        if record is None or record.state is None:
            return None
        return self._machine.read_state(record.state, record.machine_version)

    async def record(self, *, after: EventPlace | None = None) -> CellRecord | None:
        """All that is kept of it; None where it does not exist. Raises InvalidFunction where its machine's number of
        lanes has changed."""
        app, machine = self._app, self._machine
        counts = LaneCounts(app.whole_store, app.clock, app.machine_kind.counted)
        await counts.check(self._lane.tenant, machine.name, machine.lanes)
        if after is not None:
            await self._reached(after)
        rows = await self._app.store.cells(self._lane, [self._bytes])
        return decode_cell(rows[0].record) if rows else None

    async def proof(self) -> CellProofFile:
        """A small file that proves which record it has, or that it does not exist: ``holdfast verify FILE`` checks it.

        A root of its lane is made for it where something was written since the last one, and sealed in the audit.
        Raises InvalidRequest where its lane never had a cell, and KeyLocked.
        """
        from holdfast.client.machines.proofs import prove_cell

        return await prove_cell(self._app, self._machine.name, self._lane, self._bytes)

    async def _reached(self, place: EventPlace) -> None:
        """Wait until the lane has handled that event."""
        if place.position is None:
            return
        while True:
            (run,) = await self._app.store.get([self._lane])
            if run.consumed >= place.position:
                return
            await asyncio.sleep(_LOOK_SECONDS)
