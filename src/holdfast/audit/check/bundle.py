"""Checks evidence and audits by their bytes alone: without a store, a network or a clock.

A bundle is proved by a public key that the reader has from elsewhere. Without such a key, the check can only show that
the parts fit together: anyone could have made such a bundle and signed it with a new key.
"""

from __future__ import annotations

import hashlib
import heapq
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import msgspec

from holdfast.audit import evidence, records, summary
from holdfast.audit.bundles import unpack
from holdfast.audit.chain import CHAIN, Excerpt, check_block, check_entry, covered
from holdfast.audit.check.answers import check_answers
from holdfast.audit.check.chain import verify_audit
from holdfast.audit.check.claims import Claim, Findings, Verdict
from holdfast.audit.check.consistency import reconcile
from holdfast.audit.check.definitions import check_definitions
from holdfast.audit.check.signals import check_signals
from holdfast.audit.check.trust import ReaderKeys, trust
from holdfast.audit.check.users import check_users
from holdfast.audit.facts import CostLine
from holdfast.audit.keys import PublicKey, is_signed, key_id
from holdfast.audit.outline import EDITIONS, JournalLine, outline, root_of
from holdfast.audit.retirement import beyond, retired_by, shown_bound
from holdfast.errors import HoldfastError, InvalidRequest
from holdfast.journal import events as e
from holdfast.journal.codec import GENESIS, chain, decode_segment
from holdfast.store.governance import AuditEntry
from holdfast.store.values import Segment

__all__ = ["Claim", "Verdict", "verify_audit", "verify_bundle"]

_UNREADABLE: Final = (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError)
"""The errors that reading untrusted bytes may raise."""


def verify_bundle(
    data: bytes, public_keys: Collection[bytes] | None = None, retired: Collection[bytes] = ()
) -> Verdict:
    """Check a bundle. Never raises.

    ``public_keys`` are the raw public keys that the reader trusts. ``retired`` are those of them that are retired.
    """
    findings = Findings()
    try:
        files = unpack(data)
        manifest = _read(files, evidence.MANIFEST, evidence.Manifest)
    except InvalidRequest as error:
        findings.broken("bundle", str(error))
        return findings.verdict(trusted=False)
    if manifest.format not in evidence.READABLE:
        readable = " and ".join(evidence.READABLE)
        findings.broken("bundle", f"its format is {manifest.format!r}, and this Holdfast reads {readable}.")
        return findings.verdict(trusted=False)
    return _Bundle(files, manifest, findings).verify(ReaderKeys.of(public_keys, retired))


