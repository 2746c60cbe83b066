"""Rows of the two SQL stores as the protocol's structs, where both have the same columns in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.errors import StoreCorrupt
from holdfast.store.protocol import ItemRow, Key, Run, Segment, TaskRow, Unrooted, Work

_FIELDS: Final = Run.__struct_fields__
_COLUMNS: Final = len(_FIELDS) + 1  # the key is two columns
_CANCELLING, _ATTRIBUTES, _GOVERNED = map(_FIELDS.index, ("cancelling", "attributes", "governed"))
_json = msgspec.json.Decoder(dict[str, str])


def run(row: Sequence[Any]) -> Run:
    """A row of ``runs``, whose columns have the order of the fields of ``Run``; further columns are ignored."""
    values = [Key(row[0], row[1]), *row[2:_COLUMNS]]
    values[_CANCELLING] = bool(values[_CANCELLING])  # SQLite has numbers for truth values
    values[_ATTRIBUTES] = _attributes(values[_ATTRIBUTES], *values[0])
    values[_GOVERNED] = bool(values[_GOVERNED])
    return Run(*values)


def _attributes(text: str, tenant: str, id_: str) -> dict[str, str]:
    try:
        return _json.decode(text)
    except (msgspec.DecodeError, TypeError) as error:
        raise StoreCorrupt(
            f"the attributes of run {id_!r} of tenant {tenant!r} cannot be read ({error}): restore it from a backup."
        ) from error


def item_columns(item: ItemRow) -> tuple[Any, ...]:
    """The columns of ``items``, in the order of the fields."""
    return msgspec.structs.astuple(item)


def segment(row: Sequence[Any]) -> Segment:
    return Segment(*row)


def work(row: Sequence[Any]) -> Work:
    tenant, run_id, *rest = row
    return Work(Key(tenant, run_id), *rest)


def task_columns(task: TaskRow, body: str) -> tuple[Any, ...]:
    """The columns of ``tasks``: the whole task as its ``body``, and the fields that statements use."""
    return (
        task.tenant,
        task.id,
        task.run,
        task.generation,
        task.status,
        task.version,
        task.created_at,
        body,
        task.kind,
        task.owner,
        task.due_at,
    )


def unrooted(rows: Sequence[Sequence[Any]]) -> Unrooted | None:
    """The rows of ``unrooted``: those with the run's version and head have cells, those with a number what is held, and
    the others deleted cells."""
    if not rows:
        return None
    cells = [(row[2], row[3]) for row in rows if row[0] is not None and row[2] is not None]
    deleted = [row[2] for row in rows if row[0] is None and row[4] is None]
    held = [(row[2], row[4], row[3]) for row in rows if row[4] is not None]
    return Unrooted(rows[0][0], rows[0][1], cells, deleted, held)
