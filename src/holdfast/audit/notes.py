"""Records as notes: what a commit carries for the audit."""

from __future__ import annotations

import msgspec

from holdfast.audit import chain
from holdfast.audit import records as r
from holdfast.store import protocol as p


def note(tenant: str, run: str | None, record: r.Record) -> p.Note:
    """A record as an entry of the audit."""
    return p.Note(tenant, run, r.kind_of(record), record.at, r.encode(record))


def named(note: p.Note) -> p.Note:
    """The note with an id that follows from what it says, for one that no change beside it tells from a repetition.

    Where the answer to its commit is lost it is committed again, and the very same record is the very same entry.
    """
    entry = p.AuditEntry(0, note.tenant, note.run, note.kind, note.at, note.body)
    return msgspec.structs.replace(note, id=chain.digest(entry).hex())
