"""One cell, for whoever looks at it, and for whoever lets it go on."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
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
from holdfast.errors import CellMoving, CellNotFound, CellNotParked, InvalidRequest
from holdfast.lanes.counts import LaneCounts, lane_line
from holdfast.programs.machine.lanes.envelopes import Release
from holdfast.programs.machine.lanes.held_events import parking_cause
from holdfast.programs.machine.machine import Machine
from holdfast.runs.lanes import LaneMessage, lane_id, lane_of, place_of
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast
    from holdfast.client.machines.proofs import CellProofFile

S = TypeVar("S")

_LOOK_SECONDS: Final = 0.05
_MOVING_SECONDS: Final = 10.0
"""So long a cell is waited for that is between two lanes."""
TRACE_ITEMS: Final = 500
LANE_ENTRIES: Final = 1 << 40
"""The journal of a lane has fewer entries."""
MOST_READ: Final = 100_000
"""So many entries of a lane's journal are read for one trace, from its end: a lane has the events of many cells."""


class EventPlace(msgspec.Struct, frozen=True):
    """Where an event stands: its position in the inbox of a lane; None where it was taken in before."""

    machine: str
    lane: int
    position: int | None


class CellFollower:
    """A place in the timeline of a cell: ``at`` is the next entry of its lane's journal; None means its present end.

    Where lanes were split, it is the entry plus ``LANE_ENTRIES`` for each lane that had the cell before.
    """

    def __init__(self, at: int | None) -> None:
        self.at = at
        self.lane: p.Key | None = None
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
        self._place = place_of(self._bytes)

    @property
    def lane_key(self) -> p.Key:
        """The run of the lane by which it is addressed: its lane, or one that was split since."""
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
        lanes has changed, and CellMoving where its lane is being split and nobody takes it in."""
        app, machine = self._app, self._machine
        counts = LaneCounts(app.store, app.clock, app.machine_kind.counted)
        await counts.check(self.lane_key.tenant, machine.name, machine.lanes)
        if after is not None:
            await self._reached(after)
        _, record = await self._kept()
        while after is not None and record is not None and record.is_catching_up:
            await asyncio.sleep(_LOOK_SECONDS)
            _, record = await self._kept()
        return record

    @operation("machines.see")
    async def show(self) -> CellInfo[S]:
        """The cell with its state, status, open effects and timers. Raises CellNotFound."""
        run, record = await self._located()
        if record is None or run is None:
            raise self._missing()
        return cell_info(self._machine, run.key.tenant, run.key.run, run.root, record)

    @operation("machines.see")
    async def trace(self, *, limit: int = TRACE_ITEMS, most_read: int = MOST_READ) -> CellTrace:
        """Its timeline: what it heard, asked for, got and emitted. The last ``limit`` items, oldest first.

        It is read off the last ``most_read`` entries of its lane's journal, and of each lane that had it before.
        Secrets are masked. A cell that was deleted has a timeline, too.
        """
        lane, first, record = self.lane_key, 0, await self.record()
        items: deque[TraceItem] = deque(maxlen=check_limit(limit))
        for run in await self._line():
            lane, first = run.key, max(0, run.version - check_limit(most_read))
            mask = await mask_of(self._app.store, run)
            reader = TraceReader(self._bytes, run.root, record, mask)
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
        line = await self._line()
        if not line:
            place.at = 0 if place.at is None else place.at  # all that comes is new
            return []
        if place.at is None:
            lane, _ = await self._kept()
            number = next((number for number, run in enumerate(line) if run.key == lane), len(line) - 1)
            place.at = number * LANE_ENTRIES + line[number].version
        found: list[TraceItem] = []
        for number in range(min(place.at // LANE_ENTRIES, len(line) - 1), len(line)):
            await self._read_lane(place, number, line[number], found)
            if number + 1 < len(line) and not self._is_left(place, line[number + 1]):
                break
        return found

    async def _read_lane(self, place: CellFollower, number: int, run: p.Run, found: list[TraceItem]) -> None:
        """Read the timeline on in one lane of the line."""
        before = number * LANE_ENTRIES
        place.at = max(place.at or 0, before)
        if place.reader is None or place.mask is None or place.lane != run.key:
            place.lane = run.key
            place.mask = await mask_of(self._app.store, run)
            place.reader = TraceReader(self._bytes, run.root, await self.record(), place.mask)
        async for entry in masked_entries(self._app.store, run, place.at - before, place.mask):
            place.at = before + entry.sequence + 1
            found.extend(place.reader.read(entry))

    def _is_left(self, place: CellFollower, heir: p.Run) -> bool:
        """Whether the timeline goes on in the next lane."""
        return heir.split != p.INHERITS or (place.reader is not None and place.reader.has_moved)

    @operation("machines.see")
    async def diagnose(self) -> CellDiagnosis:
        """Why it does not move: each cause as a word, a sentence, and the command that would move it."""
        run, record = await self._located()
        trace, line = await self.trace(limit=50, most_read=20_000), await self._line()
        lane, now = self.lane_key if run is None else run.key, self._app.clock.now()
        limit, last = self._app.machine_kind.held_limit, trace.items
        it = Diagnosed(self._machine, self.key, self._bytes, lane, run, record, last, now, line, limit)
        causes = tuple([cause async for cause in causes_of(self._app.store, it)])
        status = "missing" if record is None else record.status
        return CellDiagnosis(machine=self._machine.name, key=self.key, status=status, causes=causes)

    @operation("machines.release")
    async def release(self, *, drop: bool = False, by: str | None = None, reason: str = "") -> None:
        """Let a parked cell go on: what is held for it is handled, the event that parked it first. With ``drop`` that
        one event is left out, for good.

        It is noted in the audit, in the same commit. Sent twice, it is done once. Raises CellNotFound, CellNotParked.
        """
        app, (run, record) = self._app, await self._located()
        if record is None or run is None:
            raise self._missing()
        lane = run.key
        if record.status != "parked":
            raise CellNotParked(f"{self!r} is {record.status}, not parked: there is nothing to release.")
        release = Release(self._bytes, drop, parking_cause(record))
        now = app.clock.now()
        message = LaneMessage(self._machine.name, self.lane, release.write(), app.token(), self._place)
        change = message.deliver(lane.tenant, now)
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

        await self.record()
        return await prove_cell(self._app, self._machine.name, (await self._kept())[0], self._bytes)

    @operation("machines.see")
    async def present_lane(self) -> p.Key:
        """The run of the lane that has it now, or would have it."""
        line = await self._line()
        return line[-1].key if line else self.lane_key

    async def _line(self) -> list[p.Run]:
        """The lanes that have had it, the present one last; none where no event came for them."""
        return await lane_line(self._app.store, self.lane_key, self._place)

    async def _located(self) -> tuple[p.Run | None, CellRecord | None]:
        """Its lane and its record, where there are these."""
        await self.record()
        lane, record = await self._kept()
        runs = await self._app.store.get([lane])
        return (runs[0] if runs else None), record

    async def _kept(self) -> tuple[p.Key, CellRecord | None]:
        """Its record, and the lane that has it, or would have it. Raises CellMoving."""
        until = self._app.clock.now() + round(_MOVING_SECONDS * 1e6)
        while True:
            if (record := await self._row(self.lane_key)) is not None:
                return self.lane_key, record
            line = await self._line()
            for run in line[1:]:
                if (record := await self._row(run.key)) is not None:
                    return run.key, record
            if len(line) < 2:
                return self.lane_key, None
            if not any(run.split == p.INHERITS for run in line) and _marks(line) == _marks(await self._line()):
                return line[-1].key, None
            if self._app.clock.now() >= until:
                where = f"{self!r} may be on its way into {line[-1].key.run}"
                raise CellMoving(f"{where}: start a worker, or resume the lanes of its machine that are paused.")
            await asyncio.sleep(_LOOK_SECONDS)

    async def _row(self, lane: p.Key) -> CellRecord | None:
        rows = await self._app.store.cells(lane, [self._bytes])
        return decode_cell(rows[0].record) if rows else None

    def _missing(self) -> CellNotFound:
        return CellNotFound(f"machine {self._machine.name} has no cell of key {self.key!r:.100}.")

    async def _reached(self, place: EventPlace) -> None:
        """Wait until the lane has handled that event."""
        if place.position is None:
            return
        lane = p.Key(self.lane_key.tenant, lane_id(self._machine.name, place.lane))
        while True:
            for run in await self._app.store.get([lane]):
                if run.consumed >= place.position and run.split != p.INHERITS:
                    return
            await asyncio.sleep(_LOOK_SECONDS)


def _marks(line: Sequence[p.Run]) -> list[tuple[p.Key, str | None]]:
    return [(run.key, run.split) for run in line]
