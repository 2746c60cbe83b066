"""The nodes of a tree, and the bytes they are: canonical CBOR, named by their SHA-256.

A leaf is ``[0, path, entry, path, entry, …]`` with at most 64 entries, sorted by path. A branch is ``[1, bitmap, name,
size, name, size, …]``: bit *n* of the bitmap says that there is a child for nibble *n*, and a size is the number of
entries below the child. A branch has more than 64 entries below it; whatever has fewer is a leaf. So the entries alone
decide the nodes, and equal content has one form.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias, cast

import cbor2

from holdfast.errors import StoreCorrupt

LEAF_ENTRIES: Final = 64
"""How many entries a leaf holds at most."""

FAN_OUT: Final = 16

PATH_BYTES: Final = 32
"""Paths are SHA-256 digests."""

_LEAF: Final = 0
_BRANCH: Final = 1

Load: TypeAlias = Callable[[bytes], bytes]
"""The bytes of the node of this name. May raise anything for a node that it does not have."""

Leaf: TypeAlias = dict[bytes, bytes]
"""The entries of a leaf by path, in the order of their paths."""


class Child(NamedTuple):
    """A branch's child: the name of its node, and how many entries are below it."""

    name: bytes
    size: int


Branch: TypeAlias = list[Child | None]
"""The sixteen children of a branch, by nibble."""


def name_of(node: bytes) -> bytes:
    """The name of a node: the SHA-256 of its bytes."""
    return hashlib.sha256(node).digest()


def write_leaf(entries: Mapping[bytes, bytes]) -> bytes:
    """The bytes of a leaf of these entries, which are given in the order of their paths."""
    items: list[object] = [_LEAF]
    for pair in entries.items():
        items += pair
    return cbor2.dumps(items)  # whole numbers and bytes in lists: there is but one shortest form


def write_branch(children: Branch) -> bytes:
    """The bytes of a branch."""
    bitmap = 0
    items: list[object] = [_BRANCH, 0]
    for nibble, child in enumerate(children):
        if child is not None:
            bitmap |= 1 << nibble
            items += child
    items[1] = bitmap
    return cbor2.dumps(items)


EMPTY_NODE: Final = write_leaf({})
EMPTY: Final = name_of(EMPTY_NODE)
"""The root of the tree without entries. It need not be kept: nobody loads it."""


def read_node(name: bytes, load: Load) -> Leaf | Branch:
    """The node of this name. Raises StoreCorrupt where its bytes are not those that were named."""
    if name == EMPTY:
        return {}
    node = load(name)
    if name_of(node) != name:
        raise StoreCorrupt(
            f"the node {name.hex()} of an index was changed: it no longer has the digest that names it. "
            "Restore it from a backup."
        )
    try:
        return parse(node)
    except ValueError as error:
        raise StoreCorrupt(
            f"the node {name.hex()} of an index cannot be read ({error}): a newer Holdfast wrote it. Upgrade."
        ) from error


def parse(node: bytes) -> Leaf | Branch:
    """A node from its bytes. Raises ValueError for what is none; whether it is in canonical form is ``check``'s."""
    try:
        kind, *items = cbor2.loads(node)
        if kind == _LEAF:
            return dict(zip(items[::2], items[1::2], strict=True))
        if kind == _BRANCH:
            return _branch(items)
    except Exception as error:  # the library and whatever the bytes make it do
        raise ValueError(f"it is no node: {error}") from error
    raise ValueError(f"it is a node of kind {kind!r}")


def _branch(items: list[object]) -> Branch:
    bitmap = cast("int", items[0])
    pairs = zip(cast("list[bytes]", items[1::2]), cast("list[int]", items[2::2]), strict=True)
    children: Branch = [Child(*next(pairs)) if bitmap >> nibble & 1 else None for nibble in range(FAN_OUT)]
    if next(pairs, None) is not None:
        raise ValueError("it has more children than its bitmap says")
    return children


def check(node: bytes, prefix: bytes) -> Leaf | Branch:
    """A node that somebody else sent, and which stands where all paths begin with these nibbles, a byte each.

    Raises ValueError unless these are the very bytes that would be written here.
    """
    found = parse(node)
    if isinstance(found, dict):
        if not all(_is_entry(path, entry, prefix) for path, entry in found.items()):
            raise ValueError("it has an entry that does not belong here")
        if len(found) > LEAF_ENTRIES or list(found) != sorted(found):
            raise ValueError("its entries are too many or not in order")
        written = write_leaf(found)
    else:
        if not all(map(_is_child, found)) or size_of(found) <= LEAF_ENTRIES:
            raise ValueError("its children are not those of a branch")
        written = write_branch(found)
    if written != node:
        raise ValueError("it is not in canonical form")
    return found


def _is_entry(path: object, entry: object, prefix: bytes) -> bool:
    return (
        isinstance(path, bytes)
        and isinstance(entry, bytes)
        and len(path) == PATH_BYTES
        and all(nibble == nibble_at(path, depth) for depth, nibble in enumerate(prefix))
    )


def _is_child(child: Child | None) -> bool:
    if child is None:
        return True
    name, size = cast("tuple[object, object]", child)
    return isinstance(name, bytes) and len(name) == PATH_BYTES and type(size) is int and size > 0


def size_of(node: Leaf | Branch) -> int:
    """How many entries are in the node and below it."""
    if isinstance(node, dict):
        return len(node)
    return sum(child.size for child in node if child is not None)


def nibble_at(path: bytes, depth: int) -> int:
    """The nibble by which a branch at this depth finds a path."""
    byte = path[depth >> 1]
    return byte & 15 if depth & 1 else byte >> 4
