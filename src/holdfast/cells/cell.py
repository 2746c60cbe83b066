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
_FORMAT_OF_CHAINS: Final = 3
"""A record with a chain of what is held, which has rows of its own."""
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


class HeldChain(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """What is held for a cell, where each held event is a row of its own: their numbers, from ``first`` up to before
    ``end``, and two links. A link is the hash of the one before it and of an event, so ``head`` proves all events
    from ``base`` on, and one more costs the same however many there are.

    ``cause`` is the hash of the event that parked the cell. ``receipts`` are those among the rows, by root and
    position of the promise. ``reports`` are the newest that effects have reported, each with the number of the row in
    front of which it stands: newer ones replace them, so they are no rows.
    """

    first: int = 0
    end: int = 0
    base: bytes = bytes(DIGEST_BYTES)
    head: bytes = bytes(DIGEST_BYTES)
    cause: bytes | None = None
    receipts: tuple[tuple[bytes, int], ...] = ()
    reports: tuple[tuple[int, bytes], ...] = ()

    def __len__(self) -> int:
        return self.end - self.first + len(self.reports)

    def __bool__(self) -> bool:
        return len(self) > 0


def next_link(link: bytes, held: bytes) -> bytes:
    """The link behind this one, of a held event."""
    return hashlib.sha256(link + hashlib.sha256(held).digest()).digest()


class CellRecord(msgspec.Struct, frozen=True, gc=False, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """A cell. ``state`` is canonical CBOR, or None before its first transition. Intents are in the order of their
    positions, those of other lanes first; timers in that of their times. Times are microseconds since 1970, UTC.
    ``asked`` counts the effects that it ever asked for. What came for it while it was parked is its ``chain``; records
    of lanes that began by earlier rules have it in ``held``."""

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
    chain: HeldChain | None = None

    @property
    def held_count(self) -> int:
        """How much is held for it."""
        return len(self.held) + (0 if self.chain is None else len(self.chain))

    @property
    def is_catching_up(self) -> bool:
        """Whether it was released, and has not handled all that was held for it: what comes is held behind that."""
        return self.status != "parked" and self.held_count > 0

    @property
    def next_wake(self) -> int | None:
        """When it is to hear of its first timer: not while it is parked or catching up."""
        return None if self.status == "parked" or self.held_count else self.wake_at

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
    """What the index keeps of a cell: enough to list and to prove it without reading its record. What is held for a
    cell has entries, too, by keys that no cell has (``held_key``): they have no state, and the event is their record.
    """

    key: bytes
    state_hash: bytes | None
    size: int
    last_active: int
    record_hash: bytes


_FORMATS: Final = ([_FORMAT], [_FORMAT_OF_HEIRS], [_FORMAT_OF_CHAINS])
_INTENTS: Final = CellRecord.__struct_fields__.index("intents")
_CHAIN: Final = CellRecord.__struct_fields__.index("chain")
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


_HELD_SPACE: Final = b"\xff"
"""The first byte of the keys of held events in the index. Keys of cells are canonical CBOR, and never begin with it."""


def held_key(key: bytes, number: int) -> bytes:
    """The key, in the index, of an event that is held for a cell, by its number."""
    return _HELD_SPACE + cbor.write([key, number])


def held_place(key: bytes) -> tuple[bytes, int] | None:
    """Whose held event has this key in the index, and its number; None for the key of a cell."""
    if not key.startswith(_HELD_SPACE):
        return None
    of, number = msgspec.convert(cbor.read(key[1:]), tuple[bytes, int], builtin_types=_AS_IS)
    return of, number


def held_entry(key: bytes, number: int, held: bytes) -> IndexEntry:
    """The entry of an event that is held for a cell."""
    return IndexEntry(held_key(key, number), None, len(held), 0, hashlib.sha256(held).digest())


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
    if cell.chain is not None:
        _require_chain(cell.chain, cell.held)


def _require_chain(chain: HeldChain, held: tuple[bytes, ...]) -> None:
    if not chain or held:
        raise ValueError("what is held for it is in one place, and there is some")
    if not 0 <= chain.first <= chain.end or (chain.first == chain.end and chain.base != chain.head):
        raise ValueError("the numbers of what is held do not fit its links")
    if len(chain.base) != DIGEST_BYTES or len(chain.head) != DIGEST_BYTES:
        raise ValueError(f"a link has {DIGEST_BYTES} bytes")


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
        if not isinstance(record, CellRecord):
            return cbor.write([_FORMAT, *_form(record)])
        form = _form(record)
        if record.chain is not None:
            return cbor.write([_FORMAT_OF_CHAINS, *form])
        del form[_CHAIN]
        if not record.intents:
            return cbor.write([_FORMAT, *form])
        # An intent of the lane itself has no origin, as in records that were written before there was one.
        form[_INTENTS] = [each[:-1] if each[-1] is None else each for each in form[_INTENTS]]
        of_heirs = any(intent.origin is not None for intent in record.intents)
        return cbor.write([_FORMAT_OF_HEIRS if of_heirs else _FORMAT, *form])
    except cbor.Unfit as error:
        raise ValueError("it has a number over 64 bits, or a text that is no Unicode") from error


def _form(record: CellRecord | IndexEntry) -> list[Any]:
    """The fields of a record as plain data."""
    if isinstance(record, CellRecord) and (record.intents or record.timers or record.chain is not None):
        form: list[Any] = msgspec.to_builtins(record, builtin_types=_AS_IS)
        return form
    return list(msgspec.structs.astuple(record))


def _read(data: bytes, kind: type[_Record]) -> _Record:
    form = cbor.parse(data)
    if not isinstance(form, list) or form[:1] not in _FORMATS or type(form[0]) is not int:
        raise ValueError(f"it is of none of the formats {_FORMAT} to {_FORMAT_OF_CHAINS}")
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
