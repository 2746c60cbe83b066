"""Turns as sealed segments, and journals read from segments: the step between events and bytes, hashes and blobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from holdfast.errors import StoreCorrupt
from holdfast.journal import events as e
from holdfast.journal.blobs import THRESHOLD_BYTES, hydrate, offload
from holdfast.journal.codec import GENESIS, chain, decode_segment, encode_segment
from holdfast.journal.promise import PromiseId
from holdfast.store.protocol import Segment

Stamped = tuple[int, e.Event]


def seal(stamped: Sequence[Stamped], first: int, previous: bytes, blobs: dict[bytes, bytes]) -> Segment:
    """Write a turn's events as one segment, chained to the journal before it; large payloads go into ``blobs``."""
    at = stamped[-1][0]
    data = encode_segment(stamped, at)
    if len(data) > THRESHOLD_BYTES:
        data = encode_segment([(stamp, offload(event, blobs)) for stamp, event in stamped], at)
    return Segment(first, len(stamped), data, chain(previous, data), at)


def unseal(
    segments: Iterable[Segment],
    root: PromiseId,
    blobs: Mapping[bytes, bytes],
    *,
    first: int = 0,
    head: bytes = GENESIS,
) -> list[e.Entry]:
    """Read a journal: the whole, or the part after version ``first``, where its hash was ``head``.

    Raises StoreCorrupt where the chain or the sequence is broken.
    """
    entries: list[e.Entry] = []
    for segment in segments:
        head = verify(segment, head, first + len(entries))
        entries += decode_segment(segment.events, root, segment.first)
    if not blobs:
        return entries
    return [e.Entry(entry.sequence, entry.timestamp, hydrate(entry.event, blobs)) for entry in entries]


def verify(segment: Segment, previous: bytes, first: int) -> bytes:
    """Check one link of the chain and give its hash."""
    if segment.first != first:
        raise StoreCorrupt(
            f"the journal lacks the events from sequence {first} on: restore the database from a backup."
        )
    if chain(previous, segment.events) != segment.head:
        raise StoreCorrupt(
            f"the journal was altered: the segment at sequence {segment.first} does not match its hash. "
            "Restore the database from a backup."
        )
    return segment.head
