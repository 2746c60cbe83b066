"""A person's acts on runs, tasks, definitions and items, with their notes: each is judged, then made completely.

Also the deletion of runs that ended long ago.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final

from holdfast.store import protocol as p
from holdfast.store.items import item_fits, item_key
from holdfast.store.judgements import paused_otherwise, published_before
from holdfast.store.sql_rows import item_columns
from holdfast.store.sqlite.cell_roots import last_root, put_root
from holdfast.store.sqlite.connection import shrink
from holdfast.store.sqlite.holding import holdable
from holdfast.store.sqlite.sql import SQL

PRUNED: Final = (
    "clear_inbox",
    "clear_work",
    "clear_progress",
    "prune_blobs",
    "prune_blob_uses",
    "prune_segments",
    "drop_checkpoint",
    "prune_deliveries",
    "prune_write_counts",
    "prune_cells",
    "prune_deleted_cells",
    "prune_roots",
    "prune_nodes",
    "prune_attributes",
    "prune_holders",
    "prune_run",
)

Apply = Callable[[sqlite3.Cursor, p.Change], p.Answer]


def operate(cursor: sqlite3.Cursor, change: p.Operate, apply: Apply) -> p.Answer:
    if cursor.execute(SQL["is_noted"], (change.note.tenant, change.note.id)).fetchone() is not None:
        return p.Repeated()
    for each in change.changes:
        if (refusal := _refusal(cursor, each)) is not None:
            return refusal
    for each in change.changes:  # it answers for itself, and makes nothing where it is refused
        if isinstance(each, p.Start | p.PutTask):
            answer = apply(cursor, each)
            if not isinstance(answer, p.Started | p.Tasked):
                return answer
    for each in change.changes:
        if isinstance(each, p.Pause | p.Unpause):
            set_pause(cursor, each)
        elif isinstance(each, p.PutItem):
            cursor.execute(SQL["put_item"], item_columns(each.item))
        elif isinstance(each, p.DropItem):
            cursor.execute(SQL["drop_item"], each.key)
        elif isinstance(each, p.PutRoot):
            put_root(cursor, each)
        elif isinstance(each, p.DropDead):
            cursor.execute(SQL["drop_dead"], (*each.key, each.version, each.number))
        elif isinstance(each, p.Publish):
            keep_code(cursor, each.tenant, each.code)
            cursor.execute(SQL["publish"], each.row)
        elif isinstance(each, p.Deliver | p.Renew | p.MarkSplit | p.Hold):
            apply(cursor, each)
    apply(cursor, change.note)
    return p.OperatedOn()


def keep_code(cursor: sqlite3.Cursor, tenant: str, code: p.Code) -> None:
    """Keep code whose digest fits it."""
    cursor.execute(SQL["keep_code"], (tenant, code.digest, code.kind, code.name, code.data))


def _refusal(cursor: sqlite3.Cursor, change: p.Act) -> p.Answer | None:
    if isinstance(change, p.Start | p.PutTask):
        return None
    if isinstance(change, p.Hold):
        return p.Fenced() if holdable(cursor, change) is None else None
    if isinstance(change, p.PutRoot):
        return None if last_root(cursor, change.row.key) == change.after else p.Fenced()
    if isinstance(change, p.ItemChange):
        version = cursor.execute(SQL["version_of_item"], item_key(change)).fetchone()
        return None if item_fits(change, None if version is None else version[0]) else p.Fenced()
    if isinstance(change, p.DropDead):
        place = (*change.key, change.version, change.number)
        return None if cursor.execute(SQL["is_buried"], place).fetchone() else p.Fenced()
    if isinstance(change, p.Publish):
        present = cursor.execute(SQL["definition"], change.row[:3]).fetchone()
        return published_before(change, None if present is None else p.DefinitionRow(*present))
    found = cursor.execute(SQL["generation_of"], change.key).fetchone()
    if isinstance(change, p.Renew):
        return None if found is not None and found[:2] == (change.generation, True) else p.Fenced()
    if found is None:
        return p.Unknown()
    if isinstance(change, p.Deliver) and _is_delivered(cursor, change):
        return p.Repeated()
    return p.Gone() if found[1] else paused_otherwise(change, found[2])


def _is_delivered(cursor: sqlite3.Cursor, change: p.Deliver) -> bool:
    if change.message.id is None:
        return False
    return cursor.execute(SQL["is_delivered"], (*change.key, change.message.id)).fetchone() is not None


def tally(cursor: sqlite3.Cursor, change: p.Tally) -> p.Answer:
    """Raise an item's version."""
    made = cursor.execute(SQL["tally_item"], (*change.key, change.due_at)).rowcount == 1
    return p.Tallied() if made else p.Unknown()


def set_pause(cursor: sqlite3.Cursor, change: p.Pause | p.Unpause) -> bool:
    """Pause a run, or resume it; False where it has ended, does not exist, or is not paused."""
    if isinstance(change, p.Pause):
        return cursor.execute(SQL["pause"], (*change.key, change.reason, change.at)).rowcount == 1
    # Workers that have declined the run may try again: a person may have corrected the cause.
    cursor.execute(SQL["forget_declined"], change.key)
    return cursor.execute(SQL["unpause"], (*change.key, change.at)).rowcount == 1


def prune(connection: sqlite3.Connection, ended_before: int, limit: int) -> int:
    """Delete runs that ended before then, and give pages that they leave free back to the file system."""
    pruned = 0
    while pruned < limit and (
        keys := connection.execute(SQL["prunable"], (ended_before, limit - pruned)).fetchall()
    ):  # the children of those that are deleted follow
        for key in keys:  # one run after the other: a blob is deleted with the last run that uses it
            for name in PRUNED:
                connection.execute(SQL[name], key)
        pruned += len(keys)
    shrink(connection)
    return pruned
