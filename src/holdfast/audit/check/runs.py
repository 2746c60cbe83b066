"""Compares the rows of a tenant's runs with their journals, and its stored evidence with the hashes of the evidence.

- A row's version, last hash, status and error are those of its journal. Its id and tenant give its journal's root.
- The entry of a governed run's end agrees with the run's row.
- Stored evidence has its hash, and it is the evidence that the row names. Of a governed run that has ended, the row or
  the evidence is there. The content of evidence is checked in ``bundle``.

Workers may write at the same time: a row that does not fit is read again before it is judged.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Final

from holdfast.audit import records as r
from holdfast.audit.archivist import portions
from holdfast.audit.check.journal import agrees, check_root
from holdfast.audit.check.receipts import Accounted, Broken, read
from holdfast.audit.collector import entries_in
from holdfast.errors import HoldfastError
from holdfast.journal import events as e
from holdfast.journal.codec import GENESIS, decode_segment
from holdfast.journal.promise import PromiseId
from holdfast.journal.status import fold
from holdfast.runs.segments import verify
from holdfast.store import protocol as p

PAGE: Final = 200
EVENTS: Final = 20_000
TRIES: Final = 10
LARGEST_FILE: Final = 64 * 1024
"""Larger evidence is read in parts: a page of runs has many files."""
PART: Final = 1024 * 1024
_ENDED: Final = str(r.Ended.__struct_config__.tag)


async def check_runs(store: p.Store, tenant: str) -> Accounted:
    """Compare the row of every run of a tenant with its journal, and with the entry of its end."""
    count = 0
    last: p.Run | None = None
    try:
        while page := await store.find(p.Query(tenant), PAGE, last):
            for runs in portions(page, EVENTS):
                await _check_rows(store, runs)
                await asyncio.sleep(0)
            count, last = count + len(page), page[-1]
    except Broken as broken:
        return Accounted(count, str(broken))
    return Accounted(count, None)


async def _check_rows(store: p.Store, runs: Sequence[p.Run]) -> None:
    journals = await _walked(store, runs)
    ends = await _ends(store, [run for run in runs if run.governed and run.standing in p.ENDED])
    for run in runs:
        if _problem(run, journals[run.key], ends.get(run.key, [])) is not None:
            await _look_again(store, run)


class _Walk:
    """A run's journal, walked up to the version of its row: its ends alone are kept."""

    def __init__(self, run: p.Run) -> None:
        self.at = 0
        self.head = GENESIS
        self.first: p.Segment | None = None
        self.last: p.Segment | None = None
        self.problem: str | None = None
        self._version = run.version

    def take(self, segments: Sequence[p.Segment]) -> None:
        """Walk on over these; after a break no further."""
        for segment in segments:
            if self.problem is not None or segment.first + segment.count > self._version:
                return
            try:
                self.head = verify(segment, self.head, self.at)
            except HoldfastError as error:
                self.problem = str(error)
            self.at += segment.count
            self.first, self.last = self.first or segment, segment


async def _walked(store: p.Store, runs: Sequence[p.Run]) -> dict[p.Key, _Walk]:
    """The journals of these runs: together, or in pages where there is one run and it may be long."""
    walks = {run.key: _Walk(run) for run in runs}
    if len(runs) > 1:
        for key, journal in (await store.journals(list(walks))).items():
            walks[key].take(journal)
        return walks
    for run in runs:
        at = 0
        while page := await store.segments(run.key, run.generation, at, PAGE):
            walks[run.key].take(page)
            end = page[-1].first + page[-1].count
            if end <= at:  # it was altered
                break
            at = end
            await asyncio.sleep(0)
    return walks


async def _look_again(store: p.Store, run: p.Run) -> None:
    """Read the row and its journal once more. A run that was pruned since the first read is not checked."""
    for _ in range(TRIES):
        journals, ends = await _walked(store, [run]), await _ends(store, [run])
        rows = await store.get([run.key])
        if not rows:
            return
        if (rows[0].generation, rows[0].version) == (run.generation, run.version):
            if problem := _problem(rows[0], journals[run.key], ends.get(run.key, [])):
                raise Broken(f"run {run.key.run}: {problem}")
            return
        run = rows[0]


async def _ends(store: p.Store, runs: Sequence[p.Run]) -> dict[p.Key, list[r.Ended]]:
    """The records of these runs' ends."""
    ends: dict[p.Key, list[r.Ended]] = {}
    if runs:
        async for entry in entries_in(store, [p.Span(run.key, kind=_ENDED) for run in runs]):
            record = read(entry)
            if isinstance(record, r.Ended):
                ends.setdefault(p.Key(entry.tenant, entry.run or ""), []).append(record)
    return ends


