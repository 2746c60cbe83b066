"""Collects the parts of a run's evidence: its journals, its entries, and the blocks that hold them."""

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
from holdfast.audit.definitions import named_definitions, read_definitions
from holdfast.audit.evidence import Inputs, Journal, build
from holdfast.audit.keychain import Keychain
from holdfast.audit.keys import PublicKey, Signer
from holdfast.audit.merkle import DIGEST_BYTES
from holdfast.audit.outline import root_of
from holdfast.audit.records import UNREADABLE, Asked, decode
from holdfast.audit.retirement import check_ends, retired_by
from holdfast.audit.users import user_entries
from holdfast.errors import InvalidRequest, StoreCorrupt, StoreUnavailable
from holdfast.journal import events as e
from holdfast.journal.blobs import references
from holdfast.journal.codec import GENESIS, decode_segment
from holdfast.runs.carried import read_all
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
"""For how many entries to read the blocks at a time: a block may carry the digests of a thousand entries."""


class Gathered(msgspec.Struct, frozen=True, gc=False):
    """A bundle and the generation it is about. ``unsealed`` is how many entries are not in it because they are not
    sealed yet. ``through`` is the position of the last entry in it, -1 where there is none."""

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
    people = (await user_entries(store, {run.key: sealed}))[run.key]
    journals = [Journal(each, await _segments(store, run, each)) for each in range(number + 1)]
    shown = _sealed([*sealed, *people])
    blocks = _holding(run, shown, await _blocks(store, [run.key.tenant] * len(shown), shown))
    blobs = await _blobs(store, run, journals, sealed) if values else {}
    definitions = await _definitions(store, run, journals)
    signing = await Signing.of(keychain)
    ends = await ends_of(store, blocks, signing)
    inputs = Inputs(run, number, journals, sealed, blocks, blobs, values, ends, definitions, people)
    return _gathered(inputs, len(entries) - len(sealed), signing, clock)


async def gather_whole(store: Store, keychain: Keychain, clock: Clock, runs: Sequence[Run]) -> AsyncIterator[Result]:
    """Make the evidence of several runs, in this order; each is given with its run.

    It is None where entries are not sealed yet, and an error where it cannot be made. The runs are read together: many
    runs take as many reads as one. Raises StoreUnavailable and KeyLocked.
    """
    entries = await _entries(store, runs)
    whole = [run for run in runs if all(entry.position is not None for entry in entries[run.key])]
    sealed = {run.key: _sealed(entries[run.key]) for run in whole}
    people = await user_entries(store, sealed)
    shown = {key: _sealed([*sealed[key], *people[key]]) for key in sealed}
    tenants = [run.key.tenant for run in whole for _ in shown[run.key]]
    blocks = await _blocks(store, tenants, [entry for run in whole for entry in shown[run.key]])
    first = await store.journals([run.key for run in whole if not run.generation])
    signing = await Signing.of(keychain)  # read after the blocks, so that the signer of each block is among the keys
    for run in runs:
        if run.key not in sealed:
            yield run, None
            continue
        try:
            holding = _holding(run, shown[run.key], blocks)
            journals = await _journals(store, run, first.get(run.key))
            ends = await ends_of(store, holding, signing)
            definitions = await _definitions(store, run, journals)
            inputs = Inputs(
                run,
                run.generation,
                journals,
                sealed[run.key],
                holding,
                ends=ends,
                definitions=definitions,
                people=people[run.key],
            )
            yield run, _gathered(inputs, 0, signing, clock)
        except StoreUnavailable:
            raise
        except Exception as error:
            yield run, error
        await asyncio.sleep(0)  # let the worker's other tasks run


async def _journals(store: Store, run: Run, first: list[Segment] | None) -> list[Journal]:
    """The journals of all generations. ``first`` is that of the first one, where it has been read."""
    if first is not None:
        return [Journal(0, _checked(first))]
    return [Journal(each, await _segments(store, run, each)) for each in range(run.generation + 1)]


