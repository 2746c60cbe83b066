"""The audit's hash chain: entries give digests, digests give a block's head, and blocks form a signed chain.

There is one chain per tenant. ``||`` joins bytes, ``0`` is one zero byte, texts are in UTF-8 (``run`` is empty where
there is none, ``at`` is decimal), and CBOR is in its canonical form (RFC 8949 §4.2)::

    d(i) = sha256("holdfast.audit.entry.1" || 0 || tenant || 0 || run || 0 || kind || 0 || at || 0 || body)

A block covers the entries ``first … first + count - 1``. ``previous`` is the head of the block before it, 32 zero bytes
for the first. ``root`` is the root of the Merkle tree over its entries' digests (see ``merkle``)::

    head = sha256(2 || previous || root)

The signature of a block is over::

    CBOR ["holdfast.audit.block.2", tenant, number, first, count, previous, head, sealed_at, signer]

So a few hashes prove that an entry is in a block, however many other entries it holds. Earlier versions made blocks of
the first form. These have ``.1`` in the signed text, and their head is the end of a chain that begins with
``previous``, ``h(i) = sha256(h(i-1) || d(i))``. To prove an entry of such a block takes the digests of all its entries.
Blocks are numbered from 1 without a gap, positions from 0.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.audit import merkle
from holdfast.audit.keys import Signer, is_signed
from holdfast.audit.merkle import DIGEST_BYTES
from holdfast.audit.retirement import KeyBound, beyond
from holdfast.journal.cbor import canonical
from holdfast.store.governance import AuditEntry, Block

GENESIS: Final = b"\0" * 32
"""The head before the first block."""

FIRST_BLOCK: Final = 1
CHAIN: Final = 1
TREE: Final = 2

_ENTRY: Final = "holdfast.audit.entry.1"
FORMS: Final = {CHAIN: "holdfast.audit.block.1", TREE: "holdfast.audit.block.2"}
"""The forms of blocks, which differ in how a head follows from digests; each with its tag in the signed text."""


class Excerpt(msgspec.Struct, frozen=True, gc=False):
    """A part of a block: the digests of some of its entries by position, and the hashes that lead from them to its
    head. The digests that the block itself may carry do not count."""

    block: Block
    digests: Mapping[int, bytes]
    hashes: Sequence[bytes] = ()


def digest(entry: AuditEntry) -> bytes:
    """An entry's hash: over its content, and not over where it is stored."""
    # No name has a NUL in it, so two different entries never give the same bytes.
    fields = f"{_ENTRY}\0{entry.tenant}\0{entry.run or ''}\0{entry.kind}\0{entry.at}\0".encode()
    return hashlib.sha256(fields + entry.body).digest()


def extend(head: bytes, digests: Iterable[bytes]) -> bytes:
    """The head of a chain after these digests."""
    for each in digests:
        head = hashlib.sha256(head + each).digest()
    return head


def grow(head: bytes, root: bytes) -> bytes:
    """The head after a tree of this root."""
    return hashlib.sha256(b"\2" + head + root).digest()


def message_of(block: Block) -> bytes:
    """The bytes that a block's signature is over. Raises KeyError where its form is not known."""
    return canonical(
        [
            FORMS[block.form],
            block.tenant,
            block.number,
            block.first,
            block.count,
            block.previous,
            block.head,
            block.sealed_at,
            block.signer,
        ]
    )


def make_block(previous: Block | None, entries: Sequence[AuditEntry], sealed_at: int, signer: Signer) -> Block:
    """Seal the entries of one tenant, in this order, after the tenant's last block."""
    digests = b"".join([digest(entry) for entry in entries])
    before = GENESIS if previous is None else previous.head
    unsigned = Block(
        tenant=entries[0].tenant,
        number=FIRST_BLOCK if previous is None else previous.number + 1,
        first=0 if previous is None else previous.first + previous.count,
        count=len(entries),
        previous=before,
        head=grow(before, merkle.root(digests)),
        digests=digests,
        sealed_at=sealed_at,
        signer=signer.id,
        signature=b"",
        form=TREE,
    )
    return replace(unsigned, signature=signer.sign(message_of(unsigned)))


def covered(block: Block) -> range:
    """The positions of a block's entries."""
    return range(block.first, block.first + block.count)


def whole(block: Block) -> Excerpt:
    """A block with all digests that it carries."""
    return Excerpt(block, _digests(block, range(math.ceil(len(block.digests) / DIGEST_BYTES))))


def excerpt(block: Block, positions: Sequence[int]) -> Excerpt:
    """The smallest part of a block that proves that it holds the entries at these positions, which are in order."""
    if block.form == CHAIN:
        return whole(block)
    leaves = [at - block.first for at in positions]
    return Excerpt(block, _digests(block, leaves), merkle.proof(block.digests, leaves))


