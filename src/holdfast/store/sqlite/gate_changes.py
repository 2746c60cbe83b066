"""The changes of the gate as statements, and their rows as structs.

Receipts and tasks are kept whole in a ``body``. The other columns are only those that statements use.
"""

from __future__ import annotations

import sqlite3

import msgspec
from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.store.admission import WritingRun
from holdfast.store.caps import with_write_caps
from holdfast.store.governance import cancelled, capped
from holdfast.store.sql_rows import task_columns
from holdfast.store.sqlite import holding
from holdfast.store.sqlite.rows import read_receipt
from holdfast.store.sqlite.sql import GATE, SQL

# Deterministic order: a change committed again is recognised by its body.
_encoder = msgspec.json.Encoder(order="deterministic")
_tasks = msgspec.json.Decoder(p.TaskRow)


def read_task(body: str, reference: str | None) -> p.TaskRow:
    task = _tasks.decode(body)
    return task if reference is None else replace(task, reference=reference)


def _write(value: p.ReceiptRow | p.TaskRow) -> str:
    return _encoder.encode(value).decode()


def note(cursor: sqlite3.Cursor, change: p.Note) -> p.Answer:
    entry = (change.tenant, change.run, change.kind, change.at, change.body)
    if change.id is None:
        cursor.execute(GATE["note"], entry)
    else:
        cursor.execute(GATE["note_once"], (*entry, change.id))
    return p.Noted()


def open_receipt(cursor: sqlite3.Cursor, change: p.OpenReceipt) -> p.Answer:
    """Open it. Where people have set caps on the tenant's writes, it is tried again by these."""
    return _open(cursor, change, change.limits, unless_capped=change.limits is not None)


def _open(
    cursor: sqlite3.Cursor, change: p.OpenReceipt, limits: p.WriteLimits | None, *, unless_capped: bool
) -> p.Answer:
    receipt = change.receipt
    full = capped(_line(cursor, receipt), limits) if limits is not None and limits.are_set else None
    if full is not None:
        present = _receipt_of_key(cursor, receipt)
        if present is None or present.state == "failed" or _gives_way(present, change):
            return full
        return p.Opened() if _is_repeated(present, receipt) else p.Taken(present)
    if receipt.reverses is not None and (refusal := _reversing(cursor, change)) is not None:
        return refusal
    cursor.execute(
        GATE["open_receipt"],
        (
            receipt.tenant,
            receipt.key,
            receipt.id,
            receipt.run,
            receipt.state,
            receipt.token,
            receipt.connector,
            receipt.opened_at,
            receipt.reversed_by,
            _write(receipt),
            change.instead_of,
            unless_capped,
        ),
    )
    if cursor.rowcount == 1:
        if limits is not None:
            cursor.execute(GATE["count_write"], (receipt.tenant, receipt.run))
        if receipt.reverses is not None:
            holding.begin_reversal(cursor, receipt)
        return p.Opened()
    if unless_capped and limits is not None:
        caps = cursor.execute(GATE["write_caps"], (receipt.tenant,)).fetchall()
        if caps:
            return _open(cursor, change, with_write_caps(limits, caps), unless_capped=False)
    present = _receipt_of_key(cursor, receipt)
    assert present is not None
    return p.Opened() if _is_repeated(present, receipt) else p.Taken(present)


def _reversing(cursor: sqlite3.Cursor, change: p.OpenReceipt) -> p.Answer | None:
    """Why the act that this one would reverse cannot be taken; None also where this one is not opened anyway."""
    present = _receipt_of_key(cursor, change.receipt)
    if present is None or present.state == "failed" or _gives_way(present, change):
        return holding.reversal_refused(cursor, change)
    return None


def _line(cursor: sqlite3.Cursor, receipt: p.ReceiptRow) -> list[WritingRun]:
    rows = cursor.execute(GATE["writes_of_line"], (receipt.tenant, receipt.run)).fetchall()
    return [WritingRun(*row) for row in rows]


def _receipt_of_key(cursor: sqlite3.Cursor, receipt: p.ReceiptRow) -> p.ReceiptRow | None:
    found = cursor.execute(GATE["receipt_of_key"], (receipt.tenant, receipt.key)).fetchone()
    return None if found is None else read_receipt(*found)


def _gives_way(present: p.ReceiptRow, change: p.OpenReceipt) -> bool:
    is_open = present.state in ("pending", "unknown") and present.token == change.instead_of
    return is_open and not _is_repeated(present, change.receipt)


def _is_repeated(present: p.ReceiptRow, receipt: p.ReceiptRow) -> bool:
    return present.state == "pending" and present.token == receipt.token


def close_receipt(cursor: sqlite3.Cursor, receipt: p.ReceiptRow) -> tuple[p.Answer, bool]:
    """The answer, and whether this change itself closed the receipt: only then the attached changes are made."""
    body = _write(receipt if receipt.reversed_by is None else replace(receipt, reversed_by=None))
    cursor.execute(GATE["close_receipt"], (receipt.tenant, receipt.key, receipt.token, receipt.state, body))
    if cursor.rowcount != 1:
        present = cursor.execute(GATE["receipt_of_key"], (receipt.tenant, receipt.key)).fetchone()
        return (p.Closed() if present is not None and present[0] == body else p.Fenced()), False
    if receipt.asked is not None:
        cursor.execute(GATE["orphan_receipt"], (receipt.tenant, receipt.id, receipt.asked))
    if receipt.reverses is not None:
        holding.close_reversal(cursor, receipt)
    return p.Closed(), True


def put_task(cursor: sqlite3.Cursor, task: p.TaskRow) -> tuple[p.Answer, bool]:
    """The answer, and whether this change itself changed the task."""
    body = _write(task if task.reference is None else replace(task, reference=None))
    columns = task_columns(task, body)
    if task.version == 1:
        cursor.execute(GATE["make_task"], (*columns, task.reference))
    else:
        cursor.execute(GATE["change_task"], columns)
    if cursor.rowcount == 1:
        return p.Tasked(), True
    present = cursor.execute(GATE["task"], (task.tenant, task.id)).fetchone()
    return (p.Tasked() if present is not None and present[0] == body else p.Fenced()), False


def set_reference(cursor: sqlite3.Cursor, change: p.SetReference) -> p.Answer:
    cursor.execute(SQL["set_reference"], (*change.key, change.reference))
    cursor.execute(GATE["set_reference_of_tasks"], (*change.key, change.reference))
    return p.Referenced()


def cancel_task(cursor: sqlite3.Cursor, change: p.CancelTask) -> tuple[p.Answer, bool]:
    """The answer, and whether this change itself cancelled the task."""
    found = cursor.execute(GATE["task"], (change.tenant, change.id)).fetchone()
    present = None if found is None else read_task(*found)
    if present is None or present.status != "requested":
        return (p.Tasked() if present is not None and present.status == "cancelled" else p.Fenced()), False
    return put_task(cursor, cancelled(present, change.at))
