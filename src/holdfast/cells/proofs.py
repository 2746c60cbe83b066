"""Proofs that a key had an entry at a root, or had none: the nodes on its path, from the root down.

Whoever trusts a root can check a proof with nothing else: each node is named by the one above it, and the root by
itself. The bytes are canonical CBOR of ``[1, node, node, …]``.
"""

from __future__ import annotations

from typing import Final

from holdfast.cells.nodes import EMPTY, EMPTY_NODE, Load, check, name_of, nibble_at, parse
from holdfast.cells.tree import key_hash
from holdfast.journal import cbor

_FORMAT: Final = 1


class ProofRefused(ValueError):
    """The bytes do not prove anything about this key at this root."""


def prove(root: bytes, key: bytes, load: Load) -> bytes:
    """The proof of what the key has at the root."""
    path, nodes = key_hash(key), list[bytes]()
    while True:
        nodes.append(EMPTY_NODE if root == EMPTY else load(root))
        node = parse(nodes[-1])
        child = None if isinstance(node, dict) else node[nibble_at(path, len(nodes) - 1)]
        if child is None:
            return cbor.write([_FORMAT, *nodes])
        root = child.name


def check_proof(proof: bytes, root: bytes, key: bytes) -> bytes | None:
    """The entry that the key had at the root; None for a proof that it had none. Raises only ProofRefused."""
    try:
        form = cbor.read(proof)
    except cbor.NotCanonical as error:
        raise ProofRefused(f"the proof cannot be read: {error}") from error
    if not isinstance(form, list) or form[:1] != [_FORMAT] or not all(isinstance(node, bytes) for node in form[1:]):
        raise ProofRefused(f"the proof is not of format {_FORMAT}: a newer Holdfast may have made it")
    return _followed(form[1:], root, key_hash(key))


def _followed(nodes: list[bytes], root: bytes, path: bytes) -> bytes | None:
    prefix = bytearray()
    for number, data in enumerate(nodes, 1):
        if name_of(data) != root:
            raise ProofRefused(f"node {number} of the proof is not the one that is named there")
        try:
            node = check(data, bytes(prefix))
        except ValueError as error:
            raise ProofRefused(f"node {number} of the proof is malformed: {error}") from error
        if isinstance(node, dict):
            return _last(nodes, number, node.get(path))
        nibble = nibble_at(path, len(prefix))
        child = node[nibble]
        if child is None:
            return _last(nodes, number, None)
        root = child.name
        prefix.append(nibble)
    raise ProofRefused("the proof ends before the key's place is reached")


def _last(nodes: list[bytes], number: int, entry: bytes | None) -> bytes | None:
    if number != len(nodes):
        raise ProofRefused("the proof goes on after the key's place")
    return entry
