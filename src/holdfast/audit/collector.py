"""Gathering what a run's evidence is made of: its journals, its entries, and the blocks that hold them."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from bisect import bisect_right
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

import msgspec

from holdfast.audit.chain import FORMS, covered, head_of, whole
from holdfast.audit.evidence import Inputs, Journal, build
from holdfast.audit.keychain import Keychain
from holdfast.audit.keys import PublicKey, Signer
from holdfast.audit.merkle import DIGEST_BYTES
from holdfast.audit.outline import root_of
from holdfast.audit.records import UNREADABLE, Asked, decode
from holdfast.audit.retirement import check_ends, retired_by
from holdfast.errors import InvalidRequest, StoreCorrupt, StoreUnavailable
from holdfast.journal.blobs import references
from holdfast.journal.codec import GENESIS, decode_segment
from holdfast.runs.clock import Clock
from holdfast.runs.segments import verify
from holdfast.store.protocol import (
    EVIDENCE,
    AuditEntry,
    AuditQuery,
    Block,
    ChainEnd,
    File,
    KeptFile,
    Key,
    Run,
    Segment,
    Span,
    Store,
)

PAGE: Final = 500
SPAN_PAGE: Final = 2000
ASKED: Final = str(Asked.__struct_config__.tag)
PLACES: Final = 1000
"""How many entries' blocks to look for at a time: a block may carry the digests of a thousand."""


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
) -> Gathered:
    """Make the evidence of a run, of all its generations up to this one (its present one by default).

    Entries that are not sealed yet are left out and counted. Raises StoreCorrupt, KeyLocked, or InvalidRequest where
    there is no such generation.
    """
    number = run.generation if generation is None else generation
    if not 0 <= number <= run.generation:
        raise InvalidRequest(f"run {run.key.run} has generations 0 to {run.generation}, and {number} is none of them.")
    entries = (await _entries(store, [run]))[run.key]
    sealed = _sealed(entries)
    journals = [Journal(each, await _segments(store, run, each)) for each in range(number + 1)]
    blocks = _holding(run, sealed, await _blocks(store, [run.key.tenant] * len(sealed), sealed))
    blobs = await _blobs(store, run, journals) if values else {}
    signing = await Signing.of(keychain)
    ends = await _ends(store, blocks, signing)
    inputs = Inputs(run, number, journals, sealed, blocks, blobs, values, ends)
    return _gathered(inputs, len(entries) - len(sealed), signing, clock)


async def gather_whole(store: Store, keychain: Keychain, clock: Clock, runs: Sequence[Run]) -> AsyncIterator[Result]:
    """Make the evidence of several runs, in this order; each is given with its run.

    It is None where entries are not sealed yet, and an error where it cannot be made. What is read is read together:
    the store is asked as often for many runs as for one. Raises StoreUnavailable and KeyLocked.
    """
    entries = await _entries(store, runs)
    whole = [run for run in runs if all(entry.position is not None for entry in entries[run.key])]
    sealed = {run.key: _sealed(entries[run.key]) for run in whole}
    tenants = [run.key.tenant for run in whole for _ in sealed[run.key]]
    blocks = await _blocks(store, tenants, [entry for run in whole for entry in sealed[run.key]])
    first = await store.journals([run.key for run in whole if not run.generation])
    signing = await Signing.of(keychain)  # behind the blocks: whoever signed one of them is among the keys
    for run in runs:
        if run.key not in sealed:
            yield run, None
            continue
        try:
            held = _holding(run, sealed[run.key], blocks)
            journals = await _journals(store, run, first.get(run.key))
            ends = await _ends(store, held, signing)
            inputs = Inputs(run, run.generation, journals, sealed[run.key], held, ends=ends)
            yield run, _gathered(inputs, 0, signing, clock)
        except StoreUnavailable:
            raise
        except Exception as error:
            yield run, error
        await asyncio.sleep(0)  # a worker has more to do than to make evidence


async def _journals(store: Store, run: Run, first: list[Segment] | None) -> list[Journal]:
    """The journals of all generations. ``first`` is that of the first one, where it has been read."""
    if first is not None:
        return [Journal(0, _checked(first))]
    return [Journal(each, await _segments(store, run, each)) for each in range(run.generation + 1)]


class Signing(NamedTuple):
    """The keys of one moment: the last of them signs."""

    keys: list[PublicKey]
    signer: Signer

    @classmethod
    async def of(cls, keychain: Keychain) -> Signing:
        """Read once: a key that came between two readings would sign what does not list it. Raises KeyLocked."""
        return cls(*await keychain.present())


Result = tuple[Run, "Gathered | Exception | None"]


def _gathered(inputs: Inputs, unsealed: int, signing: Signing, clock: Clock) -> Gathered:
    data = build(inputs, signing.keys, signing.signer, clock.now())
    through = max((entry.position for entry in inputs.entries if entry.position is not None), default=-1)
    return Gathered(data, inputs.generation, unsealed, through)


def file_of(run: Run, gathered: Gathered, now: int) -> File:
    """A bundle as the file of its run that is kept."""
    kept = KeptFile(run.key, gathered.generation, EVIDENCE, gathered.sha256, len(gathered.data), now)
    return File(kept, gathered.data, gathered.through)


async def entries_of(store: Store, query: AuditQuery) -> AsyncIterator[AuditEntry]:
    """The audit, page by page: sealed entries by position, then the others."""
    last: AuditEntry | None = None
    while True:
        page = await store.entries(query, PAGE, last)
        for entry in page:
            yield entry
        if len(page) < PAGE:
            return
        last = page[-1]


