"""The changes of the gate as replacements of rows: receipts, tasks, entries of the audit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.store.governance import cancelled, capped
from holdfast.store.memory.tables import Holder, Tables

OPEN: Final = ("pending", "unknown")


def note(tables: Tables, change: p.Note) -> p.Answer:
    if change.id is not None:
        if (change.tenant, change.id) in tables.noted:
            return p.Noted()
        tables.noted.add((change.tenant, change.id))
    entry = p.AuditEntry(len(tables.audit) + 1, change.tenant, change.run, change.kind, change.at, change.body)
    tables.audit.append(entry)
    return p.Noted()


def open_receipt(tables: Tables, change: p.OpenReceipt) -> p.Answer:
    """A failed receipt gives way to anyone, an open one to whoever names its token."""
    receipt = change.receipt
    there = tables.receipts.get((receipt.tenant, receipt.key))
    if there is not None and there.state == "pending" and there.token == receipt.token:
        return p.Opened()
    gives_way = there is None or there.state == "failed" or (there.state in OPEN and there.token == change.instead_of)
    if there is not None and not gives_way:
        return p.Taken(there)
    if change.limits is not None:
        line = list(_line(tables, p.Key(receipt.tenant, receipt.run)))
        found = capped(((key.run, workflow, writes) for key, workflow, writes in line), change.limits)
        if found is not None:
            return found
        tables.write_counts.update({key: writes + 1 for key, _, writes in line})
    tables.receipts[receipt.tenant, receipt.key] = receipt
    return p.Opened()


def _line(tables: Tables, key: p.Key) -> Iterator[tuple[p.Key, str, int]]:
    """A run and those above it, each with its workflow and its writes so far."""
    run = tables.runs.get(key)
    while run is not None:
        yield run.key, run.workflow, tables.write_counts.get(run.key, 0)
        run = None if run.parent is None else tables.runs.get(p.Key(key.tenant, run.parent))


def close_receipt(tables: Tables, change: p.CloseReceipt) -> tuple[p.Answer, bool]:
    """The answer, and whether the receipt was closed by this very change: only then may what comes also be made."""
    receipt = change.receipt
    there = tables.receipts.get((receipt.tenant, receipt.key))
    if there is None or there.token != receipt.token:
        return p.Fenced(), False
    receipt = replace(receipt, reversed_by=there.reversed_by)
    if there == receipt:
        return p.Closed(), False
    if there.state not in OPEN:
        return p.Fenced(), False
    tables.receipts[receipt.tenant, receipt.key] = receipt
    for digest, data in change.blobs.items():
        tables.use_blob(Holder(receipt.tenant, "receipt", receipt.id), digest, data)
    if receipt.reverses is not None and receipt.state == "succeeded":
        _reverse(tables, receipt.tenant, receipt.reverses, receipt.id)
    return p.Closed(), True


def _reverse(tables: Tables, tenant: str, reversed_id: str, by: str) -> None:
    for place, receipt in tables.receipts.items():
        if place[0] == tenant and receipt.id == reversed_id:
            tables.receipts[place] = replace(receipt, reversed_by=by)


def put_task(tables: Tables, task: p.TaskRow) -> tuple[p.Answer, bool]:
    """The answer, and whether the task was changed by this very change."""
    there = tables.tasks.get((task.tenant, task.id))
    if there == task:
        return p.Tasked(), False
    if task.version != (0 if there is None else there.version) + 1:
        return p.Fenced(), False
    tables.tasks[task.tenant, task.id] = task
    return p.Tasked(), True


def cancel_task(tables: Tables, change: p.CancelTask) -> tuple[p.Answer, bool]:
    """The answer, and whether the task was cancelled by this very change."""
    there = tables.tasks.get((change.tenant, change.id))
    if there is None or there.status != "requested":
        return (p.Tasked() if there is not None and there.status == "cancelled" else p.Fenced()), False
    tables.tasks[change.tenant, change.id] = cancelled(there, change.at)
    return p.Tasked(), True
