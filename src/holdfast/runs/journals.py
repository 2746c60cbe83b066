"""Reading journals: entries in order, large payloads brought back, page by page."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Final

from holdfast.errors import EngineError, RunNotFound, StoreCorrupt
from holdfast.journal import events as e
from holdfast.journal.blobs import hydrate, references
from holdfast.journal.codec import GENESIS, decode_segment
from holdfast.journal.promise import PromiseId
from holdfast.runs.hints import command
from holdfast.runs.losses import lost_start_words
from holdfast.runs.segments import verify
from holdfast.store.protocol import Key, Run, Store

PAGE: Final = 200


async def row_of(store: Store, key: Key) -> Run:
    """The run's row. Raises RunNotFound."""
    found = await store.get([key])
    if not found:
        raise RunNotFound(
            f"there is no run {key.run!r} in tenant {key.tenant!r}: "
            f"`{command('list', tenant=key.tenant)}` shows what is.{await lost_start_words(store, key)}"
        )
    return found[0]


async def read(
    store: Store, run: Run, first: int = 0, *, whole: bool = True, generation: int | None = None, page_size: int = PAGE
) -> AsyncIterator[e.Entry]:
    """The entries of a run's journal from ``first`` on. With ``whole`` large payloads are read too.

    ``page_size`` is how many segments are read at once: who wants few entries wants few of them.
    """
    number = run.generation if generation is None else generation
    root = PromiseId(run.root)
    at = first
    while True:
        page = await store.segments(run.key, number, at, page_size)
        for segment in page:
            for entry in decode_segment(segment.events, root, segment.first):
                if entry.sequence >= first:
                    yield await _hydrated(store, run.key.tenant, entry) if whole else entry
            at = segment.first + segment.count
        if len(page) < page_size:
            return


async def _hydrated(store: Store, tenant: str, entry: e.Entry) -> e.Entry:
    """The entry with its large payloads. Raises StoreCorrupt where one is missing or was altered."""
    blobs: dict[bytes, bytes] = {}
    for digest in references(entry.event):
        data = await store.blob(tenant, digest)
        if data is None or hashlib.sha256(data).digest() != digest:
            raise StoreCorrupt(
                f"the payload of sequence {entry.sequence} is {'missing' if data is None else 'altered'} "
                f"(blob {digest.hex()[:12]}…): restore the database from a backup."
            )
        blobs[digest] = data
    return e.Entry(entry.sequence, entry.timestamp, hydrate(entry.event, blobs)) if blobs else entry


async def last_event(store: Store, run: Run) -> e.Event:
    """The event that the journal ends with."""
    last: e.Event | None = None
    async for entry in read(store, run, max(0, run.version - 1)):
        last = entry.event
    if last is None:
        raise EngineError(f"the journal of run {run.key.run!r} is empty")
    return last


async def check_chain(store: Store, run: Run) -> AsyncIterator[e.Entry]:
    """The entries of a journal, each segment checked against its hash, and the last against the row's.

    Raises StoreCorrupt at the first broken link.
    """
    root = PromiseId(run.root)
    head, at = GENESIS, 0
    while True:
        page = await store.segments(run.key, run.generation, at, PAGE)
        for segment in page:
            head = verify(segment, head, at)
            at += segment.count
            for entry in decode_segment(segment.events, root, segment.first):
                yield await _hydrated(store, run.key.tenant, entry)
        if len(page) < PAGE:
            break
    if at == run.version and head != run.head:
        raise StoreCorrupt(
            "the journal was replaced: its last hash is not the row's. Restore the database from a backup."
        )
