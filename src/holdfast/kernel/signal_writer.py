"""Writes what the next generation of a run carries of the signals that nobody received, see ``carried_signals``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from holdfast.cells import tree
from holdfast.cells.nodes import name_of, parse
from holdfast.journal.blobs import THRESHOLD_BYTES
from holdfast.journal.cbor import canonical
from holdfast.journal.codec import PayloadField
from holdfast.journal.payload import CBOR, SIGNALS, Payload
from holdfast.kernel.carried_signals import CarriedSignals, SignalQueue
from holdfast.kernel.signal_nodes import SignalPiece

PIECE_SIGNALS: Final = 64
PIECE_BYTES: Final = 16 * 1024
PIECES: Final = 16
"""How many pieces of one level become one of the next."""

SHORT_BYTES: Final = 256
"""A queue up to this size is written in the tree."""


class NextSignals(NamedTuple):
    """What a start carries; None where nothing is left. ``blobs`` are those that are new with it."""

    payload: Payload | None
    blobs: dict[bytes, bytes]


def carry(before: CarriedSignals | None, taken: Mapping[str, int], added: Iterable[tuple[str, Payload]]) -> NextSignals:
    """What the next generation carries: the signals of ``before`` without those that were ``taken`` (how many of each
    name), and then the ``added`` ones, in order.

    It costs as much as was taken and added, not as much as is carried. Raises SignalsMissing.
    """
    writer = _Writer(before)
    queues: dict[str, tuple[int, SignalQueue]] = {}
    total = 0 if before is None else before.size
    for name, number in taken.items():
        count, queue = writer.found(name)
        queues[name] = count - number, _without(queue, number)
        total -= number
    for name, signals in groupby(sorted(added, key=itemgetter(0)), key=itemgetter(0)):  # each name's keep their order
        payloads = [payload for _, payload in signals]
        count, queue = queues.get(name) or writer.found(name)
        queues[name] = count + len(payloads), writer.extended(queue, payloads)
        total += len(payloads)
    if not total:
        return NextSignals(None, {})
    changes = {
        tree.key_hash(name.encode()): writer.entry(name, count, queue) if count else None
        for name, (count, queue) in queues.items()
    }
    return NextSignals(writer.root(changes, total), writer.blobs)


def _without(queue: SignalQueue, number: int) -> SignalQueue:
    """The queue after so many more were taken of it, without the pieces that are wholly taken."""
    taken, first = queue.taken + number, 0
    while first < len(queue.pieces) and taken >= queue.pieces[first].size:
        taken -= queue.pieces[first].size
        first += 1
    if first < len(queue.pieces):
        return queue._replace(taken=taken, pieces=queue.pieces[first:], blob=None if first else queue.blob)
    return SignalQueue(0, (), queue.latest[taken:])


class _Writer:
    """Writes new blobs."""

    def __init__(self, before: CarriedSignals | None) -> None:
        self.blobs: dict[bytes, bytes] = {}
        self._before = before

    def found(self, name: str) -> tuple[int, SignalQueue]:
        """How many signals of this name there are, and their queue."""
        return (0, SignalQueue()) if self._before is None else (self._before.count_of(name), self._before.queue(name))

    def root(self, changes: Mapping[bytes, bytes | None], total: int) -> Payload:
        """The payload of a start with these changes of the tree."""
        before = self._before
        if before is None:
            applied = tree.apply(tree.EMPTY, changes, dict[bytes, bytes]().__getitem__)
        else:
            applied = tree.apply(before.root, changes, before.load)
        root = applied.nodes.pop(applied.root, None)
        if before is not None:
            if any(before.root in _children(node) for node in (*applied.nodes.values(), root or b"")):
                self.blobs[before.root] = before.load(before.root)  # a root is no blob
            root = root or before.load(applied.root)
        self.blobs |= applied.nodes
        return Payload(canonical([total, root]), SIGNALS)

    def entry(self, name: str, count: int, queue: SignalQueue) -> bytes:
        """What the tree has of a name."""
        body = (queue.pieces, queue.latest)
        if queue.blob is None:
            short = canonical([name, count, queue.taken, body])
            if len(short) <= SHORT_BYTES:
                return short
        return canonical([name, count, queue.taken, queue.blob or self._put([2, *body])])

    def extended(self, queue: SignalQueue, payloads: Iterable[Payload]) -> SignalQueue:
        """The queue with these signals after all others."""
        pieces, latest = [*queue.pieces], [*queue.latest]
        size = sum(map(_size, latest))
        for payload in payloads:
            latest.append(self._field(payload))
            size += _size(latest[-1])
            if len(latest) >= PIECE_SIGNALS or size >= PIECE_BYTES:
                pieces.append(SignalPiece(self._put([4, latest]), len(latest), 0))
                latest, size = [], 0
                while len(pieces) >= PIECES and pieces[-PIECES].level == pieces[-1].level:
                    last = pieces[-PIECES:]
                    count = sum(piece.size for piece in last)
                    pieces[-PIECES:] = [SignalPiece(self._put([3, last]), count, last[0].level + 1)]
        return SignalQueue(queue.taken, pieces, latest)

    def _field(self, payload: Payload) -> PayloadField:
        if len(payload.data) > THRESHOLD_BYTES:
            blob = name_of(payload.data)
            self.blobs[blob] = payload.data
            return payload.codec, b"", blob
        return payload.data if payload.codec == CBOR else (payload.codec, payload.data, None)

    def _put(self, node: list[object]) -> bytes:
        data = canonical(node)
        blob = name_of(data)
        self.blobs[blob] = data
        return blob


def _size(field: PayloadField) -> int:
    return len(field) if isinstance(field, bytes) else len(field[1]) + 64


def _children(node: bytes) -> set[bytes]:
    found = parse(node) if node else {}
    return set() if isinstance(found, dict) else {child.name for child in found if child is not None}
