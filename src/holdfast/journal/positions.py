"""Settled promises, kept as intervals of positions, so that one more costs no more memory.

The children of one run have positions 0, 1, 2, …, and nearly all of them are settled sooner or later. So a set of them
is a few intervals, each with one bound for every position that is still open.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from holdfast.journal.promise import PromiseId


class Positions:
    """A set of promises that only grows. Those that are no children of ``root`` are kept one by one."""

    __slots__ = ("_ends", "_length", "_path", "_root", "_starts", "latest", "others")

    def __init__(self, root: PromiseId) -> None:
        self._root = root.root
        self._path = root.path
        self._length = len(root.path) + 1  # of a child's path
        self._starts: list[int] = []
        self._ends: list[int] = []  # the first position after each interval
        self.others: set[PromiseId] = set()
        self.latest: PromiseId | None = None  # the one that was added last

    def take_in(self, intervals: Iterable[tuple[int, int]], others: Iterable[PromiseId] = ()) -> None:
        """Fill an empty set with the contents of another. Raises ValueError where the intervals are not in order."""
        last = -1
        for start, end in intervals:
            if not last < start < end:
                raise ValueError(f"the interval {start}..{end} is empty or not after {last}")
            self._starts.append(start)
            self._ends.append(end)
            last = end
        self.others.update(others)

    def intervals(self) -> list[tuple[int, int]]:
        """The positions as pairs, in order: the first of an interval, and the first after it."""
        return list(zip(self._starts, self._ends, strict=True))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Positions):
            return NotImplemented
        return self.intervals() == other.intervals() and self.others == other.others

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __contains__(self, promise: PromiseId) -> bool:
        path = promise.path
        if len(path) != self._length or promise.root != self._root or (self._path and path[:-1] != self._path):
            return promise in self.others
        position, ends = path[-1], self._ends
        if not ends or position >= ends[-1]:  # nearly always, and so is what the last interval has
            return False
        if position >= self._starts[-1]:
            return True
        index = bisect_right(self._starts, position)
        return index > 0 and position < ends[index - 1]

    def add(self, promise: PromiseId) -> None:
        self.latest = promise
        path = promise.path
        if len(path) != self._length or promise.root != self._root or (self._path and path[:-1] != self._path):
            self.others.add(promise)
            return
        position, ends = path[-1], self._ends
        if ends and position == ends[-1]:  # the usual case
            ends[-1] = position + 1
            return
        starts = self._starts
        index = bisect_right(starts, position)  # the interval before this index begins at or before it
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
