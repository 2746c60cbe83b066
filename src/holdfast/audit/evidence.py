"""Evidence: one file that proves what a governed run did, and that can be checked without anything else.

The bundle is a zip (see ``bundles``) of:

- ``manifest.json``: the run, who made the bundle and when, and every other file with its size and hash;
- ``manifest.sig``: the Ed25519 signature of ``format || 0 || manifest.json``, 64 bytes;
- ``journal.json``: the journals in outline, without values;
- ``entries.jsonl``: the run's audit entries as they were written, with their positions in the tenant's chain;
- ``blocks.json``: the signed blocks that hold them, with the hashes that prove it;
- ``people.jsonl``: where the tenant has users, the entries that show who the people in the run's entries were;
- ``keys.json``: the public keys, each endorsed by the one before it;
- ``costs.json``: the costs, summed from the receipts;
- ``summary.html``: a page with all that, for people;
- ``definitions/DIGEST.cbor``: the canonical definitions that the journals name: the run's own, and those that it runs;
- with values: ``journal/N.cbor``, the segments of generation N end to end, and ``blobs/HASH``, its large payloads and
  the files of answers.

The same inputs give the same bytes. A bundle is of the fourth format where it shows users, of the third where one of
its keys retires those before it, and else of the second, which has neither. Earlier versions made bundles of the first
format: their blocks carry the digests of all their entries, and do not name their form.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from holdfast.audit import records, summary
from holdfast.audit.bundles import pack
from holdfast.audit.chain import CHAIN, Excerpt, covered, excerpt
from holdfast.audit.facts import CostLine, RunLine
from holdfast.audit.keys import PublicKey, Signer
from holdfast.audit.merkle import DIGEST_BYTES
from holdfast.audit.outline import outline
from holdfast.audit.retirement import ShownEnd, prove
from holdfast.errors import StoreCorrupt
from holdfast.store.governance import AuditEntry, Block, ChainEnd
from holdfast.store.rows import Run
from holdfast.store.values import ENDED, Segment

FIRST_FORMAT: Final = "holdfast.evidence.1"
SECOND_FORMAT: Final = "holdfast.evidence.2"
FORMAT: Final = "holdfast.evidence.3"
USERS_FORMAT: Final = "holdfast.evidence.4"
READABLE: Final = (FIRST_FORMAT, SECOND_FORMAT, FORMAT, USERS_FORMAT)
PEOPLE: Final = "people.jsonl"
MANIFEST: Final = "manifest.json"
SIGNATURE: Final = "manifest.sig"


class FileLine(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A file of the bundle."""

    name: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The run that the bundle is about, and the list of its files."""

    format: str
    made_at: int
    signer: str
    values: bool
    run: RunLine
    files: list[FileLine]


class EntryLine(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """An entry of the audit; ``body`` is its JSON as it was written, byte for byte."""

    position: int
    tenant: str
    run: str | None
    kind: str
    at: int
    body: str


class BlockLine(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A block; hashes and signature are hexadecimal.

    ``digests`` are those of the entries at these ``positions``, and ``hashes`` lead from them to the head. A block of
    the first form has the digests of all its entries, and neither positions nor hashes.
    """

    tenant: str
    number: int
    first: int
    count: int
    previous: str
    head: str
    digests: list[str]
    sealed_at: int
    signer: str
    signature: str
    form: int = 1
    positions: list[int] = []
    hashes: list[str] = []


