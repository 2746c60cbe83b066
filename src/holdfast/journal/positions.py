"""Promises that are settled, kept as intervals of positions: what is over costs no memory of its own.

The children of one run have positions 0, 1, 2, …, and nearly all of them are settled sooner or later. So a set of them
is a few intervals, each with one bound for every position that is still open.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from holdfast.journal.promise import PromiseId


class Positions:
    """A set of promises that only grows. Those that are no children of ``root`` are kept one by one."""

    __slots__ = ("_ends", "_path", "_root", "_starts", "others")

    def __init__(self, root: PromiseId) -> None:
        self._root = root.root
        self._path = root.path
        self._starts: list[int] = []
        self._ends: list[int] = []  # the first position behind each interval
        self.others: set[PromiseId] = set()

    def take_in(self, intervals: Iterable[tuple[int, int]], others: Iterable[PromiseId] = ()) -> None:
        """Fill an empty set with what another one had. Raises ValueError where that is not as it was written."""
        last = -1
        for start, end in intervals:
            if not last < start < end:
                raise ValueError(f"the interval {start}..{end} is empty or not behind {last}")
            self._starts.append(start)
            self._ends.append(end)
            last = end
        self.others.update(others)

    def intervals(self) -> list[tuple[int, int]]:
        """The positions, as pairs of the first one and the first one behind, in order."""
        return list(zip(self._starts, self._ends, strict=True))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Positions):
            return NotImplemented
        return self.intervals() == other.intervals() and self.others == other.others

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __contains__(self, promise: PromiseId) -> bool:
        path = promise.path
        if path[:-1] != self._path or promise.root != self._root or not path:
            return promise in self.others
        index = bisect_right(self._starts, path[-1])
        return index > 0 and path[-1] < self._ends[index - 1]

    def add(self, promise: PromiseId) -> None:
        path = promise.path
        if path[:-1] != self._path or promise.root != self._root or not path:
            self.others.add(promise)
            return
        position = path[-1]
        starts, ends = self._starts, self._ends
        if ends and position == ends[-1]:  # nearly always
            ends[-1] += 1
            return
        index = bisect_right(starts, position)  # it belongs behind the interval before this
        if index and position < ends[index - 1]:
            return
        joins_last = index > 0 and ends[index - 1] == position
        joins_next = index < len(starts) and starts[index] == position + 1
        if joins_last and joins_next:
            ends[index - 1] = ends[index]
            del starts[index], ends[index]
        elif joins_last:
            ends[index - 1] += 1
        elif joins_next:
            starts[index] = position
        else:
            starts.insert(index, position)
            ends.insert(index, position + 1)
