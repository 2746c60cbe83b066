"""Retired keys: a signature that a key makes after the next key was made is not trusted.

A new key signs for the last block of each tenant's chain when it is made. A thief of an old key can forge signatures of
the old key, but not this one. ``||`` joins bytes, ``0`` is one zero byte, texts are in UTF-8 and numbers in decimal.
For each tenant's last block there is a digest::

    e = sha256("holdfast.audit.end.1" || 0 || tenant || 0 || number || 0 || head)

``heads`` is the root of the Merkle tree (see ``merkle``) over these digests in the order of the tenants' bytes, empty
where there is none. The new key signs::

    CBOR ["holdfast.audit.retirement.1", id, number, chains, heads]

``id`` and ``number`` are its own, and ``chains`` is how many chains there were. From then on all keys before it are
retired: a block that one of them signed counts only up to its tenant's end. Keys that earlier versions made retire no
keys; the keys before them count until a later key retires them.
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
    """The last block of a tenant's chain up to which a retired key counts, by number and head. 0 is no block at all."""

    by: PublicKey
    number: int
    head: bytes


class ShownEnd(msgspec.Struct, frozen=True, gc=False):
    """The end of a tenant's chain, its index among the ends of all, and the hashes that lead from it to the root."""

    end: ChainEnd
    place: int
    hashes: Sequence[bytes]


def retire(key: SigningKey, signer: Signer, ends: Sequence[ChainEnd]) -> SigningKey:
    """The key with its signature that retires the keys before it; ``signer`` is the same key, opened."""
    unsigned = replace(key, chains=len(ends), heads=_root(ends))
    return replace(unsigned, retirement=signer.sign(_statement(unsigned)))


def end_of(head: Block) -> ChainEnd:
    """The end of a chain whose last block this is."""
    return ChainEnd(head.tenant, head.number, head.head)


def check_retirement(key: PublicKey) -> str | None:
    """The problem of a key's signature that retires the keys before it, if there is one. It may have no signature."""
    if not key.retirement:
        return f"key {key.number} ({key.id}) names ends without its signature." if key.chains or key.heads else None
    if is_signed(key.public, key.retirement, _statement(key)):
        return None
    return f"the retirement of the keys before key {key.number} ({key.id}) was altered: its signature is not over it."


def check_ends(line: Sequence[PublicKey], ends: Mapping[int, Sequence[ChainEnd]]) -> str | None:
    """The problem of the ends of chains that came with keys, if there is one: each key signed for all of its ends."""
    for key in line:
        signed = ends.get(key.number, ())
        if key.retirement and (len(signed), _root(signed)) != (key.chains, key.heads):
            return f"the ends of chains that key {key.number} ({key.id}) signed for were altered."
    return None


def bounds(line: Sequence[PublicKey], ends: Mapping[int, Sequence[ChainEnd]], tenant: str) -> dict[str, KeyBound]:
    """The bound of each retired key in a tenant's chain, by the key's id. ``ends`` have been checked."""
    key_bounds: dict[str, KeyBound] = {}
    for key in line:
        by = retired_by(line, key.id)
        if by is not None:
            here = next((end for end in ends.get(by.number, ()) if end.tenant == tenant), None)
            key_bounds[key.id] = KeyBound(by, 0, b"") if here is None else KeyBound(by, here.number, here.head)
    return key_bounds


def retired_by(line: Sequence[PublicKey], id: str) -> PublicKey | None:
    """The first later key that retired this one."""
    for at, key in enumerate(line):
        if key.id == id:
            return next((later for later in line[at + 1 :] if later.retirement), None)
    return None


def prove(ends: Sequence[ChainEnd], tenant: str) -> ShownEnd | None:
    """The proof that a tenant's end is among those that a key signed for; None where the tenant has no end there."""
    ordered = _ordered(ends)
    for place, end in enumerate(ordered):
        if end.tenant == tenant:
            return ShownEnd(end, place, merkle.proof(_leaves(ordered), [place]))
    return None


def shown_bound(by: PublicKey, shown: ShownEnd | None) -> KeyBound | None:
    """The bound of the keys before this one, by a shown end; None where that end is not one that the key signed for."""
    if shown is None:
        return KeyBound(by, 0, b"")
    try:
        root = merkle.root_of(by.chains, {shown.place: _digest(shown.end)}, shown.hashes)
    except ValueError:
        return None
    return KeyBound(by, shown.end.number, shown.end.head) if root == by.heads else None


def beyond(block: Block, bound: KeyBound | None) -> str | None:
    """Why a block that a retired key signed does not count; None where it does.

    It does not where it comes after the key's last block, or has that block's number and another head.
    """
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
