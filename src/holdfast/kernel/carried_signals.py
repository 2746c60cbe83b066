"""The signals that earlier generations of a run were sent and have not received, as the next generation carries them.

Were they recorded again in each generation, a run that receives one of many in each would write their number squared.
So its start names them by what they are: they are kept beside the journal as blobs, and the next generation shares all
but a few of these.

- A tree (see ``cells.tree``) has a queue for each name. Its root is in the start itself, with the number of signals.
- A queue has its full pieces, oldest first, then the signals after these. Of its first piece some may be taken.
- A piece of level 0 has up to 64 signals, one of a higher level 16 pieces of the level below.
- A short queue is in the tree, any other is a blob. A large payload is a blob of its own, as everywhere.

Nothing is changed in place, and a blob lives as long as its run, so older generations stay readable. What is not at
hand is asked for by raising ``SignalsMissing``: a program does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from holdfast.cells import tree
from holdfast.cells.nodes import name_of
from holdfast.journal.codec import PayloadField, read_payload
from holdfast.journal.payload import Payload
from holdfast.kernel.signal_nodes import (
    PiecesNode,
    QueueEntry,
    QueueNode,
    SignalPiece,
    SignalsNode,
    damaged,
    read_node,
    size_and_root,
)

READ_AT_ONCE: Final = 64
"""How many pieces are kept decoded."""

T = TypeVar("T")


class SignalsMissing(Exception):
    """A blob of the carried signals is needed and was not loaded. Load it, and take the turn again."""

    def __init__(self, blob: bytes) -> None:
        super().__init__(f"blob {blob.hex()[:12]}… of the carried signals is not loaded")
        self.blob = blob


class SignalQueue(NamedTuple):
    """The queue of one name, and the blob that it is as long as only its ``taken`` changes."""

    taken: int = 0
    pieces: Sequence[SignalPiece] = ()
    latest: Sequence[PayloadField] = ()
    blob: bytes | None = None


class CarriedSignals:
    """What a start carries. ``nodes`` are the blobs at hand; for others SignalsMissing is raised."""

    __slots__ = ("_entries", "_pieces", "_queues", "_root", "_signals", "nodes", "root", "size")

    def __init__(self, payload: Payload, nodes: dict[bytes, bytes]) -> None:
        self.nodes = nodes
        self.size, self._root = size_and_root(payload)
        self.root = name_of(self._root)
        self._entries: dict[str, QueueEntry | None] = {}
        self._queues: dict[str, SignalQueue] = {}
        self._pieces: dict[bytes, list[SignalPiece]] = {}
        self._signals: dict[bytes, list[PayloadField]] = {}

    def load(self, blob: bytes) -> bytes:
        """The bytes of a blob. Raises SignalsMissing."""
        if blob == self.root:
            return self._root
        found = self.nodes.get(blob)
        if found is None:
            raise SignalsMissing(blob)
        return found

    def count_of(self, name: str) -> int:
        """How many signals of this name are carried."""
        entry = self._entry(name)
        return 0 if entry is None else entry.size

    def payload_of(self, name: str, number: int) -> Payload:
        """The payload of a name's signal by its number: 1, 2, 3, … in the order in which they came."""
        queue = self.queue(name)
        pieces, at = queue.pieces, queue.taken + number - 1
        piece, at = _find(pieces, at)
        while piece is not None and piece.level:
            piece, at = _find(self._pieces_of(piece), at)
        signals = queue.latest if piece is None else self._signals_of(piece)
        if not 0 <= at < len(signals):
            raise damaged(f"number {number} of {name!r} is not there")
        field = signals[at]
        if isinstance(field, bytes) or field[2] is None:
            return read_payload(field)
        return Payload(self.load(field[2]), field[0])

    def queue(self, name: str) -> SignalQueue:
        """The queue of a name; an empty one where there is none."""
        if (queue := self._queues.get(name)) is None:
            entry = self._entry(name)
            queue = self._queues[name] = SignalQueue() if entry is None else self._queue(entry)
        return queue

    def signals(self) -> Iterator[tuple[str, int, Payload]]:
        """All of them, with their names and numbers. Reads everything."""
        entries = [read_node(data, QueueEntry) for _, data in tree.entries(self.root, self.load)]
        for entry in sorted(entries, key=lambda each: each.name):
            for number in range(1, entry.size + 1):
                yield entry.name, number, self.payload_of(entry.name, number)

    def check(self) -> None:
        """Read all, and compare each count with what it counts. Raises StoreCorrupt."""
        total = 0
        for path, data in tree.entries(self.root, self.load):
            entry = read_node(data, QueueEntry)
            queue = self._queue(entry)
            counted = sum(map(self._counted, queue.pieces)) + len(queue.latest) - queue.taken
            if path != tree.key_hash(entry.name.encode()) or counted != entry.size or counted < 1 or queue.taken < 0:
                raise damaged(f"there are not as many of {entry.name!r} as is said")
            total += counted
        if total != self.size:
            raise damaged("there are not as many as is said")

    def _counted(self, piece: SignalPiece) -> int:
        below = sum(map(self._counted, self._pieces_of(piece))) if piece.level else len(self._signals_of(piece))
        if below != piece.size:
            raise damaged("a piece of them is not as long as is said")
        return below

    def _entry(self, name: str) -> QueueEntry | None:
        if name not in self._entries:
            found = tree.get(self.root, tree.key_hash(name.encode()), self.load)
            self._entries[name] = None if found is None else read_node(found, QueueEntry)
        return self._entries[name]

    def _queue(self, entry: QueueEntry) -> SignalQueue:
        if not isinstance(entry.queue, bytes):
            return SignalQueue(entry.taken, *entry.queue)
        node = read_node(self.load(entry.queue), QueueNode)
        return SignalQueue(entry.taken, node.pieces, node.latest, entry.queue)

    def _pieces_of(self, piece: SignalPiece) -> list[SignalPiece]:
        found = self._pieces.get(piece.blob)
        if found is None:
            found = read_node(self.load(piece.blob), PiecesNode).pieces
            _remember(self._pieces, piece.blob, found)
        if any(each.level != piece.level - 1 for each in found):
            raise damaged("a piece of them is of another level than is said")
        return found

    def _signals_of(self, piece: SignalPiece) -> list[PayloadField]:
        found = self._signals.get(piece.blob)
        if found is None:
            found = read_node(self.load(piece.blob), SignalsNode).signals
            _remember(self._signals, piece.blob, found)
        return found


def _find(pieces: Iterable[SignalPiece], at: int) -> tuple[SignalPiece | None, int]:
    """The piece that has this place, and the place in it; without a piece, the place after all of them."""
    for piece in pieces:
        if at < piece.size:
            return piece, at
        at -= piece.size
    return None, at


def _remember(decoded: dict[bytes, list[T]], blob: bytes, found: list[T]) -> None:
    if len(decoded) >= READ_AT_ONCE:
        decoded.clear()
    decoded[blob] = found
