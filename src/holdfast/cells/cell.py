"""The record of a cell: all that is kept of one instance of a machine; and its entry in the index.

    status      means
    running     has unhandled events, or is being advanced
    waiting     waits for an event, a receipt or a timer
    completed   ended by its machine
    failed      ended by an error; ``reason`` says which
    parked      cannot go on until somebody mends ``reason``; its events are kept

The bytes are canonical CBOR, positional. Decoding is strict: what does not encode to itself is refused. A field that is
added comes last, with a new format number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final, Literal, TypeVar, get_args

import msgspec

from holdfast.errors import StoreCorrupt
from holdfast.journal import cbor

CellStatus = Literal["running", "waiting", "completed", "failed", "parked"]

TERMINAL: Final[frozenset[CellStatus]] = frozenset({"completed", "failed"})
"""The statuses in which a cell hears nothing more."""

STATUSES: Final[tuple[CellStatus, ...]] = get_args(CellStatus)
_REASONED: Final = frozenset({"failed", "parked"})
_FORMAT: Final = 1
_FORMAT_OF_HEIRS: Final = 2
"""A record with intents of other lanes."""
_AS_IS: Final = (bytes,)
DIGEST_BYTES: Final = 32


class CellIntent(msgspec.Struct, frozen=True, gc=False, order=True, array_like=True, forbid_unknown_fields=True):
    """An effect that a cell asked for and that is not settled: the position of its promise in the lane's journal, its
    name, its number among those that the cell asked for, and what the cell gave with it. ``origin`` is the root of the
    lane that asked for it, where the cell has been handed over by it since."""

    position: int
    effect: str
    sequence: int
    issuer: str | None = None
    origin: bytes | None = None


class CellTimer(msgspec.Struct, frozen=True, gc=False, order=True, array_like=True, forbid_unknown_fields=True):
    """An event that a cell sends itself at a time: in microseconds since 1970, UTC; its value is canonical CBOR."""

    wake_at: int
    sequence: int
    schema: str
    value: bytes


class CellRecord(msgspec.Struct, frozen=True, gc=False, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """A cell. ``state`` is canonical CBOR, or None before its first transition. Intents are in the order of their
    positions, those of other lanes first; timers in that of their times. Times are microseconds since 1970, UTC.
    ``asked`` counts the effects that it ever asked for; ``held`` is what came for it while it was parked."""

    key: bytes
    state: bytes | None = None
    status: CellStatus = "running"
    reason: str = ""
    intents: tuple[CellIntent, ...] = ()
    timers: tuple[CellTimer, ...] = ()
    last_sequence: int = 0
    last_active: int = 0
    machine_version: int = 1
    machine_hash: bytes = b""
    asked: int = 0
    held: tuple[bytes, ...] = ()

    @property
    def state_hash(self) -> bytes | None:
        """The SHA-256 of the state."""
        return None if self.state is None else hashlib.sha256(self.state).digest()

    @property
    def wake_at(self) -> int | None:
        """The time of the first timer."""
        return self.timers[0].wake_at if self.timers else None


def timers_in_order(timers: Iterable[CellTimer]) -> tuple[CellTimer, ...]:
    """Timers as a record keeps them: by time, those of one time in the order in which they were sent."""
    return tuple(sorted(timers, key=lambda timer: (timer.wake_at, timer.sequence)))


def without_timer(record: CellRecord, timer: CellTimer) -> tuple[CellTimer, ...]:
    """Its timers without this one. Of equal ones the others stay: a handler may send an event twice."""
    left = list(record.timers)
    if timer in left:
        left.remove(timer)
    return tuple(left)


class IndexEntry(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """What the index keeps of a cell: enough to list and to prove it without reading its record."""

    key: bytes
    state_hash: bytes | None
    size: int
    last_active: int
    record_hash: bytes


_FORMATS: Final = ([_FORMAT], [_FORMAT_OF_HEIRS])
_INTENTS: Final = CellRecord.__struct_fields__.index("intents")
_Record = TypeVar("_Record", CellRecord, IndexEntry)


def encode_cell(cell: CellRecord) -> bytes:
    """The record's bytes. Raises ValueError for one that breaks its own rules."""
    _require_lawful(cell)
    return _written(cell)


def decode_cell(data: bytes) -> CellRecord:
    """The record of these bytes. Raises StoreCorrupt for any that ``encode_cell`` would not write."""
    try:
        cell = _read(data, CellRecord)
        _require_lawful(cell)
    except ValueError as error:
        raise _unreadable("the record of a cell", data, error) from error
    return cell


