"""The note of a turn: what it made of which cells, as the lane's journal records it.

It has the key and the record's hash of every changed cell, to whom each effect of the turn belongs, and a hash of what
was emitted. A replay that runs the handlers compares it. A worker that takes a lane over reads it instead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import cbor2
import msgspec

from holdfast.errors import StoreCorrupt
from holdfast.journal.cbor import canonical
from holdfast.journal.payload import Payload
from holdfast.runs.lanes import LaneMessage


class CellNote(msgspec.Struct, frozen=True, gc=False):
    """One changed cell: its key, and the hash of its record; None where it was deleted."""

    key: bytes
    record_hash: bytes | None


class IntentNote(msgspec.Struct, frozen=True, gc=False):
    """One effect of the turn, in the order of the calls: whose it is."""

    key: bytes
    effect: str
    sequence: int


class TurnNote(msgspec.Struct, frozen=True, gc=False):
    """What a turn did. ``failures`` are the events that parked their cells, by number within the turn, with the reason
    and the key: a replay takes them from here and does not decide again. ``due`` are the cells whose timers had come.
    ``sent`` are the schemas of what the cells emitted, and ``annotations`` what they noted, both by key. ``moved`` are
    the cells that were handed over, and ``more`` is whether there are others to hand over. ``code`` is the code and the
    manifest by which the turn ran, where the turn before ran by others. ``rules`` are those by which it
    went, where earlier ones would have done something else. ``brought`` is how much of what is held for some cells was
    brought to the turn, by key."""

    cells: tuple[CellNote, ...]
    intents: tuple[IntentNote, ...]
    emitted: bytes | None = None
    failures: tuple[tuple[int, str, bytes], ...] = ()
    due: tuple[bytes, ...] = ()
    sent: tuple[tuple[bytes, str], ...] = ()
    annotations: tuple[tuple[bytes, bytes], ...] = ()
    moved: tuple[bytes, ...] = ()
    more: bool = False
    code: bytes | None = None
    rules: int = 0
    brought: tuple[tuple[bytes, int], ...] = ()

    def write(self) -> Payload:
        """The note as the journal has it."""
        cells = [[each.key, each.record_hash] for each in self.cells]
        intents = [[each.key, each.effect, each.sequence] for each in self.intents]
        failures = [list(each) for each in self.failures]
        told = [list(each) for each in self.sent], [list(each) for each in self.annotations]
        rest: list[object] = [self.code, self.rules] if self.rules else [] if self.code is None else [self.code]
        if self.brought:
            rest = [self.code, self.rules, [list(each) for each in self.brought]]
        if self.moved or self.more or rest:
            rest = [list(self.moved), self.more, *rest]
        return Payload(canonical([cells, intents, self.emitted, failures, list(self.due), *told, *rest]))


_LATER: Final[tuple[Any, ...]] = ((), False, None, 0, ())
"""The last fields of a note, where it is of a time before they were written, or has nothing to say in them."""


def read_note(payload: Payload) -> TurnNote:
    """The note in a journal. Raises StoreCorrupt."""
    try:
        cells, intents, emitted, failures, due, sent, annotations, *rest = cbor2.loads(payload.data)
        rest.extend(_LATER[len(rest) :])
        moved, more, code, rules, brought = rest
        return TurnNote(
            tuple(CellNote(*each) for each in cells),
            tuple(IntentNote(*each) for each in intents),
            emitted,
            tuple((number, reason, key) for number, reason, key in failures),
            tuple(due),
            tuple((key, schema) for key, schema in sent),
            tuple((key, data) for key, data in annotations),
            tuple(moved),
            more,
            code,
            rules,
            tuple((key, count) for key, count in brought),
        )
    except (cbor2.CBORError, ValueError, TypeError) as error:
        raise StoreCorrupt(f"a lane's journal has a note that cannot be read ({error}): restore it.") from error


def code_hash(machine: str, manifest: str) -> bytes:
    """Names the code of a machine, by its hash, and the manifest by which it ran."""
    return hashlib.sha256(canonical([machine, manifest])).digest()


def emitted_hash(emitted: Sequence[LaneMessage]) -> bytes | None:
    """The hash of what a turn emits: machine, lane and envelope of each; None where it emits nothing."""
    if not emitted:
        return None
    return hashlib.sha256(canonical([[each.machine, each.lane, each.envelope] for each in emitted])).digest()