class Signing(NamedTuple):
    """All keys at one moment. The last of them signs."""

    keys: list[PublicKey]
    signer: Signer

    @classmethod
    async def of(cls, keychain: Keychain) -> Signing:
        """Read keys and signer together. Raises KeyLocked.

        With two reads, a key that was added between them would sign a bundle that does not list it.
        """
        return cls(*await keychain.present())


Result = tuple[Run, "Gathered | Exception | None"]


def _gathered(inputs: Inputs, unsealed: int, signing: Signing, clock: Clock) -> Gathered:
    data = build(inputs, signing.keys, signing.signer, clock.now())
    through = max((entry.position for entry in inputs.entries if entry.position is not None), default=-1)
    return Gathered(data, inputs.generation, unsealed, through)


def file_of(run: Run, gathered: Gathered, now: int) -> File:
    """A bundle as the file that is stored for its run."""
    kept = KeptFile(run.key, gathered.generation, EVIDENCE, gathered.sha256, len(gathered.data), now)
    return File(kept, gathered.data, gathered.through)


async def entries_of(store: Store, query: AuditQuery, last: AuditEntry | None = None) -> AsyncIterator[AuditEntry]:
    """The audit behind ``last``, page by page: sealed entries by position, then the others."""
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


async def asked_of(store: Store, tenant: str, tasks: Sequence[str]) -> dict[str, list[Asked]]:
    """The entries of each of these tasks of a tenant, in order. Unreadable entries are skipped."""
    records_by_task: dict[str, list[Asked]] = {task: [] for task in tasks}
    for at in range(0, len(tasks), PAGE):
        for entry in await store.entries_of_tasks(tenant, tasks[at : at + PAGE]):
            try:
                record = decode(entry.body)
            except UNREADABLE:
                continue
            if isinstance(record, Asked) and record.task in records_by_task:
                records_by_task[record.task].append(record)
    return records_by_task


async def _entries(store: Store, runs: Sequence[Run]) -> dict[Key, list[AuditEntry]]:
    """The entries of runs, by sequence."""
    entries_by_run: dict[Key, list[AuditEntry]] = {run.key: [] for run in runs}
    async for entry in entries_in(store, [Span(key) for key in entries_by_run]):
        entries_by_run[Key(entry.tenant, entry.run or "")].append(entry)
    return entries_by_run


def _sealed(entries: Sequence[AuditEntry]) -> list[AuditEntry]:
    """The sealed entries, by position."""
    return sorted((entry for entry in entries if entry.position is not None), key=lambda entry: entry.position or 0)


async def _segments(store: Store, run: Run, generation: int) -> list[Segment]:
    """A generation's journal, its hash chain checked: evidence of a broken journal would be worthless."""
    segments: list[Segment] = []
    while True:
        at = segments[-1].first + segments[-1].count if segments else 0
        page = await store.segments(run.key, generation, at, PAGE)
        segments += page
        if len(page) < PAGE:
            return _checked(segments)


def _checked(segments: list[Segment]) -> list[Segment]:
    """A journal, its hash chain checked."""
    head, at = GENESIS, 0
    for segment in segments:
        head = verify(segment, head, at)
        at += segment.count
    return segments


async def _definitions(store: Store, run: Run, journals: Sequence[Journal]) -> dict[str, bytes]:
    return await read_definitions(store, run, named_definitions(run, [journal.segments for journal in journals]))


async def _blobs(
    store: Store, run: Run, journals: Sequence[Journal], entries: Sequence[AuditEntry]
) -> dict[bytes, bytes]:
    """The large payloads of the journals, and the files that came with answers."""
    blobs = {digest: await _blob(store, run, digest) for digest in _files(entries)}
    for journal in journals:
        root = root_of(journal.segments)
        for segment in journal.segments:
            for entry in decode_segment(segment.events, root, segment.first):
                for digest in references(entry.event):
                    if digest not in blobs:
                        blobs[digest] = await _blob(store, run, digest)
                if isinstance(entry.event, e.ExecutionStarted) and entry.event.signals is not None:
                    blobs |= await read_all(store, run.key.tenant, entry.event.signals, blobs)
    return blobs


