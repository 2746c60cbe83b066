"""What a person does to runs, with its note: judged first, then made whole."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from holdfast.store import protocol as p
from holdfast.store.sqlite.sql import SQL

Apply = Callable[[sqlite3.Cursor, p.Change], p.Answer]


def operate(cursor: sqlite3.Cursor, change: p.Operate, apply: Apply) -> p.Answer:
    if cursor.execute(SQL["is_noted"], (change.note.tenant, change.note.id)).fetchone() is not None:
        return p.Repeated()
    for each in change.changes:
        if (refusal := _refusal(cursor, each)) is not None:
            return refusal
    for each in change.changes:
        if isinstance(each, p.Pause | p.Unpause):
            set_pause(cursor, each)
        else:
            apply(cursor, each)
    apply(cursor, change.note)
    return p.OperatedOn()


def _refusal(cursor: sqlite3.Cursor, change: p.Deliver | p.Pause | p.Unpause | p.Renew) -> p.Answer | None:
    found = cursor.execute(SQL["generation_of"], change.key).fetchone()
    if isinstance(change, p.Renew):
        return None if found == (change.generation, True) else p.Fenced()
    if found is None:
        return p.Unknown()
    if isinstance(change, p.Deliver) and _is_delivered(cursor, change):
        return p.Repeated()
    return p.Gone() if found[1] else None


def _is_delivered(cursor: sqlite3.Cursor, change: p.Deliver) -> bool:
    if change.message.id is None:
        return False
    return cursor.execute(SQL["is_delivered"], (*change.key, change.message.id)).fetchone() is not None


def set_pause(cursor: sqlite3.Cursor, change: p.Pause | p.Unpause) -> bool:
    """Pause a run, or let it go on; False where it has ended, is not there, or is not paused."""
    if isinstance(change, p.Pause):
        return cursor.execute(SQL["pause"], (*change.key, change.reason, change.at)).rowcount == 1
    # Whoever has declined the run may try again: a person has done something about it.
    cursor.execute(SQL["forget_declined"], change.key)
    return cursor.execute(SQL["unpause"], (*change.key, change.at)).rowcount == 1
