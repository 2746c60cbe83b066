"""Merkle trees over digests: a few leaves can be shown to be in a tree with the hashes of what stands beside them.

The shape is that of RFC 9162 §2.1: a node of n leaves has on its left as many as the greatest power of two below n. The
digests are the leaves themselves, and ``node = sha256(1 || left || right)``. An entry's digest is a hash over text that
never begins with that byte, so no leaf can pass for a node.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

DIGEST_BYTES: Final = 32
MOST_LEAVES: Final = 2**32
"""No tree is as large; a forged proof may say that one is."""


def root(digests: bytes) -> bytes:
    """The root over digests that stand end to end; at least one."""
    return _rows(digests)[-1][0]


def proof(digests: bytes, shown: Collection[int]) -> list[bytes]:
    """The hashes that lead from some of the leaves to the root: every largest subtree without one, left to right."""
    rows = _rows(digests)
    leaves = sorted(set(shown))
    found: list[bytes] = []

    def walk(row: int, at: int, low: int, high: int) -> None:
        if low == high:
            found.append(rows[row][at])
        elif row:
            split = bisect_left(leaves, 2 * at + 1 << row - 1, low, high)
            walk(row - 1, 2 * at, low, split)
            if 2 * at + 1 < len(rows[row - 1]):
                walk(row - 1, 2 * at + 1, split, high)

    walk(len(rows) - 1, 0, 0, len(leaves))
    return found


def root_of(count: int, shown: Mapping[int, bytes], hashes: Iterable[bytes]) -> bytes:
    """The root of a tree of ``count`` leaves, from some of them and the proof. Raises ValueError where none follows."""
    leaves = sorted(shown)
    if not 1 <= count <= MOST_LEAVES or (leaves and not 0 <= leaves[0] <= leaves[-1] < count):
        raise ValueError(f"a tree of {count} leaves cannot be, or has no such leaf")
    rest = iter(hashes)

    def walk(row: int, at: int, low: int, high: int) -> bytes:
        if low == high:
            return _next(rest)
        if not row:
            return shown[at]
        middle = 2 * at + 1 << row - 1
        split = bisect_left(leaves, middle, low, high)
        left = walk(row - 1, 2 * at, low, split)
        return left if middle >= count else _node(left, walk(row - 1, 2 * at + 1, split, high))

    found = walk((count - 1).bit_length(), 0, 0, len(leaves))
    if next(rest, None) is not None:
        raise ValueError("there are more hashes than lead to the root")
    return found


def _next(hashes: Iterator[bytes]) -> bytes:
    for found in hashes:
        return found
    raise ValueError("there are fewer hashes than lead to the root")


@lru_cache(maxsize=16)  # the runs that ended together have their entries in the same few trees
def _rows(digests: bytes) -> list[list[bytes]]:
    """All nodes, from the leaves to the root. A node without a sibling goes up as it is."""
    row = [digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES)]
    rows = [row]
    while len(row) > 1:
        pairs = zip(row[::2], row[1::2], strict=False)
        row = [_node(left, right) for left, right in pairs] + row[len(row) & ~1 :]
        rows.append(row)
    return rows


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()
