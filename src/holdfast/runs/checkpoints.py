"""Checkpoints as bytes: where an execution's state meets the run, the code and the journal that it belongs to.

The bytes are ``[format, sha256 of the content, content]`` in canonical CBOR. The content names the code, the run's
root, the version and the head of the journal there. Then come the state of the ledger, of the kernel and of the
program, each as bytes of their own, and the digests of the blobs that they refer to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.journal import cbor
from holdfast.journal.blobs import references
from holdfast.journal.codec import decode_segment
from holdfast.journal.ledger_state import State, read, write
from holdfast.journal.promise import PromiseId
from holdfast.kernel.checkpoint import Checkpoint, CheckpointUnusable
from holdfast.store import protocol as p

FORMAT: Final = "holdfast checkpoint/1"

_REFERENCE: Final = cbor.data(b"") + cbor.data(b"\0" * 32)[:2]
"""How a payload that refers to a blob is written: no bytes, then a digest."""


class _Content(State, frozen=True):
    code: str
    root: bytes
    version: int
    head: bytes
    ledger: bytes
    kernel: bytes
    program: bytes
    blobs: list[bytes]


def seal_checkpoint(checkpoint: Checkpoint, run: PromiseId, code: str, head: bytes) -> bytes:
    """The checkpoint of a run of this code, whose journal ends in this head."""
    c = checkpoint
    content = write(_Content(code, run.root, c.version, head, c.ledger, c.kernel, c.program, list(c.blobs)))
    return cbor.canonical([FORMAT, hashlib.sha256(content).digest(), content])


def unseal_checkpoint(row: p.CheckpointRow, run: PromiseId, code: str) -> Checkpoint:
    """The checkpoint back. Raises CheckpointUnusable where it is not this run's, this code's, or not whole."""
    content = _content(row.data)
    if (content.root, content.version, content.head) != (run.root, row.version, row.head):
        raise CheckpointUnusable("it belongs to another journal")
    if content.code != code:
        raise CheckpointUnusable("it was made by other code")
    return Checkpoint(content.version, content.ledger, content.kernel, content.program, tuple(content.blobs))


def _content(data: bytes) -> _Content:
    try:
        written, digest, content = read(data, tuple[str, bytes, bytes])
        if written != FORMAT:
            raise CheckpointUnusable(f"its format is {written!r}")
        if hashlib.sha256(content).digest() != digest:
            raise CheckpointUnusable("it is damaged")
        return read(content, _Content)
    except ValueError as error:
        raise CheckpointUnusable("it is damaged") from error


def blobs_needed(loaded: p.Loaded, run: PromiseId) -> list[bytes]:
    """The blobs that a checkpoint and its tail refer to; none where they cannot be read, which the restorer finds."""
    if loaded.checkpoint is None:
        return []
    try:
        found = set(_content(loaded.checkpoint.data).blobs)
    except CheckpointUnusable:
        return []
    for segment in loaded.segments:
        if _REFERENCE not in segment.events:  # nearly always, and cheaper than to read it twice
            continue
        for entry in decode_segment(segment.events, run, segment.first):
            found.update(references(entry.event))
    return sorted(found)


async def load(store: p.Store, runs: Sequence[p.Run]) -> dict[p.Key, p.Loaded]:
    """What is needed to go on with these runs: journals, or checkpoints and their tails, with the blobs of either."""
    loaded = await store.load([run.key for run in runs])
    for run in runs:
        found = loaded.get(run.key)
        if found is not None and (digests := blobs_needed(found, PromiseId(run.root))):
            blobs = await store.blobs(run.key.tenant, digests)
            loaded[run.key] = msgspec.structs.replace(found, blobs=blobs)
    return loaded