def _digests(block: Block, leaves: Iterable[int]) -> dict[int, bytes]:
    """The digests of some of a block's entries, by position."""
    size = DIGEST_BYTES
    return {block.first + leaf: block.digests[leaf * size : (leaf + 1) * size] for leaf in leaves}


def check_block(shown: Excerpt, publics: Mapping[str, bytes]) -> str | None:
    """The problem of a block by itself, if there is one: its shape, its hashes and its signature."""
    block = shown.block
    name = f"block {block.number}"
    if block.form not in FORMS:
        return f"{name} is of form {block.form}, which this Holdfast does not know."
    if block.count < 1 or (block.form == CHAIN and len(shown.digests) != block.count):
        return f"{name} says that it holds {block.count} entries, and it does not carry as many digests."
    try:
        head = head_of(shown)
    except ValueError:
        head = b""
    if head != block.head:
        return f"{name} was altered: its digests do not lead from its beginning to its head."
    public = publics.get(block.signer)
    if public is None:
        return f"{name} is signed by key {block.signer}, which is not known."
    if not is_signed(public, block.signature, message_of(block)):
        return f"{name} was altered: its signature is not one of key {block.signer} over its content."
    return None


def head_of(shown: Excerpt) -> bytes:
    """The head that follows from a part of a block. Raises ValueError where none does."""
    block = shown.block
    if block.form == CHAIN:
        return extend(block.previous, shown.digests.values())
    leaves = {at - block.first: leaf for at, leaf in shown.digests.items()}
    return grow(block.previous, merkle.root_of(block.count, leaves, shown.hashes))


def check_entry(shown: Excerpt, entry: AuditEntry) -> str | None:
    """The problem of a sealed entry that its block must hold, if there is one."""
    block, at = shown.block, entry.position
    if entry.tenant != block.tenant:
        return f"entry {at} is of tenant {entry.tenant}, and its block of tenant {block.tenant}."
    if at is None or at not in shown.digests:
        return f"entry {at} is not shown to be in block {block.number}."
    if digest(entry) != shown.digests[at]:
        return f"entry {at} ({entry.kind}) was altered: it is not what block {block.number} sealed."
    return None


class Walk:
    """Follows one tenant's chain from its beginning, block by block, and finds where it breaks."""

    def __init__(self, tenant: str, publics: Mapping[str, bytes], bounds: Mapping[str, KeyBound] | None = None) -> None:
        self.last: Block | None = None
        self.position = 0
        self._tenant = tenant
        self._publics = publics
        self._bounds = bounds or {}

    def step(self, block: Block, entries: Sequence[AuditEntry]) -> str | None:
        """Take the next block and all of its entries; gives their problem, if there is one."""
        return self._place(block) or self._content(whole(block), entries)

    def _place(self, block: Block) -> str | None:
        expected = FIRST_BLOCK if self.last is None else self.last.number + 1
        head = GENESIS if self.last is None else self.last.head
        if block.tenant != self._tenant:
            return f"block {block.number} is of tenant {block.tenant}, and not of {self._tenant}."
        if block.number != expected:
            return f"block {expected} is missing: block {block.number} stands in its place."
        if block.first != self.position:
            return f"block {block.number} begins at entry {block.first} instead of {self.position}."
        if block.previous != head:
            return f"block {block.number} does not follow from the block before it: one of the two was replaced."
        return None

    def _content(self, shown: Excerpt, entries: Sequence[AuditEntry]) -> str | None:
        block = shown.block
        problem = check_block(shown, self._publics) or beyond(block, self._bounds.get(block.signer))
        if problem is not None:
            return problem
        for offset in range(block.count):
            at = block.first + offset
            if offset >= len(entries) or entries[offset].position != at:
                return f"entry {at} is missing from block {block.number}."
            if problem := check_entry(shown, entries[offset]):
                return problem
        if len(entries) > block.count:
            return f"block {block.number} holds {block.count} entries, and {len(entries)} claim to be in it."
        self.last = block
        self.position = block.first + block.count
        return None

    def end(self) -> str | None:
        """The problem of a chain that ends here, if there is one: a key signed that it was longer."""
        reached = 0 if self.last is None else self.last.number
        for bound in self._bounds.values():
            if bound.number > reached:
                return (
                    f"the chain was cut off: it ends with block {reached}, and key {bound.by.number} ({bound.by.id}) "
                    f"signed that it had reached block {bound.number}."
                )
        return None


def verify_chain(
    tenant: str, blocks: Iterable[Block], entries: Iterable[AuditEntry], publics: Mapping[str, bytes]
) -> str | None:
    """Check a tenant's whole chain; gives the first broken entry or block in plain words, or None.

    ``entries`` are the sealed ones by position. Entries after the last block are broken too: no block seals them.
    """
    walk = Walk(tenant, publics)
    rest = iter(entries)
    for block in blocks:
        if problem := walk.step(block, list(islice(rest, max(0, block.count)))):
            return problem
    for entry in rest:
        return f"entry {entry.position} claims to be sealed, and no block holds it."
    return None