class _Bundle:
    """A bundle that could be opened, and the findings about it."""

    def __init__(self, files: Mapping[str, bytes], manifest: evidence.Manifest, findings: Findings) -> None:
        self._files = files
        self._manifest = manifest
        self._findings = findings

    def verify(self, reader: ReaderKeys | None) -> Verdict:
        findings = self._findings
        self._hashes()
        try:
            lines = self._keys()
            line = [evidence.key_of(key) for key in lines]
            blocks = self._blocks()
            entries, people = self._entries("entries.jsonl"), self._people()
            recorded = [(entry.position or 0, _record(entry)) for entry in entries]
            journals = self._list("journal.json", JournalLine)
            publics = {key_id(key.public): key.public for key in line}
            self._signature(line, publics)
            self._chain(blocks, list(heapq.merge(entries, people, key=lambda entry: entry.position or 0)), publics)
            self._retired(blocks, line, lines)
            self._owners(entries, recorded)
            self._journals(journals, recorded)
            reconcile(self._manifest.run, journals, recorded, findings)
            check_definitions(self._manifest.run, journals, recorded, self._files, findings)
            check_users(self._manifest.run, [(entry, _record(entry)) for entry in people], recorded, findings)
            self._derived(recorded, journals)
        except (InvalidRequest, *_UNREADABLE) as error:
            findings.broken("bundle", f"it cannot be read to its end: {error}")
            return findings.verdict(trusted=False)
        earlier = {shown.block.signer for shown in blocks}
        return findings.verdict(trusted=trust(line, self._manifest.signer, earlier, reader, findings))

    def _list(self, name: str, kind: Any) -> Any:
        return _read(self._files, name, list[kind])

    def _entries(self, name: str) -> list[AuditEntry]:
        lines = self._files.get(name, b"").splitlines()
        return [evidence.entry_of(msgspec.json.decode(line, type=evidence.EntryLine)) for line in lines]

    def _people(self) -> list[AuditEntry]:
        """The entries of users. The format says that there are some: nobody can leave them out without a trace."""
        if (self._manifest.format == evidence.USERS_FORMAT) != (evidence.PEOPLE in self._files):
            raise InvalidRequest(f"a bundle of format {self._manifest.format} has other files.")
        return self._entries(evidence.PEOPLE)

    def _keys(self) -> list[evidence.KeyLine]:
        lines: list[evidence.KeyLine] = self._list("keys.json", evidence.KeyLine)
        tells = self._manifest.format in (evidence.FORMAT, evidence.USERS_FORMAT)
        if not tells and any(key.retirement or key.end for key in lines):
            raise InvalidRequest(f"a bundle of format {self._manifest.format} says nothing of retired keys.")
        return lines

    def _blocks(self) -> list[Excerpt]:
        lines = self._list("blocks.json", evidence.BlockLine)
        if self._manifest.format == evidence.FIRST_FORMAT and any(line.form != CHAIN for line in lines):
            raise InvalidRequest(f"a bundle of format {self._manifest.format} has no blocks of another form.")
        return [evidence.excerpt_of(line) for line in lines]

    def _hashes(self) -> None:
        """Every file is the one that the manifest names, and there are no others."""
        listed = {file.name: file for file in self._manifest.files}
        bad = False
        for name in sorted({*listed, *self._files} - {evidence.MANIFEST, evidence.SIGNATURE}):
            if name not in self._files or name not in listed:
                problem = "is missing" if name in listed else "is not in the manifest: it was added"
            elif hashlib.sha256(self._files[name]).hexdigest() != listed[name].sha256:
                problem = "was altered: its hash is not the one in the manifest"
            elif len(self._files[name]) != listed[name].size:
                problem = "has another size than the manifest says"
            else:
                continue
            bad = True
            self._findings.broken("files", f"file {name} {problem}.")
        if not bad:
            self._findings.proved("files", f"all files ({len(listed)}) are those of the manifest.")

    def _signature(self, line: Sequence[PublicKey], publics: Mapping[str, bytes]) -> None:
        signer = self._manifest.signer
        signature = self._files.get(evidence.SIGNATURE, b"")
        message = evidence.signed_message(self._files[evidence.MANIFEST], self._manifest.format)
        problem = None
        if signer not in publics:
            problem = f"the manifest is signed by key {signer}, which is not in the bundle."
        elif not is_signed(publics[signer], signature, message):
            problem = f"the manifest was altered: its signature is not one of key {signer}."
        elif line[-1].id != signer:
            problem = f"the manifest is signed by key {signer}, which key {line[-1].id} in the same bundle has retired."
        made = summary.clock(self._manifest.made_at)
        self._findings.judge("manifest", problem, f"the manifest was signed by key {signer}, at {made} by its clock.")

    def _chain(self, blocks: Sequence[Excerpt], entries: Sequence[AuditEntry], publics: Mapping[str, bytes]) -> None:
        findings = self._findings
        problems = [problem for shown in blocks if (problem := check_block(shown, publics))]
        for before, after in pairwise(shown.block for shown in blocks):
            follows = after.number == before.number + 1
            if after.number <= before.number or after.first < before.first + before.count:
                problems.append(f"block {after.number} is out of its order, after block {before.number}.")
            elif follows and (after.previous, after.first) != (before.head, before.first + before.count):
                problems.append(f"block {after.number} does not follow from block {before.number}.")
        for problem in problems:
            findings.broken("blocks", problem)
        if not problems:
            findings.proved("blocks", f"all blocks ({len(blocks)}) follow from their digests and are signed.")
        self._inclusion(blocks, entries)

    def _retired(self, blocks: Sequence[Excerpt], line: Sequence[PublicKey], lines: Sequence[evidence.KeyLine]) -> None:
        """No retired key signed a block after its retirement. The manifest's signer vouches for its earlier blocks."""
        tenant = self._manifest.run.tenant
        ends = {key.number: evidence.end_of(key, tenant) for key in lines}
        for block in (shown.block for shown in blocks):
            by = retired_by(line, block.signer)
            if by is None:
                continue
            bound = shown_bound(by, ends.get(by.number))
            problem = f"the end that key {by.number} signed for was altered." if bound is None else beyond(block, bound)
            if problem is not None:
                self._findings.broken("blocks", problem)

    def _inclusion(self, blocks: Sequence[Excerpt], entries: Sequence[AuditEntry]) -> None:
        problems: list[str] = []
        last = -1
        ordered = sorted(blocks, key=lambda shown: shown.block.first)
        starts = [shown.block.first for shown in ordered]
        for entry in entries:
            at = entry.position or 0
            index = bisect_right(starts, at) - 1
            holder = ordered[index] if index >= 0 and at in covered(ordered[index].block) else None
            if at <= last:
                problems.append(f"entry {at} is out of its order, after entry {last}.")
            last = at
            problem = f"no block holds entry {at}." if holder is None else check_entry(holder, entry)
            if problem is not None:
                problems.append(problem)
        here = {entry.position for entry in entries}
        for shown in blocks:
            # A block of the first form carries the digests of all entries, those of other runs included.
            gone = [] if shown.block.form == CHAIN else [at for at in shown.digests if at not in here]
            problems += [f"entry {at} is missing: block {shown.block.number} shows that there is one." for at in gone]
        for problem in problems:
            self._findings.broken("entries", problem)
        if not problems:
            self._findings.proved("entries", f"all entries ({len(entries)}) are in a block, as they were sealed.")

    def _owners(self, entries: Sequence[AuditEntry], recorded: Sequence[tuple[int, records.Record]]) -> None:
        """The entries belong to this run, and their bodies name the same run and kind as their other fields."""
        run = self._manifest.run
        problems = [
            f"entry {at} is not one of run {run.id}, or its body names another run or kind."
            for entry, (at, record) in zip(entries, recorded, strict=True)
            if (entry.tenant, entry.run, record.run) != (run.tenant, run.id, run.id)
            or entry.kind != records.kind_of(record)
        ]
        for problem in problems:
            self._findings.broken("entries", problem)

    def _journals(self, journals: Sequence[JournalLine], recorded: Sequence[tuple[int, records.Record]]) -> None:
        hidden = evidence.secretive(record for _, record in recorded)
        for journal in journals:
            if problem := _outline_problem(journal):
                self._findings.broken("journal", problem)
            elif self._manifest.values:
                number = journal.generation
                raw = self._files.get(evidence.journal_name(number), b"")
                text = f"the bytes of the journal of generation {number} give its hashes and its outline."
                if self._findings.judge("values", _raw_problem(journal, raw, hidden), text):
                    entries, blobs = _raw_entries(journal, raw), self._blobs()
                    check_answers(entries, recorded, blobs, self._findings)
                    check_signals(number, entries, blobs, self._findings)
        if not self._manifest.values:
            self._findings.not_proved(
                "values",
                "the bundle was made without values, so the hashes of its journal cannot be computed from its events: "
                "only its signer vouches that the outline is that of the journal.",
            )
        for name in self._files:
            folder, _, digest = name.partition("/")
            if folder == "blobs" and hashlib.sha256(self._files[name]).hexdigest() != digest:
                self._findings.broken("values", f"file {name} is not the value of that hash.")

    def _blobs(self) -> dict[bytes, bytes]:
        """The values and files beside the journal, by their digests."""
        names = [name for name in self._files if name.startswith("blobs/")]
        return {hashlib.sha256(self._files[name]).digest(): self._files[name] for name in names}

    def _derived(self, recorded: Sequence[tuple[int, records.Record]], journals: Sequence[JournalLine]) -> None:
        """Costs and summary follow from the rest."""
        spent = self._list("costs.json", CostLine)
        is_right = spent == evidence.costs(record for _, record in recorded)
        problem = None if is_right else "the costs are not the sum of what the receipts cost."
        self._findings.judge("costs", problem, "the costs are the sum of what the receipts cost.")
        page = summary.page(self._manifest.run, recorded, journals, spent).encode()
        if page == self._files.get("summary.html"):
            self._findings.proved("summary", "the summary says what the entries say.")
        else:
            self._findings.not_proved("summary", "the summary is not what this version writes: believe the entries.")


