"""A golden journal as a file: the bytes as a store keeps them, their meaning, and a listing for people.

The file is JSON. ``segments`` hold the raw events (base64) and their hashes, ``blobs`` what was too large for a journal
(zlib, then base64), ``code`` the definition that a run pins, by its digest (base64).
"""

from __future__ import annotations

import base64
import random
import zlib
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.journal import events as e
from holdfast.journal.promise import PromiseId
from holdfast.journal.render import line
from holdfast.journal.status import Status
from holdfast.kernel.execution import Execution
from holdfast.kernel.program import Program
from holdfast.programs.definition.compiler.compiler import load
from holdfast.programs.definition.interpreter.program import DefinitionProgram
from holdfast.programs.definition.interpreter.routine import Routine
from holdfast.programs.function.decorators import WORKFLOWS
from holdfast.runs.segments import unseal
from holdfast.store.protocol import Segment
from tests.definitions import Tools

FOLDER: Final = Path(__file__).parent / "golden"


class GoldenSegment(msgspec.Struct, frozen=True):
    first: int
    count: int
    at: int
    head: str
    events: str

    @classmethod
    def of(cls, segment: Segment) -> GoldenSegment:
        events = base64.b64encode(segment.events).decode()
        return cls(segment.first, segment.count, segment.at, segment.head.hex(), events)

    def segment(self) -> Segment:
        return Segment(self.first, self.count, base64.b64decode(self.events), bytes.fromhex(self.head), self.at)


class Golden(msgspec.Struct, frozen=True):
    """One journal. ``end`` is its last event as a person reads it, ``result`` the value it completed with."""

    about: str
    run: str
    generation: int
    workflow: str
    root: str
    status: str
    end: str
    result: Any
    listing: list[str]
    segments: list[GoldenSegment]
    blobs: dict[str, str]
    code: dict[str, str] = {}

    def stored(self) -> list[Segment]:
        return [segment.segment() for segment in self.segments]

    def data(self) -> dict[bytes, bytes]:
        return {bytes.fromhex(digest): zlib.decompress(base64.b64decode(data)) for digest, data in self.blobs.items()}

    def entries(self) -> list[e.Entry]:
        """The journal, its chain verified."""
        return unseal(self.stored(), self.id(), self.data())

    def id(self) -> PromiseId:
        return PromiseId(bytes.fromhex(self.root))

    def rebuild(self) -> Execution:
        """The run rebuilt from its journal, at the time of its last event."""
        entries = self.entries()
        program = self._defined(entries[0]) if self.code else WORKFLOWS[self.workflow].program()
        return Execution.rebuild(self.id(), program, entries, entries[-1].timestamp, random.Random(0))

    def _defined(self, first: e.Entry) -> Program:
        assert isinstance(first.event, e.ExecutionStarted)
        digest = first.event.component_digest
        return DefinitionProgram(Routine(load(base64.b64decode(self.code[digest])), digest, Tools()))


def listing(entries: list[e.Entry]) -> list[str]:
    """The journal as a person reads it: times in seconds since its first event."""
    start = entries[0].timestamp
    return [f"{n.sequence:3d} {(n.timestamp - start) / 1e6:12.6f}  {line(n.event)}" for n in entries]


def status_name(status: Status) -> str:
    return type(status).__name__.lower()


def read(path: Path) -> Golden:
    return msgspec.json.decode(path.read_bytes(), type=Golden)


def all_of_them() -> dict[str, Golden]:
    return {path.stem: read(path) for path in sorted(FOLDER.glob("*.json"))}