async def entries_in(store: Store, spans: Sequence[Span]) -> AsyncIterator[AuditEntry]:
    """The entries of several runs, page by page, by sequence."""
    last: AuditEntry | None = None
    while page := await store.entries_in(spans, SPAN_PAGE, last):
        for entry in page:
            yield entry
        if len(page) < SPAN_PAGE:
            return
        last = page[-1]


async def asked_of(store: Store, keys: Sequence[Key]) -> dict[str, list[Asked]]:
    """What the audit says of the tasks of a tenant's runs, by task, in order. What cannot be read tells nothing."""
    found: dict[str, list[Asked]] = {}
    async for entry in entries_in(store, [Span(key, kind=ASKED) for key in keys]):
        try:
            record = decode(entry.body)
        except UNREADABLE:
            continue
        if isinstance(record, Asked):
            found.setdefault(record.task, []).append(record)
    return found


async def _entries(store: Store, runs: Sequence[Run]) -> dict[Key, list[AuditEntry]]:
    """The entries of runs, by sequence."""
    found: dict[Key, list[AuditEntry]] = {run.key: [] for run in runs}
    async for entry in entries_in(store, [Span(key) for key in found]):
        found[Key(entry.tenant, entry.run or "")].append(entry)
    return found


def _sealed(entries: Sequence[AuditEntry]) -> list[AuditEntry]:
    """Those that are sealed, by position."""
    return sorted((entry for entry in entries if entry.position is not None), key=lambda entry: entry.position or 0)


async def _segments(store: Store, run: Run, generation: int) -> list[Segment]:
    """A generation's journal, its hash chain checked: evidence of a broken one would be worth nothing."""
    found: list[Segment] = []
    while True:
        at = found[-1].first + found[-1].count if found else 0
        page = await store.segments(run.key, generation, at, PAGE)
        found += page
        if len(page) < PAGE:
            return _checked(found)


def _checked(segments: list[Segment]) -> list[Segment]:
    """A journal, its hash chain checked."""
    head, at = GENESIS, 0
    for segment in segments:
        head = verify(segment, head, at)
        at += segment.count
    return segments


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


async def _blocks(store: Store, tenants: Sequence[str], entries: Sequence[AuditEntry]) -> dict[str, list[Block]]:
    """The blocks that hold these entries, each of which is of the tenant at its place; by tenant, in their order."""
    found: defaultdict[str, dict[int, Block]] = defaultdict(dict)
    places = [(tenant, entry.position or 0) for tenant, entry in zip(tenants, entries, strict=True)]
    for at in range(0, len(places), PLACES):
        for block in await store.holders(places[at : at + PLACES]):
            found[block.tenant][block.number] = block
    return {tenant: [blocks[number] for number in sorted(blocks)] for tenant, blocks in found.items()}


def _holding(run: Run, entries: Sequence[AuditEntry], blocks: Mapping[str, Sequence[Block]]) -> list[Block]:
    """Those of the blocks that hold these entries, which come by position. Raises StoreCorrupt where one is missing."""
    tenant, found = run.key.tenant, list[Block]()
    here = blocks.get(tenant, ())
    starts = [block.first for block in here]
    for entry in entries:
        at = entry.position or 0
        if found and at in covered(found[-1]):
            continue
        index = bisect_right(starts, at) - 1
        if index < 0 or at not in covered(here[index]):
            raise StoreCorrupt(f"no block of tenant {tenant} holds entry {at}: restore the database from a backup.")
        holder = here[index]
        if holder.form not in FORMS or len(holder.digests) != holder.count * DIGEST_BYTES:
            raise StoreCorrupt(
                f"block {holder.number} of tenant {tenant} was altered: restore the database from a backup."
            )
        found.append(holder)
    return found


async def _ends(store: Store, blocks: Sequence[Block], signing: Signing) -> dict[int, list[ChainEnd]]:
    """The ends that came with the keys that retired a signer of these blocks.

    Whoever signs the evidence vouches for such blocks. So each must lead to its end by its hashes: with an old key
    another could be signed and put in its place. Raises StoreCorrupt.
    """
    found: dict[int, list[ChainEnd]] = {}
    old = [(by, block) for block in blocks if (by := retired_by(signing.keys, block.signer)) is not None]
    for by, held in itertools.groupby(old, key=itemgetter(0)):
        ends = found[by.number] = await store.chain_ends(by.number)
        if problem := check_ends([by], found):
            raise StoreCorrupt(f"{problem} Restore the database from a backup.")
        shown = {block.number: block for _, block in held}
        first = shown[min(shown)]
        end = next((end for end in ends if end.tenant == first.tenant), None)
        if end is None or not await _leads(store, shown, end):
            raise StoreCorrupt(
                f"block {first.number} of tenant {first.tenant} does not lead to the end of the chain that key {by.id} "
                "signed for: it was put there later. Restore the database from a backup."
            )
    return found


async def _leads(store: Store, shown: Mapping[int, Block], end: ChainEnd) -> bool:
    """Whether the hashes lead from the first of these blocks, over the others, to the end that a key signed for."""
    number, last = min(shown), max(shown)
    head = shown[number].previous
    while number <= end.number:
        page = (await store.blocks(end.tenant, number, PAGE))[: end.number + 1 - number]
        for block in page:
            if block.previous != head or shown.get(block.number, block) != block:
                return False
            head = head_of(whole(block))
        if not page:
            return False
        number += len(page)
    return last <= end.number and head == end.head
