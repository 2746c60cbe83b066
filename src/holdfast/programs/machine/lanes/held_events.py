"""What occurs to a cell, as its lane hands it over, and as it is held for a parked cell."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from typing import Final

import cbor2
import msgspec
from msgspec.structs import replace

from holdfast.cells.cell import (
    TERMINAL,
    CellIntent,
    CellRecord,
    CellTimer,
    HeldChain,
    intents_in_order,
    next_link,
)
from holdfast.errors import StoreCorrupt
from holdfast.journal.cbor import canonical
from holdfast.journal.payload import Err, Failure, Ok, Outcome, Payload
from holdfast.journal.promise import PromiseId
from holdfast.programs.machine.lanes.envelopes import (
    Adoption,
    Continuation,
    Envelope,
    HandOver,
    HeldPart,
    Release,
    read_envelope,
)

_RECEIPT: Final = "receipt"
_DUE: Final = "due"
_REPORTED: Final = "reported"


class ReceiptArrived(msgspec.Struct, frozen=True, gc=False):
    """An effect of a cell has ended."""

    promise: PromiseId
    outcome: Outcome


class ProgressArrived(msgspec.Struct, frozen=True, gc=False):
    """An effect of a cell has reported how far it is. ``details`` is canonical CBOR."""

    promise: PromiseId
    attempt: int
    details: bytes


class Due(msgspec.Struct, frozen=True, gc=False):
    """A cell's timer has come."""

    timer: CellTimer


Happening = Envelope | ReceiptArrived | ProgressArrived | Due
"""What a handler is called for."""

Occurrence = Happening | Release | Continuation | Adoption | HandOver | HeldPart


def parking_cause(record: CellRecord) -> bytes | None:
    """The hash of the event that parked a cell: the first that is held for it. A cell that was parked when it was
    forked, while it caught up, has the link in front of that event instead."""
    if record.chain is not None:
        return record.chain.cause or record.chain.base
    return event_hash(record.held[0]) if record.held else None


def event_hash(held: bytes) -> bytes:
    """The hash by which a release names the event that parked a cell."""
    return hashlib.sha256(held).digest()


def write_held(occurrence: Happening) -> bytes:
    """What is held for a parked cell, as it is kept."""
    match occurrence:
        case Envelope():
            return occurrence.write()
        case Due(timer=timer):
            return canonical([_DUE, timer.wake_at, timer.sequence, timer.schema, timer.value])
        case ProgressArrived(promise=promise, attempt=attempt, details=details):
            return canonical([_REPORTED, promise.root, promise.path[-1], attempt, details])
        case ReceiptArrived(promise=promise, outcome=Ok(value)):
            return canonical([_RECEIPT, promise.root, promise.path[-1], [value.data, value.codec], None])
        case ReceiptArrived(promise=promise, outcome=Err(failure)):
            return canonical([_RECEIPT, promise.root, promise.path[-1], None, failure.fields()])
        case _:
            raise TypeError(f"{occurrence!r:.60} is not held")


def read_held(held: bytes) -> Happening:
    """What is held for a parked cell. Raises StoreCorrupt."""
    tag, *fields = cbor2.loads(held)
    if tag == _DUE:
        return Due(CellTimer(*fields))
    if tag == _REPORTED:
        root, position, attempt, details = fields
        return ProgressArrived(PromiseId(root, (position,)), attempt, details)
    if tag == _RECEIPT:
        root, position, value, failure = fields
        outcome: Outcome = Ok(Payload(*value)) if value is not None else Err(Failure(*failure))
        return ReceiptArrived(PromiseId(root, (position,)), outcome)
    heard = read_envelope(held)
    if not isinstance(heard, Envelope):
        raise StoreCorrupt(f"a parked cell holds {heard!r:.60}: restore it from a backup.")
    return heard


def file(mailbox: deque[Occurrence], occurrence: Occurrence) -> None:
    """Put what came for a cell behind the rest. A report stands in front of the receipt of its effect, although a lane
    gets receipts before it has heard all that came with them."""
    if isinstance(occurrence, ProgressArrived):
        for at, each in enumerate(mailbox):
            if isinstance(each, ReceiptArrived) and each.promise == occurrence.promise:
                mailbox.insert(at, occurrence)
                return
    mailbox.append(occurrence)


def hold(held: tuple[bytes, ...], occurrence: Happening) -> tuple[bytes, ...]:
    """What is held in a cell's record, with one more. Of what an effect reports the newest is held, unless it is what
    parked the cell."""
    if isinstance(occurrence, ProgressArrived):
        held = (*held[:1], *(each for each in held[1:] if not _is_report_of(each, occurrence.promise)))
    return (*held, write_held(occurrence))


