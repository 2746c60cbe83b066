"""The signals that earlier generations of a run were sent and have not received, as the next generation carries them.

Were they recorded again in each generation, a run that receives one of many in each would write their number squared.
So its start names them by what they are: they are kept beside the journal as blobs, and the next generation shares all
but a few of these.

- A tree (see ``cells.tree``) has a line for each name. Its root is in the start itself, with the number of all signals.
- A line is a queue: its full pieces, oldest first, then the signals after these. Of its first piece some may be taken.
- A piece of level 0 has up to 64 signals, one of a higher level 16 pieces of the level below.
- A short line is in the tree, any other is a blob. A large payload is a blob of its own, as everywhere.

Nothing is changed in place, and a blob lives as long as its run, so older generations stay readable. What is not at
hand is asked for by raising ``SignalsMissing``: a program does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple, TypeVar

import cbor2
import msgspec

from holdfast.cells import tree
from holdfast.cells.nodes import name_of, parse
from holdfast.errors import StoreCorrupt
from holdfast.journal.blobs import THRESHOLD_BYTES
from holdfast.journal.cbor import canonical
from holdfast.journal.codec import PayloadField, read_payload
from holdfast.journal.payload import CBOR, SIGNALS, Payload

PIECE_SIGNALS: Final = 64
PIECE_BYTES: Final = 16 * 1024
PIECES: Final = 16
"""How many pieces of one level become one of the next."""

SHORT_BYTES: Final = 256
"""A line up to this size is written in the tree."""

READ_AT_ONCE: Final = 64
"""How many pieces are kept decoded."""

T = TypeVar("T")


class SignalsMissing(Exception):
    """A blob of the carried signals is needed and was not loaded. Load it, and take the turn again."""

    def __init__(self, blob: bytes) -> None:
        super().__init__(f"blob {blob.hex()[:12]}… of the carried signals is not loaded")
        self.blob = blob


class Piece(NamedTuple):
    """A part of a line: its blob, how many signals it has, and its level."""

    blob: bytes
    size: int
    level: int


class _Entry(NamedTuple):
    """What the tree has of a name: its number of signals, how many are taken of its line, and that line or its blob."""

    name: str
    size: int
    taken: int
    line: bytes | tuple[list[Piece], list[PayloadField]]


class _LineNode(msgspec.Struct, array_like=True, tag=2):  # the tree's own nodes are tagged 0 and 1
    pieces: list[Piece]
    latest: list[PayloadField]


class _PiecesNode(msgspec.Struct, array_like=True, tag=3):
    pieces: list[Piece]


class _SignalsNode(msgspec.Struct, array_like=True, tag=4):
    signals: list[PayloadField]


class _Carried(msgspec.Struct, array_like=True):
    size: int
    root: bytes


class Line(NamedTuple):
    """The queue of one name, and the blob that it is as long as only its ``taken`` changes."""

    taken: int = 0
    pieces: Sequence[Piece] = ()
    latest: Sequence[PayloadField] = ()
    blob: bytes | None = None


class CarriedSignals:
    """What a start carries. ``nodes`` are the blobs at hand; for others SignalsMissing is raised."""

    __slots__ = ("_entries", "_lines", "_pieces", "_root", "_signals", "nodes", "root", "size")

    def __init__(self, payload: Payload, nodes: dict[bytes, bytes]) -> None:
        self.nodes = nodes
        self.size, self._root = size_and_root(payload)
        self.root = name_of(self._root)
        self._entries: dict[str, _Entry | None] = {}
        self._lines: dict[str, Line] = {}
        self._pieces: dict[bytes, list[Piece]] = {}
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
        line = self.line(name)
        pieces, at = line.pieces, line.taken + number - 1
        piece, at = _find(pieces, at)
        while piece is not None and piece.level:
            piece, at = _find(self._pieces_of(piece), at)
        signals = line.latest if piece is None else self._signals_of(piece)
        if not 0 <= at < len(signals):
            raise _damaged(f"number {number} of {name!r} is not there")
        field = signals[at]
        if isinstance(field, bytes) or field[2] is None:
            return read_payload(field)
        return Payload(self.load(field[2]), field[0])

    def line(self, name: str) -> Line:
        """The queue of a name; an empty one where there is none."""
        if (line := self._lines.get(name)) is None:
            entry = self._entry(name)
            line = self._lines[name] = Line() if entry is None else self._line(entry)
        return line

    def signals(self) -> Iterator[tuple[str, int, Payload]]:
        """All of them, with their names and numbers. Reads everything."""
        entries = [_read(data, _Entry) for _, data in tree.entries(self.root, self.load)]
        for entry in sorted(entries, key=lambda each: each.name):
            for number in range(1, entry.size + 1):
                yield entry.name, number, self.payload_of(entry.name, number)

    def check(self) -> None:
        """Read all, and compare each count with what it counts. Raises StoreCorrupt."""
        total = 0
        for path, data in tree.entries(self.root, self.load):
            entry = _read(data, _Entry)
            line = self._line(entry)
            counted = sum(map(self._counted, line.pieces)) + len(line.latest) - line.taken
            if path != tree.key_hash(entry.name.encode()) or counted != entry.size or counted < 1 or line.taken < 0:
                raise _damaged(f"there are not as many of {entry.name!r} as is said")
            total += counted
        if total != self.size:
            raise _damaged("there are not as many as is said")

    def _counted(self, piece: Piece) -> int:
        below = sum(map(self._counted, self._pieces_of(piece))) if piece.level else len(self._signals_of(piece))
        if below != piece.size:
            raise _damaged("a piece of them is not as long as is said")
        return below

    def _entry(self, name: str) -> _Entry | None:
        if name not in self._entries:
            found = tree.get(self.root, tree.key_hash(name.encode()), self.load)
            self._entries[name] = None if found is None else _read(found, _Entry)
        return self._entries[name]

    def _line(self, entry: _Entry) -> Line:
        if not isinstance(entry.line, bytes):
            return Line(entry.taken, *entry.line)
        node = _read(self.load(entry.line), _LineNode)
        return Line(entry.taken, node.pieces, node.latest, entry.line)

    def _pieces_of(self, piece: Piece) -> list[Piece]:
        found = self._pieces.get(piece.blob)
        if found is None:
            found = _read(self.load(piece.blob), _PiecesNode).pieces
            _remember(self._pieces, piece.blob, found)
        if any(each.level != piece.level - 1 for each in found):
            raise _damaged("a piece of them is of another level than is said")
        return found

    def _signals_of(self, piece: Piece) -> list[PayloadField]:
        found = self._signals.get(piece.blob)
        if found is None:
            found = _read(self.load(piece.blob), _SignalsNode).signals
            _remember(self._signals, piece.blob, found)
        return found


def size_and_root(payload: Payload) -> tuple[int, bytes]:
    """How many signals a start carries, and the root of their tree. Raises StoreCorrupt."""
    if payload.codec != SIGNALS:
        raise _damaged("they are in a form that a newer Holdfast wrote")
    carried = _read(payload.data, _Carried)
    return carried.size, carried.root


def _find(pieces: Iterable[Piece], at: int) -> tuple[Piece | None, int]:
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


def _read(data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.convert(cbor2.loads(data), kind)
    except (cbor2.CBORError, msgspec.ValidationError, ValueError, TypeError) as error:
        raise _damaged(f"they cannot be read ({error})") from error


def _damaged(why: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"the signals that a run carries from earlier generations are damaged: {why}. Restore the database from a "
        "backup."
    )


# -- the next generation's ---------------------------------------------------------------------------------------------


class Carried(NamedTuple):
    """What a start carries; None where nothing is left. ``blobs`` are those that are new with it."""

    payload: Payload | None
    blobs: dict[bytes, bytes]


def carry(before: CarriedSignals | None, taken: Mapping[str, int], added: Iterable[tuple[str, Payload]]) -> Carried:
    """What the next generation carries: the signals of ``before`` without those that were ``taken`` (how many of each
    name), and then the ``added`` ones, in order.

    It costs as much as was taken and added, not as much as is carried. Raises SignalsMissing.
    """
    writer = _Writer(before)
    lines: dict[str, tuple[int, Line]] = {}
    total = 0 if before is None else before.size
    for name, number in taken.items():
        count, line = writer.found(name)
        lines[name] = count - number, _without(line, number)
        total -= number
    for name, signals in groupby(sorted(added, key=itemgetter(0)), key=itemgetter(0)):  # each name's keep their order
        payloads = [payload for _, payload in signals]
        count, line = lines.get(name) or writer.found(name)
        lines[name] = count + len(payloads), writer.extended(line, payloads)
        total += len(payloads)
    if not total:
        return Carried(None, {})
    changes = {
        tree.key_hash(name.encode()): writer.entry(name, count, line) if count else None
        for name, (count, line) in lines.items()
    }
    return Carried(writer.root(changes, total), writer.blobs)


def _without(line: Line, number: int) -> Line:
    """The line after so many more were taken of it, without the pieces that are wholly taken."""
    taken, first = line.taken + number, 0
    while first < len(line.pieces) and taken >= line.pieces[first].size:
        taken -= line.pieces[first].size
        first += 1
    if first < len(line.pieces):
        return line._replace(taken=taken, pieces=line.pieces[first:], blob=None if first else line.blob)
    return Line(0, (), line.latest[taken:])


class _Writer:
    """Writes new blobs."""

    def __init__(self, before: CarriedSignals | None) -> None:
        self.blobs: dict[bytes, bytes] = {}
        self._before = before

    def found(self, name: str) -> tuple[int, Line]:
        """How many signals of this name there are, and their line."""
        return (0, Line()) if self._before is None else (self._before.count_of(name), self._before.line(name))

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

    def entry(self, name: str, count: int, line: Line) -> bytes:
        """What the tree has of a name."""
        body = (line.pieces, line.latest)
        if line.blob is None:
            short = canonical([name, count, line.taken, body])
            if len(short) <= SHORT_BYTES:
                return short
        return canonical([name, count, line.taken, line.blob or self._put([2, *body])])

    def extended(self, line: Line, payloads: Iterable[Payload]) -> Line:
        """The line with these signals after all others."""
        pieces, latest = [*line.pieces], [*line.latest]
        size = sum(map(_size, latest))
        for payload in payloads:
            latest.append(self._field(payload))
            size += _size(latest[-1])
            if len(latest) >= PIECE_SIGNALS or size >= PIECE_BYTES:
                pieces.append(Piece(self._put([4, latest]), len(latest), 0))
                latest, size = [], 0
                while len(pieces) >= PIECES and pieces[-PIECES].level == pieces[-1].level:
                    last = pieces[-PIECES:]
                    count = sum(piece.size for piece in last)
                    pieces[-PIECES:] = [Piece(self._put([3, last]), count, last[0].level + 1)]
        return Line(line.taken, pieces, latest)

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


# -- which blobs belong to it ------------------------------------------------------------------------------------------


class Below(NamedTuple):
    """The blobs that a node refers to: further nodes, and large payloads, which refer to nothing."""

    nodes: list[bytes]
    payloads: list[bytes]


def below(node: bytes) -> Below:
    """The blobs that a node refers to. Raises StoreCorrupt."""
    kind = node[1:2]  # of a list with less than 24 items; any longer one is a node of the tree
    if kind == b"\x02":
        line = _read(node, _LineNode)
        return Below([piece.blob for piece in line.pieces], _large(line.latest))
    if kind == b"\x03":
        return Below([piece.blob for piece in _read(node, _PiecesNode).pieces], [])
    if kind == b"\x04":
        return Below([], _large(_read(node, _SignalsNode).signals))
    try:
        found = parse(node)
    except ValueError as error:
        raise _damaged(str(error)) from error
    if isinstance(found, list):
        return Below([child.name for child in found if child is not None], [])
    every = Below([], [])
    for data in found.values():
        written = _read(data, _Entry).line
        if isinstance(written, bytes):
            every.nodes.append(written)
        else:
            every.nodes.extend(piece.blob for piece in written[0])
            every.payloads.extend(_large(written[1]))
    return every


def _large(fields: Iterable[PayloadField]) -> list[bytes]:
    return [field[2] for field in fields if not isinstance(field, bytes) and field[2] is not None]


def at_hand(payload: Payload, nodes: Mapping[bytes, bytes]) -> tuple[dict[bytes, bytes], Below]:
    """Of the blobs that belong to what a start carries, those that there are, and those that are not there of which
    these tell."""
    found: dict[bytes, bytes] = {}
    missing = Below([], [])
    seen: set[bytes] = set()
    waiting = [size_and_root(payload)[1]]
    while waiting:
        refers = below(waiting.pop())
        for blobs, lacking in zip(refers, missing, strict=True):
            for blob in blobs:
                if blob in seen:
                    continue
                seen.add(blob)
                if blob not in nodes:
                    lacking.append(blob)
                    continue
                found[blob] = nodes[blob]
                if lacking is missing.nodes:
                    waiting.append(nodes[blob])
    return found, missing