def _read(files: Mapping[str, bytes], name: str, kind: Any) -> Any:
    """A file's content. Raises InvalidRequest."""
    if name not in files:
        raise InvalidRequest(f"file {name} is missing.")
    try:
        return msgspec.json.decode(files[name], type=kind)
    except _UNREADABLE as error:
        raise InvalidRequest(f"file {name} cannot be read: {error}") from error


def _record(entry: AuditEntry) -> records.Record:
    try:
        return records.decode(entry.body)
    except _UNREADABLE as error:
        raise InvalidRequest(f"the body of entry {entry.position} cannot be read: {error}") from error


def _outline_problem(journal: JournalLine) -> str | None:
    """Segments and events follow each other without a gap, and the last one's hash is the journal's."""
    name = f"the journal of generation {journal.generation}"
    at = 0
    for segment in journal.segments:
        # Nothing is allocated by the length that the file claims: the claim is only compared with the real length.
        if (segment.first, segment.count) != (at, len(segment.events)) or any(
            event.sequence != sequence for sequence, event in enumerate(segment.events, at)
        ):
            return f"{name} lacks events, or has others, in the segment at sequence {at}."
        at += segment.count
    if at != journal.version or not journal.segments or journal.segments[-1].head != journal.head:
        return f"{name} does not end with its last segment."
    return None