def _problem(run: p.Run, journal: _Walk, ends: Sequence[r.Ended]) -> str | None:
    """What the journal, up to the version of the row, and the entry of the run's end do not confirm of the row."""
    try:
        return _row_problem(run, journal) or _end_problem(run, ends)
    except HoldfastError as error:
        return str(error)


def _row_problem(run: p.Run, journal: _Walk) -> str | None:
    """Compare the row with the journal. Raises StoreCorrupt or LawBroken where the journal itself is broken."""
    if journal.problem is not None:
        return journal.problem
    beginning, end = journal.first, journal.last
    if beginning is None or end is None or (journal.at, journal.head) != (run.version, run.head):
        return "its row and its journal do not have the same events."
    root = PromiseId(run.root)
    (first, *_), ending = (decode_segment(each.events, root, each.first) for each in (beginning, end))
    if not isinstance(first.event, e.ExecutionStarted):
        return "its journal does not begin with its start."
    check_root(run, first.event)
    last = ending[-1].event
    error = str(last.error) if isinstance(last, e.ExecutionFailed) else None
    return _differing(
        ("status", agrees(run.standing, fold(entry.event for entry in ending)), True),
        ("error", run.error, error),
        ("parent", run.parent is None, first.event.parent_id is None),
        ("place in its parent", run.parent_position, _position(first.event)),
        ("time of ending", run.ended_at, end.at if run.standing in p.ENDED else None),
    )


def _position(started: e.ExecutionStarted) -> int | None:
    return None if started.parent_id is None else started.parent_id.path[-1]


def _end_problem(run: p.Run, ends: Sequence[r.Ended]) -> str | None:
    """Compare the row with the entry of the run's end."""
    if not run.governed or run.standing not in p.ENDED:
        return None
    here = [end for end in ends if end.generation == run.generation]
    if not here:
        return "its row says that it has ended, and the audit has no entry of that."
    end = here[-1]
    return _differing(
        ("workflow", run.workflow, end.workflow),
        ("status", run.standing, end.standing),
        ("root", run.root.hex(), end.root),
        ("number of events", run.version, end.version),
        ("last hash", run.head.hex(), end.head),
        ("actor", run.actor, end.actor),
        ("time of ending", run.ended_at, end.at),
    )


def _differing(*compared: tuple[str, object, object]) -> str | None:
    fields = ", ".join(field for field, one, other in compared if one != other)
    return f"its row differs from its journal, or from what the audit says of it, in its {fields}." if fields else None


# -- evidence ----------------------------------------------------------------------------------------------------------


async def check_evidence(store: p.Store, tenant: str) -> Accounted:
    """Compare the stored evidence of every governed run of a tenant that has ended with its hash and the run's row."""
    count = 0
    last: p.AuditEntry | None = None
    try:
        while page := await store.entries(p.AuditQuery(tenant, kind=_ENDED), PAGE, last):
            count += await _check_kept(store, [p.Key(tenant, entry.run) for entry in page if entry.run])
            last = page[-1]
    except Broken as broken:
        return Accounted(count, str(broken))
    return Accounted(count, None)


async def _check_kept(store: p.Store, keys: Sequence[p.Key]) -> int:
    """Gives how many files there are. A row is read before its file, which stays as long as the row names it."""
    rows = {run.key: run for run in await store.get(keys)}
    files: dict[p.Key, list[p.KeptFile]] = {}
    for file in await store.kept_evidence(keys, LARGEST_FILE):
        kept = file.about
        files.setdefault(kept.key, []).append(kept)
        if await _hashed(store, file) != (kept.size, kept.sha256):
            altered = f"the evidence of generation {kept.generation} was altered: its bytes do not give its hash."
            raise Broken(f"run {kept.key.run}: {altered}")
    await asyncio.sleep(0)
    for key in dict.fromkeys(keys):
        run, kept_files = rows.get(key), files.get(key, [])
        if run is None and not kept_files:
            raise Broken(f"run {key.run}: the audit says that it ended, and neither it nor its evidence is there.")
        if run is None or run.evidence is None or _is_kept(run, kept_files):
            continue
        if any(row.evidence == run.evidence for row in await store.get([key])):  # nobody made it again since
            raise Broken(f"run {key.run}: the evidence that its row names is not the one that is stored.")
    return sum(map(len, files.values()))


async def _hashed(store: p.Store, file: p.File) -> tuple[int, bytes]:
    """The size and hash of a file's bytes. A large one is read in parts."""
    if file.data:
        return len(file.data), hashlib.sha256(file.data).digest()
    kept, size, sha256 = file.about, 0, hashlib.sha256()
    while part := await store.file_part(kept.key, kept.generation, kept.name, size, PART):
        size += len(part)
        sha256.update(part)
        await asyncio.sleep(0)
    return size, sha256.digest()


def _is_kept(run: p.Run, kept: Sequence[p.KeptFile]) -> bool:
    return any((file.generation, file.sha256) == (run.generation, run.evidence) for file in kept)
