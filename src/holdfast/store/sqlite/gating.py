"""The changes of the gate as statements, and their rows as structs.

Receipts and tasks are kept whole in a ``body``; beside it stand only the columns that statements ask for.
"""

from __future__ import annotations

import sqlite3

import msgspec
from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.store.governance import cancelled, capped
from holdfast.store.sqlite.sql import GATE

# Deterministic: a change committed again is recognised by its body.
_encoder = msgspec.json.Encoder(order="deterministic")
_receipts = msgspec.json.Decoder(p.ReceiptRow)
_tasks = msgspec.json.Decoder(p.TaskRow)


def read_receipt(body: str, reversed_by: str | None) -> p.ReceiptRow:
    receipt = _receipts.decode(body)
    return receipt if reversed_by is None else replace(receipt, reversed_by=reversed_by)


def read_task(body: str) -> p.TaskRow:
    return _tasks.decode(body)


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
    receipt = change.receipt
    limits = change.limits
    full = capped(_line(cursor, receipt), limits) if limits is not None and limits.are_set else None
    if full is not None:
        there = _receipt_of_key(cursor, receipt)
        if there is None or there.state == "failed" or _gives_way(there, change):
            return full
        return p.Opened() if _is_repeated(there, receipt) else p.Taken(there)
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
        ),
    )
    if cursor.rowcount == 1:
        if limits is not None:
            cursor.execute(GATE["count_write"], (receipt.tenant, receipt.run))
        return p.Opened()
    there = _receipt_of_key(cursor, receipt)
    assert there is not None
    return p.Opened() if _is_repeated(there, receipt) else p.Taken(there)


def _line(cursor: sqlite3.Cursor, receipt: p.ReceiptRow) -> list[tuple[str, str, int]]:
    return cursor.execute(GATE["writes_of_line"], (receipt.tenant, receipt.run)).fetchall()


def _receipt_of_key(cursor: sqlite3.Cursor, receipt: p.ReceiptRow) -> p.ReceiptRow | None:
    found = cursor.execute(GATE["receipt_of_key"], (receipt.tenant, receipt.key)).fetchone()
    return None if found is None else read_receipt(*found)


def _gives_way(there: p.ReceiptRow, change: p.OpenReceipt) -> bool:
    is_open = there.state in ("pending", "unknown") and there.token == change.instead_of
    return is_open and not _is_repeated(there, change.receipt)


def _is_repeated(there: p.ReceiptRow, receipt: p.ReceiptRow) -> bool:
    return there.state == "pending" and there.token == receipt.token


def close_receipt(cursor: sqlite3.Cursor, receipt: p.ReceiptRow) -> tuple[p.Answer, bool]:
    """The answer, and whether the receipt was closed by this very change: only then may what comes also be made."""
    body = _write(receipt if receipt.reversed_by is None else replace(receipt, reversed_by=None))
    cursor.execute(GATE["close_receipt"], (receipt.tenant, receipt.key, receipt.token, receipt.state, body))
    if cursor.rowcount != 1:
        there = cursor.execute(GATE["receipt_of_key"], (receipt.tenant, receipt.key)).fetchone()
        return (p.Closed() if there is not None and there[0] == body else p.Fenced()), False
    if receipt.reverses is not None and receipt.state == "succeeded":
        cursor.execute(GATE["reverse_receipt"], (receipt.tenant, receipt.reverses, receipt.id))
    return p.Closed(), True


def put_task(cursor: sqlite3.Cursor, task: p.TaskRow) -> tuple[p.Answer, bool]:
    """The answer, and whether the task was changed by this very change."""
    body = _write(task)
    cursor.execute(
        GATE["make_task" if task.version == 1 else "change_task"],
        (
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
        ),
    )
    if cursor.rowcount == 1:
        return p.Tasked(), True
    there = cursor.execute(GATE["task"], (task.tenant, task.id)).fetchone()
    return (p.Tasked() if there == (body,) else p.Fenced()), False


def cancel_task(cursor: sqlite3.Cursor, change: p.CancelTask) -> tuple[p.Answer, bool]:
    """The answer, and whether the task was cancelled by this very change."""
    found = cursor.execute(GATE["task"], (change.tenant, change.id)).fetchone()
    there = None if found is None else read_task(*found)
    if there is None or there.status != "requested":
        return (p.Tasked() if there is not None and there.status == "cancelled" else p.Fenced()), False
    return put_task(cursor, cancelled(there, change.at))
