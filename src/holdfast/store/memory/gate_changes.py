"""The changes of the gate as replacements of rows: receipts, tasks, entries of the audit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.store.admission import TEMPLATE, WritingRun
from holdfast.store.caps import WRITE_CAP, with_write_caps
from holdfast.store.governance import cancelled, capped
from holdfast.store.memory import holding
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
    """A failed receipt is replaced by any opening, an open one only by an opening that names its token."""
    receipt = change.receipt
    present = tables.receipts.get((receipt.tenant, receipt.key))
    if present is not None and present.state == "pending" and present.token == receipt.token:
        return p.Opened()
    named = present is not None and present.state in OPEN and present.token == change.instead_of
    gives_way = named or present is None or present.state == "failed"
    if present is not None and not gives_way:
        return p.Taken(present)
    line: list[WritingRun] = []
    if change.limits is not None:
        line = list(_line(tables, p.Key(receipt.tenant, receipt.run)))
        found = capped(line, with_write_caps(change.limits, _write_caps(tables, receipt.tenant)))
        if found is not None:
            return found
    if receipt.reverses is not None and (refusal := holding.begin_reversal(tables, change)) is not None:
        return refusal
    tables.write_counts.update({p.Key(receipt.tenant, each.run): each.writes + 1 for each in line})
    tables.receipts[receipt.tenant, receipt.key] = receipt
    return p.Opened()


def _write_caps(tables: Tables, tenant: str) -> Iterator[tuple[str, bytes]]:
    for row in tables.caps.values():
        if (row.tenant, row.kind) == (tenant, WRITE_CAP):
            yield row.id, row.body


def _line(tables: Tables, key: p.Key) -> Iterator[WritingRun]:
    """A run and those above it."""
    run = tables.runs.get(key)
    while run is not None:
        template = run.attributes.get(TEMPLATE, "")
        yield WritingRun(run.key.run, run.workflow, run.workspace, template, tables.write_counts.get(run.key, 0))
        run = None if run.parent is None else tables.runs.get(p.Key(key.tenant, run.parent))


def close_receipt(tables: Tables, change: p.CloseReceipt) -> tuple[p.Answer, bool]:
    """The answer, and whether this change itself closed the receipt: only then the attached changes are made."""
    receipt = change.receipt
    present = tables.receipts.get((receipt.tenant, receipt.key))
    if present is None or present.token != receipt.token:
        return p.Fenced(), False
    receipt = replace(receipt, reversed_by=present.reversed_by)
    if present == receipt:
        return p.Closed(), False
    if present.state not in OPEN:
        return p.Fenced(), False
    tables.receipts[receipt.tenant, receipt.key] = receipt
    for digest, data in change.blobs.items():
        tables.use_blob(Holder(receipt.tenant, "receipt", receipt.id), digest, data)
    if receipt.asked is not None:
        tables.orphans[receipt.tenant, receipt.id] = receipt.asked
    if receipt.reverses is not None:
        holding.close_reversal(tables, receipt)
    return p.Closed(), True


def put_task(tables: Tables, change: p.PutTask) -> tuple[p.Answer, bool]:
    """The answer, and whether this change itself changed the task."""
    task = change.task
    present = tables.tasks.get((task.tenant, task.id))
    if present is not None:
        task = replace(task, reference=present.reference)
    if present == task:
        return p.Tasked(), False
    if task.version != (0 if present is None else present.version) + 1:
        return p.Fenced(), False
    tables.tasks[task.tenant, task.id] = task
    for digest, data in change.blobs.items():
        tables.use_blob(Holder(task.tenant, "task", task.id), digest, data)
    return p.Tasked(), True


def set_reference(tables: Tables, change: p.SetReference) -> p.Answer:
    run = tables.runs.get(change.key)
    if run is not None:
        tables.put(replace(run, reference=change.reference))
        for place, task in tables.tasks.items():
            if (task.tenant, task.run) == change.key and task.status == "requested":
                tables.tasks[place] = replace(task, reference=change.reference)
    return p.Referenced()


def cancel_task(tables: Tables, change: p.CancelTask) -> tuple[p.Answer, bool]:
    """The answer, and whether this change itself cancelled the task."""
    present = tables.tasks.get((change.tenant, change.id))
    if present is None or present.status != "requested":
        return (p.Tasked() if present is not None and present.status == "cancelled" else p.Fenced()), False
    tables.tasks[change.tenant, change.id] = cancelled(present, change.at)
    return p.Tasked(), True
