"""What the tree does with nodes that are not what they should be, and its fixed form."""

from __future__ import annotations

import pytest

from holdfast.cells import tree
from holdfast.cells.nodes import check, write_branch, write_leaf
from holdfast.errors import StoreCorrupt


def test_the_root_of_known_entries_never_changes() -> None:
    """A root is recorded for ever: these are the names of three small trees."""
    assert tree.EMPTY.hex() == "9037f92bc91fdcc764a89d9144c341d887ffc83351cc8cf0530555c89920a47d"
    one = tree.apply(tree.EMPTY, {tree.key_hash(b"a"): b"1"}, {}.__getitem__)
    many = tree.apply(tree.EMPTY, {tree.key_hash(b"%d" % n): b"%d" % n for n in range(100)}, {}.__getitem__)
    assert one.root.hex() == "7b0f2a8b816b67468166c5ef730691c5a165c3ba52be1a1f70fae237df8ccfbd"
    assert many.root.hex() == "9140ef79dc05fb6de0bd18f15d5ffb7465cc2509019a431c83b46c0ce100a2f7"


def test_a_changed_node_is_found_when_it_is_read() -> None:
    made = tree.apply(tree.EMPTY, {tree.key_hash(b"a"): b"1"}, {}.__getitem__)
    with pytest.raises(StoreCorrupt, match="was changed"):
        tree.get(made.root, tree.key_hash(b"a"), lambda _: made.nodes[made.root] + b"\0")


@pytest.mark.parametrize("node", [b"", b"\x80", b"\x81\x07", b"\x82\x00\x41a", b"\xff", b"\x01", b"\x83\x01\x00\x00"])
def test_a_node_of_no_known_kind_is_an_error_that_says_so(node: bytes) -> None:
    name = tree.key_hash(node)
    with pytest.raises(StoreCorrupt, match=r"cannot be read.*Upgrade"):
        tree.get(name, bytes(32), {name: node}.__getitem__)


def test_a_path_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="key_hash"):
        tree.apply(tree.EMPTY, {b"short": b"1"}, {}.__getitem__)


@pytest.mark.parametrize(("prefix", "bits"), [(1, 0), (2, 1), (-1, 4), (0, 257)])
def test_a_prefix_that_is_none_is_refused(prefix: int, bits: int) -> None:
    with pytest.raises(ValueError, match="is no prefix"):
        tree.restrict(tree.EMPTY, prefix, bits, {}.__getitem__)


def test_a_change_that_changes_nothing_makes_no_nodes() -> None:
    made = tree.apply(tree.EMPTY, {tree.key_hash(b"%d" % n): b"e" for n in range(200)}, {}.__getitem__)
    again = tree.apply(made.root, {tree.key_hash(b"7"): b"e", tree.key_hash(b"none"): None}, made.nodes.__getitem__)
    assert again == (made.root, {}, 200)


def paths(count: int, first: int = 0) -> list[bytes]:
    return [bytes((first,)) + bytes(30) + bytes((n,)) for n in range(count)]


BAD_NODES = {
    "too many entries": write_leaf(dict.fromkeys(paths(65), b"")),
    "out of order": write_leaf(dict.fromkeys(reversed(paths(2)), b"")),
    "elsewhere": write_leaf(dict.fromkeys(paths(1, first=255), b"")),
    "a short path": write_leaf({b"\0": b""}),
    "an entry of another type": b"\x83\x00\x58\x20" + bytes(32) + b"\x01",
    "paths of two types": b"\x85\x00\x58\x20" + bytes(32) + b"\x40\x01\x40",
    "a child of a truth": b"\x86\x01\x03\x58\x20" + bytes(32) + b"\xf5\x58\x20" + bytes(32) + b"\x18\x63",
    "a bitmap that is too long": write_branch([tree.Child(bytes(32), 99), *[None] * 15]).replace(
        b"\x01\x01", b"\x01\x1a\0\1\0\1", 1
    ),
    "a number in a longer form": b"\x98\x01\x00",
    "a branch of too few": write_branch([tree.Child(bytes(32), 64), *[None] * 15]),
    "a branch with an empty child": write_branch([tree.Child(bytes(32), 0), tree.Child(bytes(32), 99), *[None] * 14]),
    "a child with a short name": write_branch([tree.Child(b"", 99), *[None] * 15]),
}


@pytest.mark.parametrize("node", BAD_NODES.values(), ids=BAD_NODES)
def test_a_node_that_would_not_be_written_here_is_refused_by_a_check(node: bytes) -> None:
    with pytest.raises(ValueError, match=r"^it"):
        check(node, bytes(2))
