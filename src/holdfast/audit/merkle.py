"""Merkle trees over digests: the hashes of the neighbouring subtrees prove that some leaves are in a tree.

The shape is that of RFC 9162 §2.1: of the n leaves under a node, the left child has as many as the greatest power of
two below n. The digests are the leaves themselves, and ``node = sha256(1 || left || right)``. An entry's digest is a
hash over text that never begins with that byte, so no leaf can be taken for a node.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

DIGEST_BYTES: Final = 32
MOST_LEAVES: Final = 2**32
"""Trees are far smaller. The limit is for a forged proof that claims more."""


def root(digests: bytes) -> bytes:
    """The root over digests, at least one, that are joined end to end."""
    return _rows(digests)[-1][0]


def proof(digests: bytes, shown: Collection[int]) -> list[bytes]:
    """The hashes that lead from some leaves to the root: those of the largest subtrees without them, left to right."""
    rows = _rows(digests)
    leaves = sorted(set(shown))
    hashes: list[bytes] = []

    def walk(row: int, at: int, low: int, high: int) -> None:
        if low == high:
            hashes.append(rows[row][at])
        elif row:
            split = bisect_left(leaves, 2 * at + 1 << row - 1, low, high)
            walk(row - 1, 2 * at, low, split)
            if 2 * at + 1 < len(rows[row - 1]):
                walk(row - 1, 2 * at + 1, split, high)

    walk(len(rows) - 1, 0, 0, len(leaves))
    return hashes


def root_of(count: int, shown: Mapping[int, bytes], hashes: Iterable[bytes]) -> bytes:
    """The root of a tree of ``count`` leaves, from some of them and the proof. Raises ValueError if they do not fit."""
    leaves = sorted(shown)
    if not 1 <= count <= MOST_LEAVES or (leaves and not 0 <= leaves[0] <= leaves[-1] < count):
        raise ValueError(f"there is no tree of {count} leaves, or it has no such leaf")
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


@lru_cache(maxsize=16)  # runs that end at about the same time have their entries in the same few trees
def _rows(digests: bytes) -> list[list[bytes]]:
    """All nodes, row by row, from the leaves to the root. A node without a sibling is in the next row unchanged."""
    row = [digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES)]
    rows = [row]
    while len(row) > 1:
        pairs = zip(row[::2], row[1::2], strict=False)
        row = [_node(left, right) for left, right in pairs] + row[len(row) & ~1 :]
        rows.append(row)
    return rows


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()
