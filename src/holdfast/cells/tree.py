"""A persistent tree from paths (the SHA-256 of keys) to entries, named by what it holds.

A root is a name. Nothing is changed in place: ``apply`` gives a new root and the nodes that are new with it, and an old
root stays readable for as long as its nodes are kept. Two trees with the same entries have the same root, whatever was
put in and taken out before; so a root can be compared, recorded and proved.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from holdfast.cells.nodes import (
    EMPTY,
    EMPTY_NODE,
    FAN_OUT,
    LEAF_ENTRIES,
    PATH_BYTES,
    Branch,
    Child,
    Leaf,
    Load,
    name_of,
    nibble_at,
    parse,
    read_node,
    size_of,
    write_branch,
    write_leaf,
)

__all__ = [
    "EMPTY",
    "EMPTY_NODE",
    "LEAF_ENTRIES",
    "Applied",
    "Child",
    "EntryDifference",
    "Load",
    "Touched",
    "apply",
    "children",
    "diff",
    "entries",
    "get",
    "key_hash",
    "reachable",
    "restrict",
    "size",
    "walk",
]

_NO_CHILD = Child(EMPTY, 0)


class Applied(NamedTuple):
    """What came of a change: the root, the nodes that must be kept for it and were not there before, and how many
    entries it has."""

    root: bytes
    nodes: dict[bytes, bytes]
    size: int


class EntryDifference(NamedTuple):
    """An entry that differs between two trees. None is no entry."""

    path: bytes
    before: bytes | None
    after: bytes | None


def key_hash(key: bytes) -> bytes:
    """The path of a key. Keys of cells are canonical CBOR, so keys that begin with 0xff can serve another purpose."""
    return hashlib.sha256(key).digest()


def get(root: bytes, path: bytes, load: Load) -> bytes | None:
    """The entry at a path."""
    depth = 0
    while isinstance(node := read_node(root, load), list):
        child = node[nibble_at(path, depth)]
        if child is None:
            return None
        root, depth = child.name, depth + 1
    return node.get(path)


def size(root: bytes, load: Load) -> int:
    """How many entries the tree has, read from its root alone."""
    return size_of(read_node(root, load))


def children(root: bytes, load: Load) -> Branch | None:
    """The root's children by their paths' first nibble; None where the root is a leaf."""
    node = read_node(root, load)
    return node if isinstance(node, list) else None


def entries(root: bytes, load: Load, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
    """All entries whose path is greater than ``after``, in the order of their paths."""
    return _entries(root, load, after, 0)


def _entries(name: bytes, load: Load, after: bytes, depth: int) -> Iterator[tuple[bytes, bytes]]:
    node = read_node(name, load)
    if isinstance(node, dict):
        yield from ((path, entry) for path, entry in node.items() if path > after)
        return
    first = nibble_at(after, depth) if depth < 2 * len(after) else 0
    for nibble in range(first, FAN_OUT):
        child = node[nibble]
        if child is not None:
            yield from _entries(child.name, load, after if nibble == first else b"", depth + 1)


def walk(roots: Iterable[bytes], load: Load) -> Iterator[tuple[bytes, Leaf]]:
    """Every node below these roots, once: its name, and its entries if it is a leaf."""
    seen = {EMPTY}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        node = read_node(name, load)
        if isinstance(node, dict):
            yield name, node
        else:
            waiting += (child.name for child in node if child is not None)
            yield name, {}


def reachable(roots: Iterable[bytes], load: Load) -> set[bytes]:
    """The names of all nodes that these roots need. Any other node is garbage."""
    return {name for name, _ in walk(roots, load)}


def diff(before: bytes, after: bytes, load: Load) -> Iterator[EntryDifference]:
    """The entries in which two trees differ, in the order of their paths. What they share is not read."""
    if before == after:
        return
    old, new = read_node(before, load), read_node(after, load)
    if isinstance(old, list) and isinstance(new, list):
        for one, other in zip(old, new, strict=True):
            yield from diff((one or _NO_CHILD).name, (other or _NO_CHILD).name, load)
        return
    was = ((path, False, entry) for path, entry in _below(old, load))
    now = ((path, True, entry) for path, entry in _below(new, load))
    for path, pair in groupby(merge(was, now), itemgetter(0)):
        sides = {is_new: entry for _, is_new, entry in pair}
        if sides.get(False) != sides.get(True):
            yield EntryDifference(path, sides.get(False), sides.get(True))


def _below(node: Leaf | Branch, load: Load) -> Iterator[tuple[bytes, bytes]]:
    if isinstance(node, dict):
        yield from node.items()
        return
    for child in node:
        if child is not None:
            yield from _below(read_node(child.name, load), load)


def apply(root: bytes, changes: Mapping[bytes, bytes | None], load: Load) -> Applied:
    """The tree with these entries put in (or, for None, taken out).

    Only nodes on the paths of the changes are read, each once, and their siblings where a branch becomes a leaf.
    """
    writer = _Writer(partial(read_node, load=load))
    return writer.finish(writer.changed(root, _sorted(changes), 0))


def restrict(root: bytes, prefix: int, bits: int, load: Load) -> Applied:
    """The tree of those entries alone whose paths begin with these bits: a part of a tree that is divided.

    It is an ordinary tree, the same that would come of applying its entries to an empty one; and it shares all nodes
    but those on the way to the prefix.
    """
    if not 0 <= bits <= 8 * PATH_BYTES or not 0 <= prefix < 1 << bits:
        raise ValueError(f"{prefix} is no prefix of {bits} bits of a path of {8 * PATH_BYTES}")
    writer = _Writer(partial(read_node, load=load))
    return writer.finish(writer.part(root, prefix, bits, 0))


_Change = tuple[bytes, bytes | None]


class Touched:
    """The nodes that ``apply`` reads for these changes, for those who read many at once: ``wanted`` are the names of
    one level; once they are added, of the next; and in the end there are none."""

    def __init__(self, root: bytes, changes: Mapping[bytes, bytes | None]) -> None:
        self.nodes: dict[bytes, bytes] = {}
        self.wanted: set[bytes] = set() if root == EMPTY else {root}
        self._root = root
        self._changes = _sorted(changes)
        self._level = [(root, self._changes, 0)] if self.wanted else []
        self._read: dict[bytes, Leaf | Branch] = {EMPTY: {}}

    def add(self, nodes: Mapping[bytes, bytes]) -> None:
        """Add the nodes that were wanted. Raises StoreCorrupt where one has other bytes than its name says."""
        self.nodes.update(nodes)
        self._read.update((name, read_node(name, nodes.__getitem__)) for name in self.wanted)
        level, self._level, self.wanted = self._level, [], set()
        for name, changes, depth in level:
            node = self._read[name]
            if isinstance(node, list):
                self._descend(node, changes, depth)

    @property
    def size(self) -> int:
        """How many entries the tree has, without the changes."""
        return size_of(self._read[self._root])

    def has(self, path: bytes) -> bool:
        """Whether the tree has an entry at this path, which is one of the changes."""
        name, depth = self._root, 0
        while isinstance(node := self._read[name], list):
            child = node[nibble_at(path, depth)]
            if child is None:
                return False
            name, depth = child.name, depth + 1
        return path in node

    def _descend(self, node: Branch, changes: list[_Change], depth: int) -> None:
        if size_of(node) - sum(entry is None for _, entry in changes) <= LEAF_ENTRIES:  # it may become a leaf
            self.wanted.update(child.name for child in node if child is not None)
        for nibble, group in _groups(changes, depth):
            child = node[nibble]
            if child is None:
                continue
            self.wanted.add(child.name)
            if child.size > LEAF_ENTRIES:  # a leaf has nothing below it
                self._level.append((child.name, group, depth + 1))

    def apply(self) -> Applied:
        """The tree with these changes, as ``apply`` makes it."""
        writer = _Writer(self._read.__getitem__)
        return writer.finish(writer.changed(self._root, self._changes, 0))


def _sorted(changes: Mapping[bytes, bytes | None]) -> list[_Change]:
    for path in changes:
        if len(path) != PATH_BYTES:
            raise ValueError(f"a path has {PATH_BYTES} bytes, and this one {len(path)}: give key_hash(key)")
    return sorted(changes.items())


def _groups(changes: list[_Change], depth: int) -> Iterator[tuple[int, list[_Change]]]:
    """Sorted changes that share all nibbles before this one, by this one."""
    return ((nibble, list(group)) for nibble, group in groupby(changes, lambda change: nibble_at(change[0], depth)))


class _Writer:
    """One change under way. A part of the new tree is a child that is written, or the entries of a leaf: it is written
    when its place is known, since a leaf may become a part of the one above it."""

    def __init__(self, read: Callable[[bytes], Leaf | Branch]) -> None:
        self._read_node = read
        self._read: set[bytes] = set()
        self._new: dict[bytes, bytes] = {}

    def finish(self, made: Child | Leaf) -> Applied:
        root = self._kept(made) or _NO_CHILD
        return Applied(root.name, self._new, root.size)

    def changed(self, name: bytes, changes: list[_Change], depth: int) -> Child | Leaf:
        """The part that was ``name`` after these changes, which are sorted and all belong to it."""
        node = self._node(name)
        if isinstance(node, dict):
            return self._grown(_merged(node, changes), depth)
        new = node.copy()
        for nibble, group in _groups(changes, depth):
            child = node[nibble] or _NO_CHILD
            new[nibble] = self._kept(self.changed(child.name, group, depth + 1))
        return self._joined(new)

    def part(self, name: bytes, prefix: int, bits: int, depth: int) -> Child | Leaf:
        """The part of ``name`` whose paths begin with the prefix."""
        node = self._node(name)
        if isinstance(node, dict):
            shift = 8 * PATH_BYTES - bits
            return {path: entry for path, entry in node.items() if int.from_bytes(path) >> shift == prefix}
        left = bits - 4 * depth  # the bits that this nibble and those after it must match
        first = (prefix >> (left - 4) if left >= 4 else prefix << (4 - left)) & 15
        last = first + (1 << max(0, 4 - left)) - 1
        new = node.copy()
        for nibble, child in enumerate(node):
            if not first <= nibble <= last:
                new[nibble] = None
            elif left > 4 and child is not None:
                new[nibble] = self._kept(self.part(child.name, prefix, bits, depth + 1))
        return self._joined(new)

    def _grown(self, leaf: Leaf, depth: int) -> Child | Leaf:
        """A leaf, or the branch that takes its place when it is too large."""
        if len(leaf) <= LEAF_ENTRIES:
            return leaf
        node: Branch = [None] * FAN_OUT
        for nibble, group in groupby(leaf.items(), lambda item: nibble_at(item[0], depth)):
            node[nibble] = self._kept(self._grown(dict(group), depth + 1))
        return self._joined(node)

    def _joined(self, node: Branch) -> Child | Leaf:
        """A branch whose children may have changed, or the leaf that takes its place when little is left."""
        total = size_of(node)
        if total > LEAF_ENTRIES:
            return self._put(write_branch(node), total)
        leaf: Leaf = {}
        for child in node:
            if child is not None:
                leaf |= self._taken(child.name)
        return leaf

    def _taken(self, name: bytes) -> Leaf:
        """The entries of a leaf that becomes a part of another one. All below a small branch are leaves."""
        made = self._new.pop(name, None)
        found = self._node(name) if made is None else parse(made)
        assert isinstance(found, dict)
        return found

    def _node(self, name: bytes) -> Leaf | Branch:
        self._read.add(name)
        return self._read_node(name)

    def _kept(self, made: Child | Leaf) -> Child | None:
        if isinstance(made, dict):
            return self._put(write_leaf(made), len(made)) if made else None
        return made

    def _put(self, node: bytes, entries: int) -> Child:
        name = name_of(node)
        if name not in self._read:
            self._new[name] = node
        return Child(name, entries)


def _merged(leaf: Leaf, changes: list[_Change]) -> Leaf:
    new, is_larger = leaf.copy(), False
    for path, entry in changes:
        if entry is None:
            new.pop(path, None)
        else:
            is_larger = is_larger or path not in leaf
            new[path] = entry
    return dict(sorted(new.items())) if is_larger else new
