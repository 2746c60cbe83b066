"""Gathering what a run's evidence is made of: its journals, its entries, and the blocks that hold them."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec

from holdfast.errors import InvalidRequest, StoreCorrupt
from holdfast.gate.chain import FORMS
from holdfast.gate.evidence import Inputs, Journal, build
from holdfast.gate.merkle import DIGEST_BYTES
from holdfast.gate.outline import root_of
from holdfast.journal.blobs import references
from holdfast.journal.codec import GENESIS, decode_segment
from holdfast.store.protocol import EVIDENCE, Artefact, AuditQuery, Block, Entry, File, Run, Segment, Store
from holdfast.worker.clock import Clock
from holdfast.worker.sealing import verify
from holdfast.worker.signing import Keychain

PAGE: Final = 500


class Gathered(msgspec.Struct, frozen=True, gc=False):
    """A bundle, the generation it is about, how many entries were left out because nothing seals them yet, and the
    position of the last one that is in it, -1 where there is none."""

    data: bytes
    generation: int
    unsealed: int
    through: int

    @property
    def sha256(self) -> bytes:
        return hashlib.sha256(self.data).digest()


async def gather(
    store: Store,
    keychain: Keychain,
    clock: Clock,
    run: Run,
    *,
    generation: int | None = None,
    values: bool = False,
    whole: bool = True,
) -> Gathered | None:
    """Make the evidence of a run, of all its generations up to this one (its present one by default).

    With ``whole`` it gives None where entries are not sealed yet; else they are left out and counted. Raises
    StoreCorrupt, KeyLocked, or InvalidRequest where there is no such generation.
    """
    number = run.generation if generation is None else generation
    if not 0 <= number <= run.generation:
        raise InvalidRequest(f"run {run.key.run} has generations 0 to {run.generation}, and {number} is none of them.")
    entries = [entry async for entry in entries_of(store, AuditQuery(run.key.tenant, run.key.run))]
    sealed = [entry for entry in entries if entry.position is not None]
    if whole and len(sealed) < len(entries):
        return None
    journals = [Journal(each, await _segments(store, run, each)) for each in range(number + 1)]
    blocks = await _blocks(store, run.key.tenant, sealed)
    blobs = await _blobs(store, run, journals) if values else {}
    inputs = Inputs(run, number, journals, sealed, blocks, blobs, values)
    data = build(inputs, await keychain.published(), await keychain.signer(), clock.now())
    through = max((entry.position for entry in sealed if entry.position is not None), default=-1)
    return Gathered(data, number, len(entries) - len(sealed), through)


def file_of(run: Run, gathered: Gathered, now: int) -> File:
    """A bundle as the file of its run that is kept."""
    artefact = Artefact(run.key, gathered.generation, EVIDENCE, gathered.sha256, len(gathered.data), now)
    return File(artefact, gathered.data, gathered.through)


async def entries_of(store: Store, query: AuditQuery) -> AsyncIterator[Entry]:
    """The audit, page by page: sealed entries by position, then the others."""
    last: Entry | None = None
    while True:
        page = await store.entries(query, PAGE, last)
        for entry in page:
            yield entry
        if len(page) < PAGE:
            return
        last = page[-1]


async def _segments(store: Store, run: Run, generation: int) -> list[Segment]:
    """A generation's journal, its hash chain checked: evidence of a broken one would be worth nothing."""
    found: list[Segment] = []
    head, at = GENESIS, 0
    while True:
        page = await store.segments(run.key, generation, at, PAGE)
        for segment in page:
            head = verify(segment, head, at)
            at += segment.count
        found += page
        if len(page) < PAGE:
            return found


async def _blobs(store: Store, run: Run, journals: Sequence[Journal]) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for journal in journals:
        root = root_of(journal.segments)
        for segment in journal.segments:
            for entry in decode_segment(segment.events, root, segment.first):
                for digest in references(entry.event):
                    if digest not in found:
                        found[digest] = await _blob(store, run, digest)
    return found


async def _blob(store: Store, run: Run, digest: bytes) -> bytes:
    data = await store.blob(run.key.tenant, digest)
    if data is None or hashlib.sha256(data).digest() != digest:
        state = "missing" if data is None else "altered"
        raise StoreCorrupt(f"blob {digest.hex()[:12]}… is {state}: restore the database from a backup.")
    return data


async def _blocks(store: Store, tenant: str, entries: Sequence[Entry]) -> list[Block]:
    """The blocks that hold these entries, which come by position. Raises StoreCorrupt where one is missing."""
    found: list[Block] = []
    newest = await store.blocks(tenant, -1, 1)
    for entry in entries:
        at = entry.position or 0
        if found and at < found[-1].first + found[-1].count:
            continue
        low = found[-1].number + 1 if found else 0
        holder = await _holder(store, tenant, at, low, newest[0].number) if newest else None
        if holder is None:
            raise StoreCorrupt(f"no block of tenant {tenant} holds entry {at}: restore the database from a backup.")
        if holder.form not in FORMS or len(holder.digests) != holder.count * DIGEST_BYTES:
            raise StoreCorrupt(
                f"block {holder.number} of tenant {tenant} was altered: restore the database from a backup."
            )
        found.append(holder)
    return found


async def _holder(store: Store, tenant: str, at: int, low: int, high: int) -> Block | None:
    """The block that holds a position: blocks are in the order of their entries.

    Most that are looked for are among the last: go back in leaps that double, and then halve what is between.
    """
    leap = 1
    while low <= high:
        middle = max(low, high + 1 - leap) if leap else (low + high) // 2
        page = await store.blocks(tenant, middle, 1)
        if not page or page[0].first > at:
            high = middle - 1
            leap *= 2
        elif page[0].first + page[0].count <= at:
            low = max(middle, page[0].number) + 1
            leap = 0
        else:
            return page[0]
    return None