def _files(entries: Sequence[AuditEntry]) -> set[bytes]:
    """The digests of the files that came with answers, by their entries."""
    asked = [decode(entry.body) for entry in entries if entry.kind == ASKED]
    return {bytes.fromhex(file.sha256 or "") for each in asked if isinstance(each, Asked) for file in each.files}


async def _blob(store: Store, run: Run, digest: bytes) -> bytes:
    data = await store.blob(run.key.tenant, digest)
    if data is None or hashlib.sha256(data).digest() != digest:
        state = "missing" if data is None else "altered"
        raise StoreCorrupt(f"blob {digest.hex()[:12]}… is {state}: restore the database from a backup.")
    return data


async def _blocks(store: Store, tenants: Sequence[str], entries: Sequence[AuditEntry]) -> dict[str, list[Block]]:
    """The blocks that hold these entries, by tenant, in order. The tenant of each entry is at the same index."""
    by_number: defaultdict[str, dict[int, Block]] = defaultdict(dict)
    places = [(tenant, entry.position or 0) for tenant, entry in zip(tenants, entries, strict=True)]
    for at in range(0, len(places), PLACES):
        for block in await store.holders(places[at : at + PLACES]):
            by_number[block.tenant][block.number] = block
    return {tenant: [blocks[number] for number in sorted(blocks)] for tenant, blocks in by_number.items()}


def _holding(run: Run, entries: Sequence[AuditEntry], blocks: Mapping[str, Sequence[Block]]) -> list[Block]:
    """The blocks that hold these entries, which are ordered by position. Raises StoreCorrupt where one is missing."""
    tenant, holding = run.key.tenant, list[Block]()
    here = blocks.get(tenant, ())
    starts = [block.first for block in here]
    for entry in entries:
        at = entry.position or 0
        if holding and at in covered(holding[-1]):
            continue
        index = bisect_right(starts, at) - 1
        if index < 0 or at not in covered(here[index]):
            raise StoreCorrupt(f"no block of tenant {tenant} holds entry {at}: restore the database from a backup.")
        holder = here[index]
        if holder.form not in FORMS or len(holder.digests) != holder.count * DIGEST_BYTES:
            raise StoreCorrupt(
                f"block {holder.number} of tenant {tenant} was altered: restore the database from a backup."
            )
        holding.append(holder)
    return holding


async def ends_of(store: Store, blocks: Sequence[Block], signing: Signing) -> dict[int, list[ChainEnd]]:
    """The ends of chains that came with the keys that retired a signer of these blocks. Raises StoreCorrupt.

    The signer of the evidence vouches for such blocks. So the hashes of each must lead to its chain's end: a stolen old
    key could sign another block in its place.
    """
    ends_by_key: dict[int, list[ChainEnd]] = {}
    old = [(by, block) for block in blocks if (by := retired_by(signing.keys, block.signer)) is not None]
    for by, signed in itertools.groupby(old, key=itemgetter(0)):
        ends = ends_by_key[by.number] = await store.chain_ends(by.number)
        if problem := check_ends([by], ends_by_key):
            raise StoreCorrupt(f"{problem} Restore the database from a backup.")
        shown = {block.number: block for _, block in signed}
        first = shown[min(shown)]
        end = next((end for end in ends if end.tenant == first.tenant), None)
        if end is None or not await _leads(store, shown, end):
            raise StoreCorrupt(
                f"block {first.number} of tenant {first.tenant} does not lead to the end of the chain that key {by.id} "
                "signed for: it was put there later. Restore the database from a backup."
            )
    return ends_by_key


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
