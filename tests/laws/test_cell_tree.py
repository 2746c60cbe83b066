"""The laws of the tree that indexes cells: its content alone decides its root, and a proof proves only what is so."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.cells import tree
from holdfast.cells.nodes import read_node
from holdfast.cells.proofs import ProofRefused, check_proof, prove
from tests.scope import volume

lawful = settings(deadline=None, print_blob=True, max_examples=volume(50, 100))

BITS = 256

crowded = st.builds(
    lambda head, tail: bytes((head,)) + bytes(30) + bytes((tail,)), st.integers(0, 3), st.integers(0, 99)
)
"""Paths that share long prefixes, so that branches are deep and have few children."""

spread = st.integers(0, 999).map(lambda number: tree.key_hash(b"%d" % number))
entry = st.binary(max_size=3)
batches = st.lists(
    st.dictionaries(crowded | spread, st.none() | entry, min_size=1, max_size=150)
    | st.builds(
        lambda first, size, value: {tree.key_hash(b"%d" % n): value for n in range(first, first + size)},
        st.integers(0, 400),
        st.integers(60, 400),
        st.none() | entry,
    ),
    max_size=6,
)


class Kept(dict[bytes, bytes]):
    """The nodes that somebody keeps, and which of them were read."""

    def __init__(self) -> None:
        self.read: list[bytes] = []

    def load(self, name: bytes) -> bytes:
        self.read.append(name)
        return self[name]


def grown(kept: Kept, root: bytes, changes: Mapping[bytes, bytes | None]) -> bytes:
    """The tree after changes, all of whose new nodes are kept."""
    applied = tree.apply(root, changes, kept.load)
    kept.update(applied.nodes)
    assert applied.size == tree.size(applied.root, kept.load)
    return applied.root


def played(history: list[dict[bytes, bytes | None]]) -> tuple[Kept, bytes, dict[bytes, bytes]]:
    """A history of changes: the nodes, the root, and what a dict says of the same changes."""
    kept, root, model = Kept(), tree.EMPTY, dict[bytes, bytes]()
    for changes in history:
        root = grown(kept, root, changes)
        for path, value in changes.items():
            if value is None:
                model.pop(path, None)
            else:
                model[path] = value
    return kept, root, model


@lawful
@given(batches)
def test_a_tree_holds_what_a_dict_holds(history: list[dict[bytes, bytes | None]]) -> None:
    kept, root, model = played(history)
    assert list(tree.entries(root, kept.load)) == sorted(model.items())
    for path in {path for changes in history for path in changes}:
        assert tree.get(root, path, kept.load) == model.get(path)


@lawful
@given(batches, st.randoms(use_true_random=False))
def test_equal_content_has_an_equal_root_whatever_the_history(
    history: list[dict[bytes, bytes | None]], random: object
) -> None:
    _, root, model = played(history)
    items = list(model.items())
    random.shuffle(items)  # type: ignore[attr-defined]  # hypothesis gives a random.Random
    pieces: list[dict[bytes, bytes | None]] = [dict(items[start : start + 37]) for start in range(0, len(items), 37)]
    assert played(pieces)[1] == root
    assert played([dict(items)])[1] == root


@lawful
@given(batches)
def test_the_nodes_of_a_root_are_all_kept_and_no_more_were_made(history: list[dict[bytes, bytes | None]]) -> None:
    """What is reachable can be read, and the new nodes of a change are exactly those that the old root did not have."""
    kept, root = Kept(), tree.EMPTY
    for changes in history:
        before = tree.reachable([root], kept.load)
        applied = tree.apply(root, changes, kept.load)
        kept.update(applied.nodes)
        assert applied.nodes.keys() == tree.reachable([applied.root], kept.load) - before
        root = applied.root


@lawful
@given(batches)
def test_what_is_touched_is_all_that_a_change_reads(history: list[dict[bytes, bytes | None]]) -> None:
    """A tree that is changed with what was read level by level is the one that ``apply`` makes, which needs no more."""
    kept, root = Kept(), tree.EMPTY
    for changes in history:
        touched = tree.Touched(root, changes)
        while touched.wanted:
            touched.add({name: kept[name] for name in touched.wanted})
        applied = touched.apply()
        assert applied == tree.apply(root, changes, touched.nodes.__getitem__)
        kept.update(applied.nodes)
        root = applied.root


@lawful
@given(batches)
def test_a_difference_is_what_was_changed(history: list[dict[bytes, bytes | None]]) -> None:
    kept, root, model = played(history[:-1])
    after = grown(kept, root, history[-1] if history else {})
    now = dict(tree.entries(after, kept.load))
    expected = [
        (path, model.get(path), now.get(path))
        for path in sorted(model.keys() | now.keys())
        if model.get(path) != now.get(path)
    ]
    assert [tuple(each) for each in tree.diff(root, after, kept.load)] == expected
    assert [(path, new, old) for path, old, new in tree.diff(after, root, kept.load)] == expected


@lawful
@given(batches, st.integers(0, 12).flatmap(lambda bits: st.tuples(st.integers(0, 2**bits - 1), st.just(bits))))
def test_a_part_by_prefix_is_the_tree_of_its_entries(
    history: list[dict[bytes, bytes | None]], prefix: tuple[int, int]
) -> None:
    kept, root, model = played(history)
    value, bits = prefix
    part = tree.restrict(root, value, bits, kept.load)
    inside = {path: found for path, found in model.items() if int.from_bytes(path) >> (BITS - bits) == value}
    assert part.root == played([dict(inside)])[1]
    assert part.size == len(inside)
    assert part.nodes.keys() == tree.reachable([part.root], (kept | part.nodes).__getitem__) - tree.reachable(
        [root], kept.load
    )


@lawful
@given(batches, crowded)
def test_iteration_goes_on_after_a_path(history: list[dict[bytes, bytes | None]], after: bytes) -> None:
    kept, root, model = played(history)
    expected = [item for item in sorted(model.items()) if item[0] > after]
    assert list(tree.entries(root, kept.load, after)) == expected


@pytest.mark.parametrize("changed", [1, 10, 300])
def test_a_change_touches_only_the_paths_concerned(changed: int) -> None:
    """Nodes read and made are at most the number of changes times the depth, and each is read once."""
    kept = Kept()
    root = grown(kept, tree.EMPTY, {tree.key_hash(b"%d" % n): b"entry" for n in range(20_000)})
    kept.read.clear()
    applied = tree.apply(root, {tree.key_hash(b"%d" % n): b"other" for n in range(changed)}, kept.load)
    depth = 4  # 16³ leaves hold 20,000 entries
    assert 0 < len(applied.nodes) <= changed * depth
    assert len(kept.read) == len(set(kept.read)) <= changed * depth
    assert len(kept.read) == len(applied.nodes)


keys = st.integers(0, 1200).map(lambda number: b"%d" % number)
sizes = st.sampled_from([0, 1, 64, 65, 1000])


def populated(size: int) -> tuple[Kept, bytes]:
    kept = Kept()
    return kept, grown(kept, tree.EMPTY, {tree.key_hash(b"%d" % n): b"e%d" % n for n in range(size)})


@lawful
@given(sizes, keys)
def test_a_proof_shows_the_entry_of_a_key_or_that_it_had_none(size: int, key: bytes) -> None:
    kept, root = populated(size)
    proof = prove(root, key, kept.load)
    assert check_proof(proof, root, key) == (b"e" + key if int(key) < size else None)


@lawful
@given(sizes, keys, st.data())
def test_a_proof_with_any_changed_byte_is_refused(size: int, key: bytes, data: st.DataObject) -> None:
    kept, root = populated(size)
    proof = bytearray(prove(root, key, kept.load))
    place = data.draw(st.integers(0, len(proof) - 1))
    proof[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ProofRefused):
        check_proof(bytes(proof), root, key)


@lawful
@given(sizes, keys, st.binary(max_size=40))
def test_nothing_but_a_proof_of_this_root_is_accepted(size: int, key: bytes, junk: bytes) -> None:
    kept, root = populated(size)
    other = grown(kept, root, {tree.key_hash(b"another"): b"entry"})
    proof = prove(root, key, kept.load)
    for forged in (junk, proof[:-1], proof + b"\0", prove(other, key, kept.load)):
        with pytest.raises(ProofRefused):
            check_proof(forged, root, key)


def test_a_proof_for_one_key_says_nothing_false_of_another() -> None:
    """The nodes of another key's path show no entry here: they are too few, too many, or not those of the path."""
    kept, root = populated(1000)
    proof = prove(root, b"1", kept.load)
    for number in range(2, 1200):
        try:
            assert check_proof(proof, root, b"%d" % number) == (b"e%d" % number if number < 1000 else None)
        except ProofRefused:
            continue


def test_children_name_the_parts_of_a_root() -> None:
    kept, root = populated(1000)
    parts = tree.children(root, kept.load)
    assert parts is not None
    assert sum(part.size for part in parts if part) == 1000
    assert all(part and isinstance(read_node(part.name, kept.load), (dict, list)) for part in parts)
    assert tree.children(populated(3)[1], populated(3)[0].load) is None
