"""How far a key counts: what it signs after the next one was made is not trusted.

A new key signs, itself, how far the chains of all tenants had come when it was made: whoever has an old key can forge
what that one signed, but not this. With ``||`` for bytes end to end, ``0`` for one zero byte, texts in UTF-8 and
numbers in decimal::

    e = sha256("holdfast.audit.end.1" || 0 || tenant || 0 || number || 0 || head)

is told of each tenant's last block, and ``heads`` is the root of the Merkle tree (see ``merkle``) over them in the
order of the tenants' bytes, empty where there is none. The new key signs::

    CBOR ["holdfast.audit.retirement.1", id, number, chains, heads]

with its own ``id`` and ``number``, and how many ``chains`` there were. From then on all keys before it are retired: a
block that one of them signed counts only up to its tenant's end. Keys that earlier versions made say nothing of it, and
those before them count until a later key does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.audit import merkle
from holdfast.audit.keys import PublicKey, Signer, is_signed
from holdfast.journal.cbor import canonical
from holdfast.store.governance import Block, ChainEnd, SigningKey

_END: Final = "holdfast.audit.end.1"
_RETIREMENT: Final = "holdfast.audit.retirement.1"


class KeyBound(msgspec.Struct, frozen=True, gc=False):
    """How far a key counts in a tenant's chain: up to the block of this number, which has this head. 0 is nowhere."""

    by: PublicKey
    number: int
    head: bytes


class ShownEnd(msgspec.Struct, frozen=True, gc=False):
    """A tenant's end, its place among all, and the hashes that lead from there to the root."""

    end: ChainEnd
    place: int
    hashes: Sequence[bytes]


def retire(key: SigningKey, signer: Signer, ends: Sequence[ChainEnd]) -> SigningKey:
    """The key with its word on the ones before it; ``signer`` is itself, opened."""
    said = replace(key, chains=len(ends), heads=_root(ends))
    return replace(said, retirement=signer.sign(_statement(said)))


def end_of(head: Block) -> ChainEnd:
    """The end of a chain whose last block this is."""
    return ChainEnd(head.tenant, head.number, head.head)


def check_word(key: PublicKey) -> str | None:
    """What is wrong with a key's word on the ones before it, if anything; it need not have given one."""
    if not key.retirement:
        return f"key {key.number} ({key.id}) names ends without its signature." if key.chains or key.heads else None
    if is_signed(key.public, key.retirement, _statement(key)):
        return None
    return f"how far the keys before key {key.number} ({key.id}) count was altered: its signature is not over that."


def check_ends(line: Sequence[PublicKey], ends: Mapping[int, Sequence[ChainEnd]]) -> str | None:
    """What is wrong with the ends that came with keys, if anything: each key signed for all of its own."""
    for key in line:
        given = ends.get(key.number, ())
        if key.retirement and (len(given), _root(given)) != (key.chains, key.heads):
            return f"the ends of chains that key {key.number} ({key.id}) signed for were altered."
    return None


def bounds(line: Sequence[PublicKey], ends: Mapping[int, Sequence[ChainEnd]], tenant: str) -> dict[str, KeyBound]:
    """How far each retired key counts in a tenant's chain, by id. ``ends`` have been checked."""
    found: dict[str, KeyBound] = {}
    for key in line:
        by = retired_by(line, key.id)
        if by is not None:
            here = next((end for end in ends.get(by.number, ()) if end.tenant == tenant), None)
            found[key.id] = KeyBound(by, 0, b"") if here is None else KeyBound(by, here.number, here.head)
    return found


def retired_by(line: Sequence[PublicKey], id: str) -> PublicKey | None:
    """The first later key that retired this one."""
    for at, key in enumerate(line):
        if key.id == id:
            return next((later for later in line[at + 1 :] if later.retirement), None)
    return None


def prove(ends: Sequence[ChainEnd], tenant: str) -> ShownEnd | None:
    """What shows a tenant's end to be among those that a key signed for; None where it has none."""
    ordered = _ordered(ends)
    for place, end in enumerate(ordered):
        if end.tenant == tenant:
            return ShownEnd(end, place, merkle.proof(_leaves(ordered), [place]))
    return None


def shown_bound(by: PublicKey, shown: ShownEnd | None) -> KeyBound | None:
    """How far the keys before this one count, by what is shown of it; None where that does not lead to its word."""
    if shown is None:
        return KeyBound(by, 0, b"")
    try:
        root = merkle.root_of(by.chains, {shown.place: _digest(shown.end)}, shown.hashes)
    except ValueError:
        return None
    return KeyBound(by, shown.end.number, shown.end.head) if root == by.heads else None


def beyond(block: Block, bound: KeyBound | None) -> str | None:
    """Why a block does not count though its key signed it, if so: it is behind the end of that key, or not its end."""
    if bound is None or block.number < bound.number:
        return None
    where = f"block {block.number} is signed by key {block.signer}, which key {bound.by.number} ({bound.by.id}) retired"
    if block.number > bound.number:
        return f"{where} {f'after block {bound.number}' if bound.number else 'before this chain began'}."
    return None if block.head == bound.head else f"{where} after another block of that number."


def _statement(key: PublicKey | SigningKey) -> bytes:
    return canonical([_RETIREMENT, key.id, key.number, key.chains, key.heads])


def _ordered(ends: Sequence[ChainEnd]) -> list[ChainEnd]:
    return sorted(ends, key=lambda end: end.tenant.encode())


def _root(ends: Sequence[ChainEnd]) -> bytes:
    return merkle.root(_leaves(_ordered(ends))) if ends else b""


def _leaves(ordered: Sequence[ChainEnd]) -> bytes:
    return b"".join([_digest(end) for end in ordered])


def _digest(end: ChainEnd) -> bytes:
    return hashlib.sha256(f"{_END}\0{end.tenant}\0{end.number}\0".encode() + end.head).digest()
