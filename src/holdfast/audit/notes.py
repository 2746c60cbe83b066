"""Turns records into notes, by which a commit adds entries to the audit."""

from __future__ import annotations

import msgspec

from holdfast.audit import chain
from holdfast.audit import records as r
from holdfast.store import protocol as p


def note(tenant: str, run: str | None, record: r.Record) -> p.Note:
    """The note that adds a record to the audit."""
    return p.Note(tenant, run, r.kind_of(record), record.at, r.encode(record))


def named(note: p.Note) -> p.Note:
    """The note with an id that follows from its content, for a note that is committed without another change.

    Where the answer to a commit is lost, the note is committed again. By its id the store then adds it only once.
    """
    entry = p.AuditEntry(0, note.tenant, note.run, note.kind, note.at, note.body)
    return msgspec.structs.replace(note, id=chain.digest(entry).hex())
