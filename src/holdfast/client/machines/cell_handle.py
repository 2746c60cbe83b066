"""One cell, for whoever looks at it, and for whoever lets it go on."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from holdfast.cells.cell import CellRecord, decode_cell
from holdfast.client.machines.diagnosis import Diagnosed, causes_of
from holdfast.client.machines.trace import TraceReader
from holdfast.client.operators import operator_note
from holdfast.client.pages import check_limit
from holdfast.client.people.permission import operation
from holdfast.client.views.cells import CellDiagnosis, CellInfo, CellTrace, TraceItem, cell_info, shown_key
from holdfast.client.views.mask import JournalMask, mask_of, masked_entries
from holdfast.errors import CellNotFound, CellNotParked, InvalidRequest
from holdfast.programs.machine.envelopes import Release
from holdfast.programs.machine.held_events import parking_cause
from holdfast.programs.machine.lane_counts import LaneCounts
from holdfast.programs.machine.machine import Machine
from holdfast.runs.lanes import LaneMessage, lane_id, lane_of
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast
    from holdfast.client.machines.proofs import CellProofFile

S = TypeVar("S")

_LOOK_SECONDS: Final = 0.05
TRACE_ITEMS: Final = 500
MOST_READ: Final = 100_000
"""So many entries of a lane's journal are read for one trace, from its end: a lane has the events of many cells."""


class EventPlace(msgspec.Struct, frozen=True):
    """Where an event stands: its position in the inbox of a lane; None where it was taken in before."""

    machine: str
    lane: int
    position: int | None


class CellFollower:
    """A place in the timeline of a cell: ``at`` is the next entry of its lane's journal; None means its present end."""

    def __init__(self, at: int | None) -> None:
        self.at = at
        self.reader: TraceReader | None = None
        self.mask: JournalMask | None = None


