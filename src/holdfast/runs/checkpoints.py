"""Checkpoints as bytes: an execution's state, with the run, the code and the journal that it belongs to.

The bytes are ``[format, sha256 of the content, content]`` in canonical CBOR. The content names the code, the run's
root, the version and the head of the journal there. Then follow the states of the ledger, the kernel and the program,
each as separate bytes, and the digests of the blobs that they refer to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.errors import StoreCorrupt
from holdfast.journal import cbor
from holdfast.journal.blobs import needed
from holdfast.journal.codec import decode_segment
from holdfast.journal.ledger_state import State, read, write
from holdfast.journal.payload import Payload
from holdfast.journal.promise import PromiseId
from holdfast.kernel.checkpoint import Checkpoint, CheckpointUnusable
from holdfast.runs.carried import AHEAD, MARK, carried_by, read_ahead
from holdfast.store import protocol as p

FORMAT: Final = "holdfast checkpoint/2"
READABLE: Final = (FORMAT, "holdfast checkpoint/1")
"""Format 1 does not say which calls are stopped: when it was written, none could be."""

_REFERENCE: Final = cbor.data(b"") + cbor.data(b"\0" * 32)[:2]
"""The bytes with which a reference to a blob begins: empty data, then a digest of 32 bytes."""


BYTES_PER_EVENT: Final = 100
"""About as many bytes as an event takes: a run writes no more for all its checkpoints together than for its journal."""

SMALL_BYTES: Final = 4096
"""Up to this size a checkpoint is as cheap as a turn."""


def interval(size: int, least: int) -> int:
    """How many events come between a checkpoint of this size and the next: the larger it is, the more."""
    return max(least, (size - SMALL_BYTES) // BYTES_PER_EVENT)


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
    """The bytes of a checkpoint of a run of this code, whose journal ends with this head."""
    c = checkpoint
    content = write(_Content(code, run.root, c.version, head, c.ledger, c.kernel, c.program, list(c.blobs)))
    return cbor.canonical([FORMAT, hashlib.sha256(content).digest(), content])


def unseal_checkpoint(row: p.CheckpointRow, run: PromiseId, code: str) -> Checkpoint:
    """Read a checkpoint. Raises CheckpointUnusable where it belongs to another run or other code, or is damaged."""
    content = _content(row.data)
    if (content.root, content.version, content.head) != (run.root, row.version, row.head):
        raise CheckpointUnusable("it belongs to another journal")
    if content.code != code:
        raise CheckpointUnusable("it was made by other code")
    return Checkpoint(content.version, content.ledger, content.kernel, content.program, tuple(content.blobs))


def _content(data: bytes) -> _Content:
    try:
        written, digest, content = read(data, tuple[str, bytes, bytes])
        if written not in READABLE:
            raise CheckpointUnusable(f"its format is {written!r}")
        if hashlib.sha256(content).digest() != digest:
            raise CheckpointUnusable("it is damaged")
        return read(content, _Content)
    except ValueError as error:
        raise CheckpointUnusable("it is damaged") from error


def blobs_needed(loaded: p.Loaded, run: PromiseId) -> list[bytes]:
    """The blobs that are needed to go on from a journal, or from a checkpoint and its tail.

    None where they cannot be read: who rebuilds the run reports that.
    """
    digests: set[bytes] = set()
    try:
        if loaded.checkpoint is not None:
            digests.update(_content(loaded.checkpoint.data).blobs)
        for segment in loaded.segments:
            if _REFERENCE not in segment.events:  # the usual case, and cheaper than reading it twice
                continue
            for entry in decode_segment(segment.events, run, segment.first):
                digests.update(needed(entry.event))
    except (CheckpointUnusable, StoreCorrupt):
        return []
    return sorted(digests)


async def load(store: p.Store, runs: Sequence[p.Run], *, whole: bool = False) -> dict[p.Key, p.Loaded]:
    """The journals of these runs, or their checkpoints with the entries after, and the blobs that these need. Of the
    signals that a run carries from earlier generations only some are read.

    The ``whole`` journals are read where a checkpoint cannot be used. Raises StoreCorrupt where one of those signals is
    damaged.
    """
    loaded = await store.load([run.key for run in runs], whole=whole)
    for run in runs:
        journal = loaded.get(run.key)
        if journal is not None and (digests := blobs_needed(journal, PromiseId(run.root))):
            blobs = await store.blobs(run.key.tenant, digests)
            journal = loaded[run.key] = msgspec.structs.replace(journal, blobs=blobs)
        if journal is not None and (signals := carried_signals(journal, PromiseId(run.root))) is not None:
            await read_ahead(store, run.key.tenant, signals, journal.blobs, AHEAD)
    return loaded


def carried_signals(loaded: p.Loaded, run: PromiseId) -> Payload | None:
    """The signals that a loaded journal begins with; None where it is damaged: who rebuilds the run reports that."""
    first = loaded.segments[0] if loaded.segments else None
    if first is None or first.first or MARK not in first.events:  # nearly always
        return None
    try:
        return carried_by(decode_segment(first.events, run, 0))
    except StoreCorrupt:
        return None
