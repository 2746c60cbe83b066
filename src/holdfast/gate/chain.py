"""The audit's hash chain: how entries become digests, digests a chain, and stretches of the chain signed blocks.

Per tenant, with ``||`` for bytes end to end, ``0`` for one zero byte, texts in UTF-8 (``run`` is empty where there is
none, ``at`` is decimal), and CBOR in its one canonical form (RFC 8949 §4.2)::

    d(i) = sha256("holdfast.audit.entry.1" || 0 || tenant || 0 || run || 0 || kind || 0 || at || 0 || body)
    h(-1) = 32 zero bytes
    h(i) = sha256(h(i-1) || d(i))

A block covers the entries ``first … first + count - 1``. It carries all their digests, so that one entry can be shown
to be in it without showing the others, ``previous`` = h(first-1) and ``head`` = h of its last entry, and it is signed::

    CBOR ["holdfast.audit.block.1", tenant, number, first, count, previous, head, sealed_at, signer]

Blocks are numbered from 1 without a gap, positions from 0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

from msgspec.structs import replace

from holdfast.gate.keys import Signer, is_signed
from holdfast.journal.cbor import canonical
from holdfast.store.governance import Block, Entry

GENESIS: Final = b"\0" * 32
"""What the first entry is chained to."""

DIGEST_BYTES: Final = 32
FIRST_BLOCK: Final = 1

_ENTRY: Final = "holdfast.audit.entry.1"
_BLOCK: Final = "holdfast.audit.block.1"


def digest(entry: Entry) -> bytes:
    """An entry's hash: over everything that it says, and nothing of where it is kept."""
    # No name has a NUL in it, so no two entries are written alike.
    told = f"{_ENTRY}\0{entry.tenant}\0{entry.run or ''}\0{entry.kind}\0{entry.at}\0".encode()
    return hashlib.sha256(told + entry.body).digest()


def extend(head: bytes, digests: Iterable[bytes]) -> bytes:
    """The head of the chain after these digests."""
    for each in digests:
        head = hashlib.sha256(head + each).digest()
    return head


def digests_of(block: Block) -> list[bytes]:
    """The digests that a block carries, in order."""
    return [block.digests[at : at + DIGEST_BYTES] for at in range(0, len(block.digests), DIGEST_BYTES)]


def message_of(block: Block) -> bytes:
    """What a block's signature is over."""
    return canonical(
        [
            _BLOCK,
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


def make_block(previous: Block | None, entries: Sequence[Entry], sealed_at: int, signer: Signer) -> Block:
    """Seal the entries of one tenant, in this order, after the tenant's last block."""
    digests = [digest(entry) for entry in entries]
    before = GENESIS if previous is None else previous.head
    unsigned = Block(
        tenant=entries[0].tenant,
        number=FIRST_BLOCK if previous is None else previous.number + 1,
        first=0 if previous is None else previous.first + previous.count,
        count=len(entries),
        previous=before,
        head=extend(before, digests),
        digests=b"".join(digests),
        sealed_at=sealed_at,
        signer=signer.id,
        signature=b"",
    )
    return replace(unsigned, signature=signer.sign(message_of(unsigned)))


def check_block(block: Block, publics: Mapping[str, bytes]) -> str | None:
    """What is wrong with a block by itself, if anything: its shape, its hashes and its signature."""
    name = f"block {block.number}"
    if block.count < 1 or len(block.digests) != block.count * DIGEST_BYTES:
        return f"{name} says that it holds {block.count} entries, and it does not carry as many digests."
    if extend(block.previous, digests_of(block)) != block.head:
        return f"{name} was altered: its digests do not lead from its beginning to its head."
    public = publics.get(block.signer)
    if public is None:
        return f"{name} is signed by key {block.signer}, which is not known."
    if not is_signed(public, block.signature, message_of(block)):
        return f"{name} was altered: its signature is not one of key {block.signer} over what it says."
    return None


def check_entry(block: Block, entry: Entry) -> str | None:
    """What is wrong with a sealed entry that its block must hold, if anything."""
    at = entry.position
    if at is None or not block.first <= at < block.first + block.count:
        return f"entry {at} is not among those of block {block.number}."
    if entry.tenant != block.tenant:
        return f"entry {at} is of tenant {entry.tenant}, and its block of tenant {block.tenant}."
    start = (at - block.first) * DIGEST_BYTES
    if digest(entry) != block.digests[start : start + DIGEST_BYTES]:
        return f"entry {at} ({entry.kind}) was altered: it is not what block {block.number} sealed."
    return None


class Walk:
    """Follows one tenant's chain from its beginning, block by block, and says where it breaks."""

    def __init__(self, tenant: str, publics: Mapping[str, bytes]) -> None:
        self.last: Block | None = None
        self.position = 0
        self._tenant = tenant
        self._publics = publics

    def step(self, block: Block, entries: Sequence[Entry]) -> str | None:
        """Take the next block and all of its entries; gives what is wrong with them, if anything."""
        return self._place(block) or check_block(block, self._publics) or self._entries(block, entries)

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

    def _entries(self, block: Block, entries: Sequence[Entry]) -> str | None:
        for offset in range(block.count):
            at = block.first + offset
            if offset >= len(entries) or entries[offset].position != at:
                return f"entry {at} is missing from block {block.number}."
            if problem := check_entry(block, entries[offset]):
                return problem
        if len(entries) > block.count:
            return f"block {block.number} holds {block.count} entries, and {len(entries)} are said to be in it."
        self.last = block
        self.position = block.first + block.count
        return None


def verify_chain(
    tenant: str, blocks: Iterable[Block], entries: Iterable[Entry], publics: Mapping[str, bytes]
) -> str | None:
    """Check a tenant's whole chain; gives the first broken entry or block in plain words, or None.

    ``entries`` are the sealed ones by position. Entries behind the last block are broken too: nothing seals them.
    """
    walk = Walk(tenant, publics)
    rest = iter(entries)
    for block in blocks:
        if problem := walk.step(block, list(islice(rest, max(0, block.count)))):
            return problem
    for entry in rest:
        return f"entry {entry.position} is said to be sealed, and no block holds it."
    return None
