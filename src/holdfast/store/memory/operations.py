"""What a person does to runs, with its note: judged first, then made whole."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.store.memory.tables import Tables

Apply = Callable[[Tables, p.Change], p.Answer]


def operate(tables: Tables, change: p.Operate, apply: Apply) -> p.Answer:
    if (change.note.tenant, change.note.id) in tables.noted:
        return p.Repeated()
    for each in change.changes:
        if (refusal := _refusal(tables, each)) is not None:
            return refusal
    for each in change.changes:
        if isinstance(each, p.Pause | p.Unpause):
            set_pause(tables, each)
        else:
            apply(tables, each)
    apply(tables, change.note)
    return p.OperatedOn()


def _refusal(tables: Tables, change: p.Deliver | p.Pause | p.Unpause | p.Renew) -> p.Answer | None:
    run = tables.runs.get(change.key)
    if isinstance(change, p.Renew):
        fits = run is not None and run.generation == change.generation and run.ended_at is not None
        return None if fits else p.Fenced()
    if run is None:
        return p.Unknown()
    if isinstance(change, p.Deliver) and change.message.id in tables.deliveries.get(change.key, ()):
        return p.Repeated()
    return p.Gone() if run.ended_at is not None else None


def set_pause(tables: Tables, change: p.Pause | p.Unpause) -> bool:
    """Pause a run, or let it go on; False where it has ended, is not there, or is not paused."""
    run = tables.runs.get(change.key)
    if run is None or run.ended_at is not None:
        return False
    if isinstance(change, p.Pause):
        tables.put(replace(run, pause=change.reason, updated_at=change.at))
        return True
    if run.pause is None:
        return False
    ready_at = change.at if run.owner is None else None
    tables.declined.pop(change.key, None)
    tables.put(replace(run, pause=None, crashes=0, updated_at=change.at, ready_at=ready_at))
    return True
