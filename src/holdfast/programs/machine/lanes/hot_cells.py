"""The hot cells: those that the lanes of a worker used last, kept in memory so that they need not be read again.

They are clean: a row is written in the commit of the turn that changed it, so an entry that is dropped is not lost but
read again. There is one cache for all lanes of all machines of a worker, bounded by the number of cells and by their
bytes; what was used longest ago leaves first. A cell that alone would take more than an eighth of the bytes is not kept
at all: it would cost many others their place. The cells of a turn under way are the lane's own and count for nothing
here.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from holdfast.cells.cell import CellRecord

CACHED_CELLS: Final = 4096
CACHED_CELL_BYTES: Final = 64 * 1024 * 1024

_LARGE: Final = 8
_OVERHEAD_BYTES: Final = 400
"""What an entry costs beside its bytes: the record, its small members, and its place here."""


class HotCells:
    """At most ``cells`` records of at most ``size_bytes`` in all. A lane is named by an object of its own."""

    def __init__(self, cells: int = CACHED_CELLS, size_bytes: int = CACHED_CELL_BYTES) -> None:
        self._most = cells
        self._most_bytes = size_bytes
        self._entries: OrderedDict[tuple[object, bytes], tuple[CellRecord | None, int]] = OrderedDict()
        self._lanes: dict[object, set[bytes]] = {}
        self._size_bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size_bytes(self) -> int:
        """How much memory the kept cells take, about."""
        return self._size_bytes

    def limit(self, cells: int, size_bytes: int) -> None:
        """Keep at most so much from now on."""
        self._most, self._most_bytes = cells, size_bytes
        self._shrink()

    def has(self, lane: object, key: bytes) -> bool:
        """Whether the cell is kept; a cell that does not exist may be kept as None."""
        return (lane, key) in self._entries

    def take(self, lane: object, key: bytes) -> CellRecord | None:
        """Take a kept cell out: the lane has it from now on, and puts it back when its turn is over."""
        record, size = self._entries.pop((lane, key))
        self._lanes[lane].discard(key)
        self._size_bytes -= size
        return record

    def put(self, lane: object, key: bytes, record: CellRecord | None) -> None:
        """Keep a cell as its row is, if there is room for one of its size."""
        if self.has(lane, key):
            self.take(lane, key)
        size = resident_bytes(key, record)
        if size > self._most_bytes // _LARGE:
            return
        self._entries[lane, key] = record, size
        self._lanes.setdefault(lane, set()).add(key)
        self._size_bytes += size
        self._shrink()

    def forget(self, lane: object) -> None:
        """Drop the cells of a lane: it is held by nobody here any more."""
        for key in self._lanes.pop(lane, ()):
            _, size = self._entries.pop((lane, key))
            self._size_bytes -= size

    def _shrink(self) -> None:
        while len(self._entries) > self._most or self._size_bytes > self._most_bytes:
            (lane, key), (_, size) = self._entries.popitem(last=False)
            self._lanes[lane].discard(key)
            self._size_bytes -= size


def resident_bytes(key: bytes, record: CellRecord | None) -> int:
    """How much memory a cell takes, about."""
    size = _OVERHEAD_BYTES + len(key)
    if record is None:
        return size
    size += len(record.state or b"") + len(record.reason) + len(record.intents) * _OVERHEAD_BYTES
    size += sum(_OVERHEAD_BYTES + len(timer.value) for timer in record.timers)
    if record.chain is not None:
        size += sum(_OVERHEAD_BYTES + len(report) for _, report in record.chain.reports)
        size += len(record.chain.receipts) * _OVERHEAD_BYTES
    return size + sum(map(len, record.held))