class EndLine(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The last block of the tenant's chain when a key was made, its index among the ends of all chains, and the hashes
    that lead from it to their root, hexadecimal."""

    number: int
    head: str
    place: int
    hashes: list[str]


class KeyLine(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    """A public key; its bytes, its endorsement and its retirement of the keys before it are hexadecimal.

    ``end`` is given where one of those keys signed a block.
    """

    number: int
    id: str
    public: str
    created_at: int
    endorsement: str
    chains: int = 0
    heads: str = ""
    retirement: str = ""
    end: EndLine | None = None


class Journal(msgspec.Struct, frozen=True, gc=False):
    """The journal of one generation, as it is stored."""

    generation: int
    segments: list[Segment]


class Inputs(msgspec.Struct, frozen=True, gc=False):
    """The inputs of a bundle. ``entries`` are sealed, by position; ``blocks`` hold them all.

    ``ends`` are the ends of chains that came with the keys that retired a signer of these blocks, by the key's number.
    """

    run: Run
    generation: int
    journals: list[Journal]
    entries: list[AuditEntry]
    blocks: list[Block]
    blobs: Mapping[bytes, bytes] = {}
    values: bool = False
    ends: Mapping[int, Sequence[ChainEnd]] = {}
    definitions: Mapping[str, bytes] = {}
    people: list[AuditEntry] = []


def build(inputs: Inputs, keys: Sequence[PublicKey], signer: Signer, made_at: int) -> bytes:
    """The bundle. Raises StoreCorrupt where a journal cannot be read, InvalidRequest where it is too large."""
    recorded = [(entry.position or 0, _record(entry)) for entry in inputs.entries]
    hidden = secretive(record for _, record in recorded)
    journals = [outline(journal.generation, journal.segments, hidden) for journal in inputs.journals]
    facts = _facts(inputs, recorded)
    spent = costs(record for _, record in recorded)
    files = {
        "journal.json": _json(journals),
        "entries.jsonl": _lines(inputs.entries),
        **({PEOPLE: _lines(inputs.people)} if inputs.people else {}),
        "blocks.json": _json([block_line(shown) for shown in _excerpts(inputs)]),
        "keys.json": _json([key_line(key, inputs.ends.get(key.number, ()), inputs.run.key.tenant) for key in keys]),
        "costs.json": _json(spent),
        "summary.html": summary.page(facts, recorded, journals, spent).encode(),
        **{definition_file(digest): data for digest, data in inputs.definitions.items()},
        **_values(inputs),
    }
    lines = [FileLine(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in sorted(files.items())]
    format = _format(inputs, keys)
    manifest = _json(Manifest(format, made_at, signer.id, inputs.values, facts, lines))
    return pack({**files, MANIFEST: manifest, SIGNATURE: signer.sign(signed_message(manifest, format))})


def _format(inputs: Inputs, keys: Sequence[PublicKey]) -> str:
    if inputs.people:
        return USERS_FORMAT
    return FORMAT if any(key.retirement for key in keys) else SECOND_FORMAT


def _lines(entries: Sequence[AuditEntry]) -> bytes:
    return b"".join(msgspec.json.encode(entry_line(entry)) + b"\n" for entry in entries)


def signed_message(manifest: bytes, format: str) -> bytes:
    """The bytes that the signature of a manifest is over."""
    return format.encode() + b"\0" + manifest


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def _values(inputs: Inputs) -> dict[str, bytes]:
    if not inputs.values:
        return {}
    raw = {journal_name(j.generation): b"".join(segment.events for segment in j.segments) for j in inputs.journals}
    return {**raw, **{f"blobs/{digest.hex()}": data for digest, data in inputs.blobs.items()}}


DEFINITIONS: Final = "definitions/"


def definition_file(digest: str) -> str:
    """The file of a definition, by its digest in hexadecimal."""
    return f"{DEFINITIONS}{digest}.cbor"


def journal_name(generation: int) -> str:
    """The file of a generation's raw segments."""
    return f"journal/{generation}.cbor"


def _facts(inputs: Inputs, recorded: Sequence[tuple[int, records.Record]]) -> RunLine:
    run = inputs.run
    present = inputs.generation == run.generation
    ends = [r for _, r in recorded if isinstance(r, records.Ended) and r.generation == inputs.generation]
    return RunLine(
        id=run.key.run,
        tenant=run.key.tenant,
        workflow=run.workflow,
        generation=inputs.generation,
        standing=run.standing if present else ends[-1].standing if ends else "renewed",
        ended=run.standing in ENDED if present else bool(ends),
        governed=run.governed,
        workspace=run.workspace,
        actor=run.actor,
        trigger_type=run.trigger_type,
        trigger_ref=run.trigger_ref,
        parent=run.parent,
        forked_from=run.attributes.get("forked_from"),
        created_at=run.created_at,
        ended_at=run.ended_at if present else ends[-1].at if ends else None,
        program_kind=run.program_kind,
    )


def _record(entry: AuditEntry) -> records.Record:
    try:
        return records.decode(entry.body)
    except records.UNREADABLE as error:
        raise StoreCorrupt(
            f"entry {entry.position} of the audit of tenant {entry.tenant} cannot be read ({error}): it was altered. "
            "`holdfast audit verify` shows what else was; restore the database from a backup."
        ) from error


def secretive(recorded: Iterable[records.Record]) -> set[str]:
    """The promises whose inputs hold secrets."""
    return {
        record.promise
        for record in recorded
        if isinstance(record, records.Decided) and "secret" in record.fields.values()
    }


def costs(recorded: Iterable[records.Record]) -> list[CostLine]:
    """The costs of the receipts: numbers are added up for each provider, model and other text.

    An attempt counts once, by its last receipt. A reused result costs nothing.
    """
    attempts: dict[tuple[str, int], Mapping[str, float | str]] = {}
    for record in recorded:
        if isinstance(record, records.Receipted) and record.cost and record.state != "reused":
            attempts[record.receipt, record.attempt] = record.cost
    sums: dict[tuple[tuple[str, str], ...], dict[str, list[float]]] = {}
    for cost in attempts.values():
        words = tuple(sorted((name, value) for name, value in cost.items() if isinstance(value, str)))
        numbers = sums.setdefault(words, {"receipts": []})
        numbers["receipts"].append(1)
        for name, value in cost.items():
            if not isinstance(value, str):
                numbers.setdefault(name, []).append(value)
    return [CostLine(dict(words), {n: math.fsum(v) for n, v in sorted(sums[words].items())}) for words in sorted(sums)]


def entry_line(entry: AuditEntry) -> EntryLine:
    """The line of an entry."""
    return EntryLine(entry.position or 0, entry.tenant, entry.run, entry.kind, entry.at, entry.body.decode())


def entry_of(line: EntryLine) -> AuditEntry:
    """The entry of a line."""
    return AuditEntry(0, line.tenant, line.run, line.kind, line.at, line.body.encode(), line.position)


def _excerpts(inputs: Inputs) -> list[Excerpt]:
    """The part of each block that proves that it holds the entries."""
    shown = (*inputs.entries, *inputs.people)
    positions = sorted(entry.position for entry in shown if entry.position is not None)
    ends = [(block, covered(block)) for block in inputs.blocks]
    return [
        excerpt(block, positions[bisect_left(positions, at.start) : bisect_left(positions, at.stop)])
        for block, at in ends
    ]


def block_line(shown: Excerpt) -> BlockLine:
    """The line of a part of a block."""
    block = shown.block
    return BlockLine(
        tenant=block.tenant,
        number=block.number,
        first=block.first,
        count=block.count,
        previous=block.previous.hex(),
        head=block.head.hex(),
        digests=[digest.hex() for digest in shown.digests.values()],
        sealed_at=block.sealed_at,
        signer=block.signer,
        signature=block.signature.hex(),
        form=block.form,
        positions=list(shown.digests) if block.form != CHAIN else [],
        hashes=[each.hex() for each in shown.hashes],
    )


def excerpt_of(line: BlockLine) -> Excerpt:
    """The part of a block that a line has. Raises ValueError where a line is not in its one canonical form."""
    digests = [bytes.fromhex(digest) for digest in line.digests]
    hashes = [bytes.fromhex(each) for each in line.hashes]
    if any(len(each) != DIGEST_BYTES for each in (*digests, *hashes)):
        raise ValueError(f"a digest of block {line.number} does not have {DIGEST_BYTES} bytes")
    if line.form == CHAIN and (line.positions or line.hashes):
        raise ValueError(f"block {line.number} is of the first form, and shows more than its digests")
    if any(after <= before for before, after in pairwise(line.positions)):
        raise ValueError(f"the positions that block {line.number} shows are out of their order")
    positions = line.positions if line.form != CHAIN else range(line.first, line.first + len(digests))
    block = Block(
        line.tenant,
        line.number,
        line.first,
        line.count,
        bytes.fromhex(line.previous),
        bytes.fromhex(line.head),
        b"",
        line.sealed_at,
        line.signer,
        bytes.fromhex(line.signature),
        line.form,
    )
    return Excerpt(block, dict(zip(positions, digests, strict=True)), hashes)


def key_line(key: PublicKey, ends: Sequence[ChainEnd], tenant: str) -> KeyLine:
    """The line of a key. ``ends`` are the ends of chains that came with it, where it retired a signer."""
    shown = prove(ends, tenant)
    return KeyLine(
        key.number,
        key.id,
        key.public.hex(),
        key.created_at,
        key.endorsement.hex(),
        key.chains,
        key.heads.hex(),
        key.retirement.hex(),
        None if shown is None else _end_line(shown),
    )


def _end_line(shown: ShownEnd) -> EndLine:
    hashes = [each.hex() for each in shown.hashes]
    return EndLine(shown.end.number, shown.end.head.hex(), shown.place, hashes)


def key_of(line: KeyLine) -> PublicKey:
    """The key of a line. Raises ValueError."""
    return PublicKey(
        line.number,
        line.id,
        bytes.fromhex(line.public),
        line.created_at,
        bytes.fromhex(line.endorsement),
        line.chains,
        bytes.fromhex(line.heads),
        bytes.fromhex(line.retirement),
    )


def end_of(line: KeyLine, tenant: str) -> ShownEnd | None:
    """The end of the tenant's chain that a key's line has. Raises ValueError."""
    if line.end is None:
        return None
    end = ChainEnd(tenant, line.end.number, bytes.fromhex(line.end.head))
    return ShownEnd(end, line.end.place, [bytes.fromhex(each) for each in line.end.hashes])
