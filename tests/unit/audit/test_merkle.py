"""Merkle trees: the root is the one of RFC 9162, a proof leads to it from any leaves, and no other does."""

from __future__ import annotations

import hashlib
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.audit.merkle import DIGEST_BYTES, proof, root, root_of

Leaves = list[bytes]
leaves_ = st.integers(1, 70).map(lambda count: [hashlib.sha256(bytes([at])).digest() for at in range(count)])


def by_the_book(leaves: Leaves) -> bytes:
    """The definition of RFC 9162 §2.1.1, word for word, but for its hash of a leaf."""
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return hashlib.sha256(b"\1" + by_the_book(leaves[:k]) + by_the_book(leaves[k:])).digest()


@st.composite
def shown_(draw: st.DrawFn) -> tuple[Leaves, set[int]]:
    leaves = draw(leaves_)
    return leaves, draw(st.sets(st.integers(0, len(leaves) - 1)))


@given(leaves_)
def test_the_root_is_the_one_of_the_standard(leaves: Leaves) -> None:
    assert root(b"".join(leaves)) == by_the_book(leaves)


@given(shown_())
def test_a_proof_leads_to_the_root(sample: tuple[Leaves, set[int]]) -> None:
    """From none, some or all of the leaves; and it has no hash too many."""
    leaves, shown = sample
    hashes = proof(b"".join(leaves), shown)
    assert root_of(len(leaves), {at: leaves[at] for at in shown}, hashes) == by_the_book(leaves)
    assert len(hashes) <= max(1, len(shown) * (len(leaves) - 1).bit_length())
    assert hashes == [] or len(shown) < len(leaves)


@given(shown_(), st.data())
def test_a_forged_proof_does_not_lead_there(sample: tuple[Leaves, set[int]], data: st.DataObject) -> None:
    """Another leaf, a leaf at another index, another hash, one hash more or less: none gives this root."""
    leaves, shown = sample
    held = {at: leaves[at] for at in shown}
    hashes = proof(b"".join(leaves), shown)
    other = bytes(DIGEST_BYTES)
    forged: list[tuple[dict[int, bytes], list[bytes]]] = [(held, [*hashes, other])]
    if hashes:
        at = data.draw(st.integers(0, len(hashes) - 1))
        forged.append((held, [*hashes[:at], other, *hashes[at + 1 :]]))
        forged.append((held, hashes[:at] + hashes[at + 1 :]))
    if held:
        place = data.draw(st.sampled_from(sorted(held)))
        forged.append(({**held, place: other}, hashes))
        moved = dict(held)
        leaf = moved.pop(place)
        if free := sorted(set(range(len(leaves))) - set(moved) - {place}):
            forged.append(({**moved, data.draw(st.sampled_from(free)): leaf}, hashes))
    for digests, rest in forged:
        try:
            found = root_of(len(leaves), digests, rest)
        except ValueError:
            continue
        assert found != by_the_book(leaves)


@pytest.mark.parametrize(("count", "place"), [(0, None), (-3, None), (3, 3), (3, -1), (1, 1), (2**33, 2**32)])
def test_an_impossible_tree_is_refused(count: int, place: int | None) -> None:
    shown = {} if place is None else {place: bytes(DIGEST_BYTES)}
    with pytest.raises(ValueError, match="or it has no such leaf"):
        root_of(count, shown, [bytes(DIGEST_BYTES)] * 9)


def test_a_tree_of_any_size_is_checked_within_the_size_of_its_proof() -> None:
    """The check takes time and memory for the length of the proof, not for the size that it claims."""
    shown = {at * 1000: bytes(DIGEST_BYTES) for at in range(20_000)}
    hashes = [bytes(DIGEST_BYTES)] * 600_000
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="more hashes"):
            root_of(2**32, shown, hashes)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000
