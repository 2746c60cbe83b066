"""Which changes of a batch can be made as one set, with the result of making all of them in order.

Changes of different runs, receipts and tasks are independent, so only the order of changes to the same one matters. A
batch is split into layers. Within a layer every run, receipt and task is touched by one change, or by several that one
statement handles in order. Entries of the audit are ordered separately, see ``gate_changes``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, assert_never

from holdfast.store import protocol as p
from holdfast.store.items import item_key

Table = Literal["runs", "counts", "receipts", "receipt ids", "tasks", "items", "definitions", "roots"]


Touched = tuple[Table, str, str]
"""A row that a change touches: its table, its tenant and its id. A receipt is touched by its key, and by its id where
another one reverses it. Counts are those of a run's writes: they are ordered separately."""

CHILD_MARK: Final = "~"
"""Separates the parent's id from the rest in a child's id."""


def rows_of(change: p.Change) -> Iterator[Touched]:
    """The rows that a change touches: its own first, then those of the attached changes."""
    match change:
        case p.Advance() | p.Start():
            yield "runs", *change.key
            for each in change.attached:
                yield from rows_of(each)
        case p.Deliver() | p.Renew() | p.Withdraw() | p.FinishWork() | p.Beat():
            yield "runs", *change.key
        case p.SetReference() | p.PutCells() | p.MarkSplit():
            yield "runs", *change.key
        case p.Enqueue(work=work):
            yield "runs", *work.key
        case p.OpenReceipt(receipt=receipt) | p.CloseReceipt(receipt=receipt):
            if isinstance(change, p.OpenReceipt) and change.limits is not None:
                yield from _counts_of(receipt)
            yield "receipts", receipt.tenant, receipt.key
            yield "receipt ids", receipt.tenant, receipt.id
            if receipt.reverses is not None:
                yield "receipt ids", receipt.tenant, receipt.reverses
        case p.Hold() | p.TakeBack() | p.SettleTaking():
            yield "receipts", change.tenant, change.key
            yield "receipt ids", change.tenant, change.receipt
        case p.SetHolds(tenant=tenant, run=run) | p.HoldFormer(tenant=tenant, run=run):
            yield "runs", tenant, run
        case p.PutTask(task=task):
            yield "tasks", task.tenant, task.id
            for each in change.attached:
                yield from rows_of(each)
        case p.CancelTask(tenant=tenant, id=id_):
            yield "tasks", tenant, id_
        case p.Operate():
            for act in change.changes:
                yield from _rows_of_act(act)
        case p.Tally(key=key):
            yield "items", key.tenant, f"{key.kind} {key.id}"
        case p.Note() | p.KeepCode():
            return
        case _ as never:
            assert_never(never)


def _rows_of_act(act: p.Act) -> Iterator[Touched]:
    match act:
        case p.Publish(tenant=tenant, version=version, code=code):
            yield "definitions", tenant, f"{code.name} {version}"
        case p.PutItem() | p.ExpectItem() | p.DropItem():
            tenant, kind, id_ = item_key(act)
            yield "items", tenant, f"{kind} {id_}"
        case p.PutRoot(row=row):
            yield "roots", *row.key
        case p.Pause() | p.Unpause() | p.DropDead():
            yield "runs", *act.key
        case _:
            yield from rows_of(act)


def _counts_of(receipt: p.ReceiptRow) -> Iterator[Touched]:
    """The counts of a run and of all runs above it, by its id."""
    run, mark = receipt.run, CHILD_MARK
    while mark:
        yield "counts", receipt.tenant, run
        run, mark, _ = run.rpartition(CHILD_MARK)


def layers(changes: Sequence[p.Change]) -> list[list[int]]:
    """The indices of the changes, layer by layer, each in ascending order."""
    if _are_apart(changes):
        return [list(range(len(changes)))]
    found: list[list[int]] = []
    last: dict[Touched, tuple[int, str | None]] = {}
    taken: set[tuple[type[p.Change], p.Key, int]] = set()
    for index, change in enumerate(changes):
        family = _FAMILIES.get(type(change))
        if (work := _work_of(change)) is not None:
            # The same work offered or finished twice in one batch: the second must see the result of the first.
            family = None if work in taken else family
            taken.add(work)
        level = 0
        touched = tuple(row for row in rows_of(change) if row[0] != "counts")
        for row in touched:
            if row in last:
                before, kind = last[row]
                level = max(level, before if family is not None and family == kind else before + 1)
        for row in touched:
            last[row] = level, family
        while len(found) <= level:
            found.append([])
        found[level].append(index)
    return found


def _are_apart(changes: Sequence[p.Change]) -> bool:
    """Whether these are only turns, each of another run, as in nearly every batch of a busy engine."""
    keys = set()
    for change in changes:
        if type(change) is not p.Advance or change.attached:
            return False
        keys.add(change.key)
    return len(keys) == len(changes)


def place_of(change: p.Change) -> tuple[str, ...]:
    """The row that a change touches first. Statements over sets are sorted by it, so that all batches lock in the same
    order."""
    if type(change) is p.Advance:
        return ("runs", *change.key)
    return next((row for row in rows_of(change) if row[0] != "counts"), ())


_FAMILIES: Final[dict[type[p.Change], str]] = {
    p.Deliver: "inbox",
    p.FinishWork: "inbox",
    p.Enqueue: "enqueue",
    p.Withdraw: "withdraw",
    p.Beat: "beat",
    p.Tally: "tally",
}
"""Changes of one family may share a run within a layer: one statement keeps their order."""


def _work_of(change: p.Change) -> tuple[type[p.Change], p.Key, int] | None:
    if type(change) is p.Enqueue:
        return p.Enqueue, change.work.key, change.work.position
    return (p.FinishWork, change.key, change.position) if type(change) is p.FinishWork else None


def is_plain(change: p.Change) -> bool:
    """Whether one statement makes the whole change."""
    match change:
        case p.Advance():
            return not change.attached and not change.blobs and change.renewal is None and change.checkpoint is None
        case p.Start():
            return not change.attached and not change.blobs
        case p.Renew() | p.FinishWork() | p.OpenReceipt() | p.CloseReceipt() | p.PutTask() | p.CancelTask():
            return False
        case p.Operate() | p.SetReference() | p.Tally() | p.PutCells() | p.MarkSplit():
            return False
        case p.Hold() | p.HoldFormer() | p.SetHolds() | p.TakeBack() | p.SettleTaking():
            return False
        case _:
            return True