def index_entry(cell: CellRecord, record: bytes) -> IndexEntry:
    """The entry of a cell whose record has these bytes; ``size`` is their number."""
    return IndexEntry(cell.key, cell.state_hash, len(record), cell.last_active, hashlib.sha256(record).digest())


def encode_entry(entry: IndexEntry) -> bytes:
    """The entry's bytes. Raises ValueError for one that breaks its own rules."""
    _require_indexed(entry)
    return _written(entry)


def decode_entry(data: bytes) -> IndexEntry:
    """The entry of these bytes. Raises StoreCorrupt for any that ``encode_entry`` would not write."""
    try:
        entry = _read(data, IndexEntry)
        _require_indexed(entry)
    except ValueError as error:
        raise _unreadable("the index entry of a cell", data, error) from error
    return entry


def shown_key(key: bytes) -> str:
    """A key for people: as the value that it is, else its bytes."""
    try:
        return f"{cbor.read(key)!r:.80}" if key else "(none)"
    except cbor.NotCanonical:
        return key.hex()


def _require_lawful(cell: CellRecord) -> None:
    if cell.intents:
        _require_intents(cell.intents)
    if len(cell.timers) > 1 and cell.timers != timers_in_order(cell.timers):
        raise ValueError("its timers are not in the order of their times")
    if cell.status not in STATUSES:
        raise ValueError(f"{cell.status!r} is no status of a cell")
    if bool(cell.reason) != (cell.status in _REASONED):
        raise ValueError(f"a cell that is {cell.status} has {'no' if cell.reason else 'a'} reason")
    if min(cell.last_sequence, cell.last_active, cell.machine_version) < 0:
        raise ValueError("sequences, times and versions are not negative")


def _require_intents(intents: tuple[CellIntent, ...]) -> None:
    if list(intents) != intents_in_order(intents) or len({_place(each) for each in intents}) < len(intents):
        raise ValueError("its intents are not in the order of their positions, each once")
    if min(intent.position for intent in intents) < 0:
        raise ValueError("positions are not negative")


def intents_in_order(intents: Iterable[CellIntent]) -> list[CellIntent]:
    """Intents as a record has them."""
    return sorted(intents, key=_place)


def _place(intent: CellIntent) -> tuple[bool, bytes, int]:
    return intent.origin is None, intent.origin or b"", intent.position


def _require_indexed(entry: IndexEntry) -> None:
    if min(entry.size, entry.last_active) < 0:
        raise ValueError("sizes and times are not negative")
    if any(len(digest) != DIGEST_BYTES for digest in (entry.state_hash, entry.record_hash) if digest is not None):
        raise ValueError(f"a hash has {DIGEST_BYTES} bytes")


def _written(record: CellRecord | IndexEntry) -> bytes:
    try:
        form = _form(record)
        if not isinstance(record, CellRecord) or not record.intents:
            return cbor.write([_FORMAT, *form])
        # An intent of the lane itself has no origin, as in records that were written before there was one.
        form[_INTENTS] = [each[:-1] if each[-1] is None else each for each in form[_INTENTS]]
        of_heirs = any(intent.origin is not None for intent in record.intents)
        return cbor.write([_FORMAT_OF_HEIRS if of_heirs else _FORMAT, *form])
    except cbor.Unfit as error:
        raise ValueError("it has a number over 64 bits, or a text that is no Unicode") from error


def _form(record: CellRecord | IndexEntry) -> list[Any]:
    """The fields of a record as plain data."""
    if isinstance(record, CellRecord) and (record.intents or record.timers):
        form: list[Any] = msgspec.to_builtins(record, builtin_types=_AS_IS)
        return form
    return list(msgspec.structs.astuple(record))


def _read(data: bytes, kind: type[_Record]) -> _Record:
    form = cbor.parse(data)
    if not isinstance(form, list) or form[:1] not in _FORMATS or type(form[0]) is not int:
        raise ValueError(f"it is not of format {_FORMAT} or {_FORMAT_OF_HEIRS}")
    record = msgspec.convert(form[1:], kind, builtin_types=_AS_IS)
    if _written(record) != data:
        raise ValueError("it is not in canonical form, or a field is missing")
    return record


def _unreadable(what: str, data: bytes, error: ValueError) -> StoreCorrupt:
    digest = hashlib.sha256(data).hexdigest()
    return StoreCorrupt(
        f"{what} (SHA-256 {digest}) cannot be read: {error}. It was damaged, or a newer Holdfast wrote it: restore it "
        "from a backup, or upgrade."
    )