class CellHandle(Generic[S]):
    """The cell of one key. Reading it costs its worker nothing."""

    def __init__(self, app: Holdfast, machine: Machine[S], key: Any, tenant: str | None) -> None:
        self._app = app
        self._machine = machine
        if machine.is_keyed and key is None:
            raise InvalidRequest(f"the cells of machine {machine.name} have keys: give one")
        if not machine.is_keyed and key is not None:
            raise InvalidRequest(f"machine {machine.name} has one cell, and no keys: leave the key out")
        self.key = key
        self.tenant_asked = tenant
        self._bytes = b"" if machine.key_schema is None else machine.key_schema.encode(key)
        self.lane = lane_of(self._bytes, machine.lanes)

    @property
    def lane_key(self) -> p.Key:
        """The run of its lane."""
        return p.Key(self._app.tenant_of(self.tenant_asked), lane_id(self._machine.name, self.lane))

    def __repr__(self) -> str:
        return f"<cell {self.key!r} of machine {self._machine.name}>"

    @operation("machines.see")
    async def state(self, *, after: EventPlace | None = None) -> S | None:
        """Its state; None where it does not exist. With ``after`` it has seen that event."""
        record = await self.record(after=after)
        if record is None or record.state is None:
            return None
        return self._machine.read_state(record.state, record.machine_version)

    @operation("machines.see")
    async def record(self, *, after: EventPlace | None = None) -> CellRecord | None:
        """All that is kept of it; None where it does not exist. Raises InvalidFunction where its machine's number of
        lanes has changed."""
        app, machine = self._app, self._machine
        counts = LaneCounts(app.store, app.clock, app.machine_kind.counted)
        await counts.check(self.lane_key.tenant, machine.name, machine.lanes)
        if after is not None:
            await self._reached(after)
        rows = await self._app.store.cells(self.lane_key, [self._bytes])
        return decode_cell(rows[0].record) if rows else None

    @operation("machines.see")
    async def show(self) -> CellInfo[S]:
        """The cell with its state, status, open effects and timers. Raises CellNotFound."""
        lane, record = self.lane_key, await self.record()
        if record is None:
            raise self._missing()
        run = await self._run()
        return cell_info(self._machine, lane.tenant, lane.run, None if run is None else run.root, record)

    @operation("machines.see")
    async def trace(self, *, limit: int = TRACE_ITEMS, most_read: int = MOST_READ) -> CellTrace:
        """Its timeline: what it heard, asked for, got and emitted. The last ``limit`` items, oldest first.

        It is read off the last ``most_read`` entries of its lane's journal. Secrets are masked. A cell that was deleted
        has a timeline, too.
        """
        lane, run = self.lane_key, await self._run()
        items: deque[TraceItem] = deque(maxlen=check_limit(limit))
        first = 0 if run is None else max(0, run.version - check_limit(most_read))
        if run is not None:
            mask = await mask_of(self._app.store, run)
            reader = TraceReader(self._bytes, run.root, await self.record(), mask)
            async for entry in masked_entries(self._app.store, run, first, mask):
                items.extend(reader.read(entry))
        return CellTrace(machine=self._machine.name, key=self.key, lane=lane.run, first=first, items=list(items))

    @operation("machines.see")
    async def tail(self, *, first: int | None = None) -> AsyncIterator[TraceItem]:
        """The items of its timeline as they come, from now on, or from that entry of its lane's journal on. Endless."""
        place = CellFollower(first)
        while True:
            for item in await self.read_on(place):
                yield item
            await self._app.changed(0.2)

    @operation("machines.see")
    async def read_on(self, place: CellFollower) -> list[TraceItem]:
        """What has come since the last call with this place. Secrets are masked."""
        run = await self._run()
        if run is None:
            place.at = 0 if place.at is None else place.at  # all that comes is new
            return []
        if place.reader is None or place.mask is None:
            place.at = run.version if place.at is None else place.at
            place.mask = await mask_of(self._app.store, run)
            place.reader = TraceReader(self._bytes, run.root, await self.record(), place.mask)
        found: list[TraceItem] = []
        async for entry in masked_entries(self._app.store, run, place.at or 0, place.mask):
            place.at = entry.sequence + 1
            found.extend(place.reader.read(entry))
        return found

    @operation("machines.see")
    async def diagnose(self) -> CellDiagnosis:
        """Why it does not move: each cause as a word, a sentence, and the command that would move it."""
        record, run, trace = await self.record(), await self._run(), await self.trace(limit=50, most_read=20_000)
        now = self._app.clock.now()
        it = Diagnosed(self._machine, self.key, self._bytes, self.lane_key, run, record, trace.items, now)
        causes = tuple([cause async for cause in causes_of(self._app.store, it)])
        status = "missing" if record is None else record.status
        return CellDiagnosis(machine=self._machine.name, key=self.key, status=status, causes=causes)

    @operation("machines.release")
    async def release(self, *, drop: bool = False, by: str | None = None, reason: str = "") -> None:
        """Let a parked cell go on: what is held for it is handled, the event that parked it first. With ``drop`` that
        one event is left out, for good.

        It is noted in the audit, in the same commit. Sent twice, it is done once. Raises CellNotFound, CellNotParked.
        """
        app, lane, record = self._app, self.lane_key, await self.record()
        if record is None:
            raise self._missing()
        if record.status != "parked":
            raise CellNotParked(f"{self!r} is {record.status}, not parked: there is nothing to release.")
        release = Release(self._bytes, drop, parking_cause(record))
        now = app.clock.now()
        change = LaneMessage(self._machine.name, self.lane, release.write(), app.token()).deliver(lane.tenant, now)
        details = {"machine": self._machine.name, **({} if self.key is None else {"key": shown_key(self.key)})}
        act = "drop_event" if drop else "release_cell"
        note = operator_note(app, lane.tenant, act, by, lane.run, reason, details)
        answer = await app.committer.commit(p.Operate(note, (*app.conditions(), change)))
        if not isinstance(answer, p.OperatedOn | p.Repeated):
            raise self._missing()
        app.wake_sealer()
        app.hint()
        app.delivered(lane)

    @operation("evidence.see")
    async def proof(self) -> CellProofFile:
        """A small file that proves which record it has, or that it does not exist: ``holdfast verify FILE`` checks it.

        A root of its lane is made for it where something was written since the last one, and sealed in the audit.
        Raises InvalidRequest where its lane never had a cell, and KeyLocked.
        """
        from holdfast.client.machines.proofs import prove_cell

        return await prove_cell(self._app, self._machine.name, self.lane_key, self._bytes)

    async def _run(self) -> p.Run | None:
        found = await self._app.store.get([self.lane_key])
        return found[0] if found else None

    def _missing(self) -> CellNotFound:
        return CellNotFound(f"machine {self._machine.name} has no cell of key {self.key!r:.100}.")

    async def _reached(self, place: EventPlace) -> None:
        """Wait until the lane has handled that event."""
        if place.position is None:
            return
        while True:
            run = await self._run()
            if run is not None and run.consumed >= place.position:
                return
            await asyncio.sleep(_LOOK_SECONDS)