def _raw_problem(journal: JournalLine, raw: bytes, hidden: Collection[str]) -> str | None:
    """The bytes of all segments must give each segment's hash, and the outline."""
    if any(line.size < 0 for line in journal.segments):  # with negative sizes a few bytes could pass for any number
        return f"a segment of generation {journal.generation} has a negative size."
    segments: list[Segment] = []
    head, at = GENESIS, 0
    for line in journal.segments:
        data = raw[at : at + line.size]
        head, at = chain(head, data), at + line.size
        if head.hex() != line.head:
            return f"the segment at sequence {line.first} of generation {journal.generation} does not give its hash."
        segments.append(Segment(line.first, line.count, data, head, 0))
    if at != len(raw):
        return f"the journal of generation {journal.generation} has bytes after its end."
    try:
        outlines = [outline(journal.generation, segments, hidden, edition=each) for each in EDITIONS]
    except (HoldfastError, *_UNREADABLE) as error:
        return f"the journal of generation {journal.generation} cannot be read: {error}"
    return None if journal in outlines else f"the outline of generation {journal.generation} is not that of its bytes."


def _raw_entries(journal: JournalLine, raw: bytes) -> list[e.Entry]:
    """The entries of a journal whose bytes are known to give its outline."""
    segments, at = list[Segment](), 0
    for line in journal.segments:
        segments.append(Segment(line.first, line.count, raw[at : at + line.size], b"", 0))
        at += line.size
    root = root_of(segments)
    return [entry for each in segments for entry in decode_segment(each.events, root, each.first)]