def chained(chain: HeldChain, occurrence: Happening, held: bytes) -> HeldChain:
    """A chain with one more event, which is to be the row of its end."""
    receipts = chain.receipts
    if isinstance(occurrence, ReceiptArrived):
        receipts = (*receipts, _place(occurrence.promise))
    return replace(
        chain,
        end=chain.end + 1,
        head=next_link(chain.head, held),
        cause=chain.cause if chain else event_hash(held),
        receipts=receipts,
    )


def reported(chain: HeldChain, report: ProgressArrived) -> HeldChain:
    """A chain with the newest that an effect reports. It has its place in the order, and is no row; an earlier one of
    its effect goes, unless that is what parked the cell."""
    kept = [
        each
        for each in chain.reports
        if event_hash(each[1]) == chain.cause or not _is_report_of(each[1], report.promise)
    ]
    return replace(chain, reports=(*kept, (chain.end, write_held(report))))


def next_held(chain: HeldChain, row: bytes | None) -> tuple[bytes, HeldChain | None, bool] | None:
    """The first event of a chain, the rest of the chain, if any, and whether the event is its first row, which is
    given; None where that is wanted and is not here."""
    if chain.reports and (chain.reports[0][0] <= chain.first or chain.first == chain.end):
        rest = replace(chain, reports=chain.reports[1:], cause=None)
        return chain.reports[0][1], rest or None, False
    if row is None:
        return None
    occurrence, receipts = read_held(row), chain.receipts
    if isinstance(occurrence, ReceiptArrived):
        receipts = tuple(each for each in receipts if each != _place(occurrence.promise))
    base = next_link(chain.base, row)
    rest = replace(chain, first=chain.first + 1, base=base, cause=None, receipts=receipts)
    return row, rest or None, True


def unchained(record: CellRecord, rows: Sequence[bytes]) -> CellRecord:
    """A cell that has in its record what is held for it, of which these are the rows."""
    held, chain = list[bytes](), record.chain
    waiting = list(rows)
    while chain is not None and (found := next_held(chain, waiting[0] if waiting else None)) is not None:
        event, chain, is_row = found
        del waiting[: int(is_row)]
        held.append(event)
    return replace(record, held=(*record.held, *held), chain=None)


def _place(promise: PromiseId) -> tuple[bytes, int]:
    return promise.root, promise.path[-1]


def _receipts(record: CellRecord) -> list[PromiseId]:
    """The effects of a cell whose receipts are held for it."""
    if record.chain is not None:
        return [PromiseId(root, (position,)) for root, position in record.chain.receipts]
    return [each.promise for held in record.held if isinstance(each := read_held(held), ReceiptArrived)]


def in_flight(record: CellRecord, root: bytes) -> list[CellIntent]:
    """The effects of a cell whose receipts have not come to it, in its lane of this root. One whose receipt is held for
    the parked cell has ended: the cell's release is all that is left of it."""
    if not record.intents or not record.held_count:
        return list(record.intents)
    came = set(_receipts(record))
    return [each for each in record.intents if PromiseId(each.origin or root, (each.position,)) not in came]


def received(record: CellRecord) -> list[CellIntent]:
    """The intents of a parked cell whose receipts are held for it, each with the root of the lane that asked for it: in
    whichever lane the cell is then, its receipts are known to be its own."""
    came = _receipts(record)
    origins = {each.origin for each in record.intents}
    found = []
    for promise in came:
        origin = promise.root if promise.root in origins else None
        found += [
            replace(each, origin=promise.root)
            for each in record.intents
            if (each.origin, each.position) == (origin, promise.path[-1])
        ]
    return intents_in_order(found)


def adopted_elsewhere(record: CellRecord, source: str, came: Sequence[CellIntent]) -> CellRecord:
    """A cell as it begins where no receipt of what it had asked for will come, but those that ``came`` already."""
    ended = {each.sequence for each in came}
    left = ", ".join(f"{each.effect} {each.sequence}" for each in record.intents if each.sequence not in ended)
    if left and record.status not in TERMINAL:
        reason = record.reason or f"forked from {source} while effects were open: {left}"
        record = replace(record, status="parked", reason=reason)
    return replace(record, intents=tuple(came))


def _is_report_of(held: bytes, promise: PromiseId) -> bool:
    tag, *fields = cbor2.loads(held)
    return bool(tag == _REPORTED and fields[:2] == [promise.root, promise.path[-1]])
