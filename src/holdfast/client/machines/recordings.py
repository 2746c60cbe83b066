"""Recordings: the journals and cells of a machine in one file, to be replayed against new code without any store.

The file is JSON: the lanes with their segments, the payloads that are kept beside them, and the cells as they stood. It
holds events and states as they are, so it is as secret as the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import msgspec

from holdfast.cells.cell import decode_cell
from holdfast.client.machines.blockers import cells_of, lanes_of
from holdfast.client.machines.shadow import shadow_of
from holdfast.errors import InvalidRequest
from holdfast.journal.blobs import references
from holdfast.journal.codec import decode_segment
from holdfast.journal.promise import PromiseId
from holdfast.programs.machine.kind import Machines
from holdfast.programs.machine.lanes.shadow_reports import ShadowReport
from holdfast.programs.machine.manifest_changes import MachineChange
from holdfast.store import protocol as p

_FORMAT: Final = "holdfast-recording/1"
_PAGE: Final = 500


class RecordedLane(msgspec.Struct, frozen=True):
    """A lane: what of its row a replay needs, and its journal."""

    run: str
    root: bytes
    generation: int
    version: int
    head: bytes
    segments: tuple[p.Segment, ...]
    tenant: str = ""

    @property
    def key(self) -> p.Key:
        return p.Key(self.tenant, self.run)


class RecordedCell(msgspec.Struct, frozen=True):
    """A cell as it stood: its lane, the version of the lane's journal in front of its last turn, and its record."""

    lane: str
    key: bytes
    version: int
    record: bytes


class MachineRecording(msgspec.Struct, frozen=True):
    """The file."""

    format: str
    machine: str
    at: int
    lanes: tuple[RecordedLane, ...]
    cells: tuple[RecordedCell, ...]
    blobs: dict[str, bytes] = {}


async def record_machine(store: p.Store, tenant: str, machine: str, now: int) -> bytes:
    """The recording of a machine. Raises InvalidRequest where none of its lanes has begun."""
    lanes: list[RecordedLane] = []
    blobs: dict[str, bytes] = {}
    for _, run in await lanes_of(store, tenant, machine):
        segments: list[p.Segment] = []
        while page := await store.segments(run.key, run.generation, _end(segments), _PAGE):
            segments += page
        for segment in segments:
            for entry in decode_segment(segment.events, PromiseId(run.root), segment.first):
                for digest in references(entry.event):
                    blobs[digest.hex()] = await store.blob(tenant, digest) or b""
        head = segments[-1].head if segments else run.head
        lanes.append(RecordedLane(run.key.run, run.root, run.generation, _end(segments), head, tuple(segments)))
    if not lanes:
        raise InvalidRequest(f"no lane of machine {machine!r} has begun in tenant {tenant!r}: nothing is recorded")
    cells = [
        RecordedCell(row.lane, row.key, row.version, row.record) async for row, _ in cells_of(store, tenant, machine)
    ]
    return msgspec.json.encode(MachineRecording(_FORMAT, machine, now, tuple(lanes), tuple(cells), blobs)) + b"\n"


def read_recording(data: bytes) -> MachineRecording:
    """The recording in a file. Raises InvalidRequest."""
    try:
        found = msgspec.json.decode(data, type=MachineRecording)
    except msgspec.MsgspecError as error:
        raise InvalidRequest(f"the file is no recording of a machine: {error}") from error
    if found.format != _FORMAT:
        raise InvalidRequest(f"the recording is of format {found.format!r:.60}, and this Holdfast reads {_FORMAT}")
    return found


async def replay_recording(recording: MachineRecording, kind: Machines) -> ShadowReport:
    """What the machines here make of a recording. Raises InvalidRequest where the machine is not here."""
    if recording.machine not in kind.machines:
        raise InvalidRequest(f"there is no machine {recording.machine!r} here: import the module that has it")
    store = cast("p.Store", _RecordedStore(recording))  # it has what a shadow run reads
    change = MachineChange(recording.machine, "changed")
    report = await shadow_of(store, "", kind.board.declared, [change], kind, recording.at)
    seen = tuple(msgspec.structs.replace(each, change="replayed") for each in report.machines)
    return msgspec.structs.replace(report, machines=seen)


class _RecordedStore:
    """What a shadow run reads of a store, from a recording."""

    def __init__(self, recording: MachineRecording) -> None:
        self._lanes = {lane.key: lane for lane in recording.lanes}
        self._blobs = recording.blobs
        self._cells = [_row(recording.machine, cell) for cell in recording.cells]

    async def get(self, keys: Sequence[p.Key]) -> list[Any]:
        return [self._lanes[key] for key in keys if key in self._lanes]

    async def segments(self, key: p.Key, generation: int, first: int, limit: int) -> list[p.Segment]:
        return [each for each in self._lanes[key].segments if each.first >= first][:limit]

    async def blob(self, tenant: str, digest: bytes) -> bytes | None:
        return self._blobs.get(digest.hex())

    async def find_cells(self, query: p.CellQuery, limit: int, after: p.CellCursor | None = None) -> list[p.CellRow]:
        rows = [row for row in self._cells if after is None or (row.lane, row.key) > after]
        return sorted(rows, key=lambda row: (row.lane, row.key))[:limit]


def _row(machine: str, cell: RecordedCell) -> p.CellRow:
    record = decode_cell(cell.record)
    return p.CellRow(
        "", cell.lane, cell.key, machine, cell.record, record.status, record.wake_at, record.last_active, cell.version
    )


def _end(segments: Sequence[p.Segment]) -> int:
    return segments[-1].first + segments[-1].count if segments else 0
