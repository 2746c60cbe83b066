"""A person's acts on runs, tasks, definitions and items, with their notes: each is judged, then made completely."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.store.caps import CAP, CAP_SET, WRITE_CAP
from holdfast.store.items import item_fits, item_key
from holdfast.store.judgements import paused_otherwise, published_before
from holdfast.store.memory.cell_roots import put_root
from holdfast.store.memory.holding import holdable
from holdfast.store.memory.tables import Tables

Apply = Callable[[Tables, p.Change], p.Answer]


def operate(tables: Tables, change: p.Operate, apply: Apply) -> p.Answer:
    if (change.note.tenant, change.note.id) in tables.noted:
        return p.Repeated()
    for each in change.changes:
        if (refusal := _refusal(tables, each)) is not None:
            return refusal
    for each in change.changes:  # it answers for itself, and makes nothing where it is refused
        if isinstance(each, p.Start | p.PutTask):
            answer = apply(tables, each)
            if not isinstance(answer, p.Started | p.Tasked):
                return answer
    for each in change.changes:
        if isinstance(each, p.Pause | p.Unpause):
            set_pause(tables, each)
        elif isinstance(each, p.PutItem):
            _put(tables, each.item)
        elif isinstance(each, p.DropItem):
            del tables.items[each.key]
        elif isinstance(each, p.PutRoot):
            put_root(tables, each)
        elif isinstance(each, p.DropDead):
            del tables.dead_letters[(*each.key, each.version, each.number)]
        elif isinstance(each, p.Publish):
            tables.code.setdefault((each.tenant, each.code.digest), each.code)
            tables.definitions[each.row[:3]] = each.row
        elif isinstance(each, p.Deliver | p.Renew | p.MarkSplit | p.Hold):
            apply(tables, each)
    apply(tables, change.note)
    return p.OperatedOn()


def _refusal(tables: Tables, change: p.Act) -> p.Answer | None:
    if isinstance(change, p.Start | p.PutTask):
        return None
    if isinstance(change, p.Hold):
        return p.Fenced() if holdable(tables, change) is None else None
    if isinstance(change, p.PutRoot):
        roots = tables.cell_roots.get(change.row.key)
        return None if (roots[-1].version if roots else 0) == change.after else p.Fenced()
    if isinstance(change, p.ItemChange):
        item = tables.items.get(item_key(change))
        return None if item_fits(change, None if item is None else item.version) else p.Fenced()
    if isinstance(change, p.DropDead):
        return None if (*change.key, change.version, change.number) in tables.dead_letters else p.Fenced()
    if isinstance(change, p.Publish):
        return published_before(change, tables.definitions.get(change.row[:3]))
    run = tables.runs.get(change.key)
    if isinstance(change, p.Renew):
        fits = run is not None and run.generation == change.generation and run.ended_at is not None
        return None if fits else p.Fenced()
    if run is None:
        return p.Unknown()
    if isinstance(change, p.Deliver) and change.message.id in tables.deliveries.get(change.key, ()):
        return p.Repeated()
    return p.Gone() if run.ended_at is not None else paused_otherwise(change, run.pause)


def _put(tables: Tables, item: p.ItemRow) -> None:
    tables.items[item.key] = item
    tables.caps.pop(item.key, None)
    if item.kind in (CAP, WRITE_CAP) and item.status == CAP_SET:
        tables.caps[item.key] = item


def tally(tables: Tables, change: p.Tally) -> p.Answer:
    """Raise an item's version."""
    item = tables.items.get(change.key)
    if item is None:
        return p.Unknown()
    due_at = change.due_at if item.due_at is None else item.due_at
    tables.items[change.key] = replace(item, version=item.version + 1, due_at=due_at)
    return p.Tallied()


def set_pause(tables: Tables, change: p.Pause | p.Unpause) -> bool:
    """Pause a run, or resume it; False where it has ended, does not exist, or is not paused."""
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
