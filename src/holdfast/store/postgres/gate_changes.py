"""The changes of the gate as statements over sets: receipts, tasks, entries of the audit.

A row that made a statement refuse a change is read afterwards, in the same transaction, in which it is locked: it may
be a conflict, or the result of the same change when it was first committed. Audit entries are only collected here; they
are written with the last statement of the batch, in the order of the batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.store.admission import WritingRun
from holdfast.store.caps import with_write_caps
from holdfast.store.governance import cancelled, capped
from holdfast.store.postgres import holding, rows
from holdfast.store.postgres.writer import SET_SIZE, Place, Writer
from holdfast.store.sql_rows import task_columns


async def note(writer: Writer, changes: Sequence[p.Note], places: Sequence[Place]) -> list[p.Answer]:
    writer.noted.extend(zip(places, changes, strict=True))
    return [p.Noted() for _ in changes]


async def write_notes(writer: Writer) -> None:
    """Write the collected entries, in the order of the batch."""
    writer.noted.sort(key=lambda noted: noted[0])
    given = [(entry.tenant, entry.run, entry.kind, entry.at, entry.body, entry.id) for _, entry in writer.noted]
    writer.noted.clear()
    for begin in range(0, len(given), SET_SIZE):
        chosen = given[begin : begin + SET_SIZE]
        if any(id is not None for *_, id in chosen):
            await writer.fetch_columns("note_once", chosen, width=6)
        else:
            await writer.fetch_columns("note", [entry[:5] for entry in chosen], width=5)


# -- receipts ------------------------------------------------------------------------------------------------------


async def open_receipts(writer: Writer, changes: Sequence[p.OpenReceipt], places: Sequence[Place]) -> list[p.Answer]:
    """Open them. Those that count in a tenant where people have set caps on writes are judged by these caps first."""
    refused = await _refused_reversals(writer, changes)
    if not refused:
        return await _open_free(writer, changes, places)
    free = [index for index in range(len(changes)) if index not in refused]
    opened = await _open_free(writer, [changes[index] for index in free], [places[index] for index in free])
    answers = {**refused, **dict(zip(free, opened, strict=True))}
    return [answers[index] for index in range(len(changes))]


async def _refused_reversals(writer: Writer, changes: Sequence[p.OpenReceipt]) -> dict[int, p.Answer]:
    """Of those that would be opened, the ones that reverse an act that cannot be taken, by index, with the answer."""
    reversing = [index for index, change in enumerate(changes) if change.receipt.reverses is not None]
    there = await _receipts_at(writer, [_key(changes[index]) for index in reversing])
    refused: dict[int, p.Answer] = {}
    for index in reversing:
        change = changes[index]
        present = there.get(_key(change))
        is_named = present is not None and present.state in ("pending", "unknown")
        is_named = is_named and present is not None and present.token in (change.instead_of, change.receipt.token)
        if present is None or present.state == "failed" or is_named:
            refusal = await holding.reversal_refused(writer, change)
            if refusal is not None:
                refused[index] = refusal
    return refused


async def _open_free(writer: Writer, changes: Sequence[p.OpenReceipt], places: Sequence[Place]) -> list[p.Answer]:
    made = await _open_all(writer, changes, places, unless_capped=True)
    left = [index for index, answer in enumerate(made) if answer is None]
    if left:
        rest = await _with_caps(writer, [changes[index] for index in left])
        again = await _open_all(writer, rest, [places[index] for index in left], unless_capped=False)
        for index, answer in zip(left, again, strict=True):
            made[index] = answer
    return [answer for answer in made if answer is not None]


async def _open_all(
    writer: Writer, changes: Sequence[p.OpenReceipt], places: Sequence[Place], *, unless_capped: bool
) -> list[p.Answer | None]:
    """The answers; None for what was not looked at, because people have set caps for it."""
    lines = await _lines(writer, [change for change in changes if change.limits is not None and change.limits.are_set])
    if not _may_be_capped(changes, lines):
        return await _open(writer, changes, lines, unless_capped=unless_capped)
    # One by one where a limit may be reached: then the order of the batch decides which is refused.
    answers: dict[int, p.Answer | None] = {}
    for index in sorted(range(len(changes)), key=lambda index: places[index]):
        answers[index] = await _open_within(writer, changes[index], lines, unless_capped=unless_capped)
    return [answers[index] for index in range(len(changes))]


async def _open(
    writer: Writer, changes: Sequence[p.OpenReceipt], lines: _Columns, *, unless_capped: bool
) -> list[p.Answer | None]:
    given = [
        (*_receipt_row(change.receipt), change.instead_of, unless_capped and change.limits is not None)
        for change in changes
    ]
    opened, left = set[tuple[str, str]](), set[tuple[str, str]]()
    for tenant, key, is_left in await writer.fetch_columns("open_receipt", given, width=13):
        (left if is_left else opened).add((tenant, key))
    there = await _receipts_at(writer, [key for change in changes if (key := _key(change)) not in opened | left])
    more: Counter[tuple[str, str]] = Counter()
    for change in changes:
        if change.limits is not None and _key(change) in opened:
            more[change.receipt.tenant, change.receipt.run] += 1
            lines.writes.update((change.receipt.tenant, each.run) for each in lines.above(change.receipt))
    if more:
        await writer.fetch_columns("count_writes", [(*run, count) for run, count in sorted(more.items())], width=3)
    begun = [change.receipt for change in changes if change.receipt.reverses is not None and _key(change) in opened]
    await holding.begin_reversals(writer, begun)
    return [None if _key(change) in left else _opening(change, there.get(_key(change))) for change in changes]


async def _open_within(
    writer: Writer, change: p.OpenReceipt, lines: _Columns, *, unless_capped: bool
) -> p.Answer | None:
    """Open one receipt where its run, or a run above it, may have no write left."""
    receipt = change.receipt
    line = [each._replace(writes=lines.writes[receipt.tenant, each.run]) for each in lines.above(receipt)]
    full = None if change.limits is None else capped(line, change.limits)
    if full is None:
        (answer,) = await _open(writer, [change], lines, unless_capped=unless_capped)
        return answer
    there = (await _receipts_at(writer, [_key(change)])).get(_key(change))
    if there is None or there.state == "failed":
        return full
    is_open = there.state in ("pending", "unknown") and there.token == change.instead_of
    return full if is_open and there.token != receipt.token else _opening(change, there)


def _opening(change: p.OpenReceipt, there: p.ReceiptRow | None) -> p.Answer:
    """The answer to an opening, by the receipt that it did not replace."""
    if there is None or (there.state == "pending" and there.token == change.receipt.token):
        return p.Opened()
    return p.Taken(there)


class _Columns:
    """The runs of some openings and all runs above them, with their counts of writes."""

    def __init__(self) -> None:
        self._above: dict[tuple[str, str], list[WritingRun]] = {}
        self.writes: Counter[tuple[str, str]] = Counter()

    def add(self, tenant: str, below: str, run: WritingRun) -> None:
        self._above.setdefault((tenant, below), []).append(run)
        self.writes[tenant, run.run] = run.writes

    def above(self, receipt: p.ReceiptRow) -> list[WritingRun]:
        """The receipt's run and those above it, as they were read: ``writes`` has the counts of now."""
        return self._above.get((receipt.tenant, receipt.run), [])


async def _with_caps(writer: Writer, changes: Sequence[p.OpenReceipt]) -> Sequence[p.OpenReceipt]:
    """The openings with the caps on writes that people have set, as they are in this transaction."""
    tenants = sorted({change.receipt.tenant for change in changes if change.limits is not None})
    caps: dict[str, list[tuple[str, bytes]]] = {}
    for tenant, id, body in await writer.fetch("write_caps", tenants) if tenants else []:
        caps.setdefault(tenant, []).append((id, body))
    return [
        change
        if change.limits is None or change.receipt.tenant not in caps
        else replace(change, limits=with_write_caps(change.limits, caps[change.receipt.tenant]))
        for change in changes
    ]


async def _lines(writer: Writer, changes: Sequence[p.OpenReceipt]) -> _Columns:
    lines = _Columns()
    runs = sorted({(change.receipt.tenant, change.receipt.run) for change in changes})
    for row in await writer.fetch_columns("writes_of_lines", runs, width=2) if runs else []:
        tenant, below, *run = row
        lines.add(tenant, below, WritingRun(*run))
    return lines


def _may_be_capped(changes: Sequence[p.OpenReceipt], lines: _Columns) -> bool:
    """Whether a limit could be reached if all of them were opened."""
    more: Counter[tuple[str, str]] = Counter()
    for change in changes:
        if change.limits is not None:
            more.update((change.receipt.tenant, each.run) for each in lines.above(change.receipt))
    for change in changes:
        if change.limits is None:
            continue
        for each in lines.above(change.receipt):
            most, place = each.most(change.limits), (change.receipt.tenant, each.run)
            if most is not None and lines.writes[place] + more[place] > most:
                return True
    return False


async def close_receipts(writer: Writer, changes: Sequence[p.CloseReceipt], places: Sequence[Place]) -> list[p.Answer]:
    given = []
    for change in changes:
        receipt = change.receipt
        given.append(
            (*_key(change), receipt.token, receipt.state, _receipt_body(receipt), receipt.id, receipt.reverses)
        )
    closed = {tuple(row) for row in await writer.fetch_columns("close_receipt", given, width=7)}
    there = await _receipts_at(writer, [key for change in changes if (key := _key(change)) not in closed])
    fresh = [index for index, change in enumerate(changes) if _key(change) in closed]
    closed_rows = [changes[index].receipt for index in fresh]
    if orphans := sorted((row.tenant, row.id, row.asked) for row in closed_rows if row.asked is not None):
        await writer.fetch_columns("orphan_receipts", orphans, width=3)
    await holding.end_reversals(writer, closed_rows)
    await writer.add_blobs([_blobs_of(changes[index]) for index in fresh], "receipt")
    for index in fresh:
        writer.noted.extend(((*places[index], number), entry) for number, entry in enumerate(changes[index].attached))
    return [p.Closed() if _key(change) in closed or _same(there, change.receipt) else p.Fenced() for change in changes]


def _key(change: p.OpenReceipt | p.CloseReceipt) -> tuple[str, str]:
    return change.receipt.tenant, change.receipt.key


def _blobs_of(change: p.CloseReceipt) -> tuple[p.Key, p.Blobs]:
    """The blobs that belong to the receipt: pruning its run does not delete them."""
    return p.Key(change.receipt.tenant, change.receipt.id), change.blobs


def _same(there: dict[tuple[str, str], p.ReceiptRow], receipt: p.ReceiptRow) -> bool:
    """Whether it was closed in the same way before."""
    found = there.get((receipt.tenant, receipt.key))
    return found is not None and replace(found, reversed_by=None) == replace(receipt, reversed_by=None)


async def _receipts_at(writer: Writer, keys: list[tuple[str, str]]) -> dict[tuple[str, str], p.ReceiptRow]:
    if not keys:
        return {}
    found = await writer.fetch_columns("receipts_at", keys, width=2)
    return {(row["tenant"], row["key"]): rows.receipt(row) for row in found}


def _receipt_row(receipt: p.ReceiptRow) -> tuple[Any, ...]:
    return (
        receipt.tenant,
        receipt.key,
        receipt.id,
        receipt.run,
        receipt.root,
        receipt.position,
        receipt.state,
        receipt.token,
        receipt.opened_at,
        receipt.reversed_by,
        _receipt_body(receipt),
    )


def _receipt_body(receipt: p.ReceiptRow) -> str:
    """The receipt without ``reversed_by``: that is set later, and a repetition would no longer be recognised."""
    return msgspec.json.encode(replace(receipt, reversed_by=None)).decode()


# -- tasks ---------------------------------------------------------------------------------------------------------


async def put_tasks(writer: Writer, changes: Sequence[p.PutTask]) -> tuple[list[p.Answer], list[int]]:
    """The answers, and the indices of the tasks that were made or changed now: only their attached changes are made."""
    given = [_task_row(change.task) for change in changes]
    put = {tuple(row) for row in await writer.fetch_columns("put_task", given, width=12)}
    refused = [key for change in changes if (key := _task_key(change)) not in put]
    found = await writer.fetch_columns("tasks_at", refused, width=2) if refused else []
    there = {(row["tenant"], row["id"]): rows.task(row) for row in found}
    answers: list[p.Answer] = [
        p.Tasked() if _task_key(change) in put or _is_same(there.get(_task_key(change)), change.task) else p.Fenced()
        for change in changes
    ]
    fresh = [index for index, change in enumerate(changes) if _task_key(change) in put]
    await writer.add_blobs([(p.Key(*_task_key(changes[index])), changes[index].blobs) for index in fresh], "task")
    return answers, fresh


async def cancel_tasks(writer: Writer, changes: Sequence[p.CancelTask]) -> tuple[list[p.Answer], list[int]]:
    """The answers, and the indices of the tasks that were cancelled now."""
    found = await writer.fetch_columns("lock_tasks", [(change.tenant, change.id) for change in changes], width=2)
    there = {(row["tenant"], row["id"]): rows.task(row) for row in found}
    answers: list[p.Answer] = []
    fresh, given = [], []
    for index, change in enumerate(changes):
        task = there.get((change.tenant, change.id))
        if task is not None and task.status == "requested":
            fresh.append(index)
            given.append(_task_row(cancelled(task, change.at)))
        done = task is not None and task.status in ("requested", "cancelled")
        answers.append(p.Tasked() if done else p.Fenced())
    if given:
        await writer.fetch_columns("put_task", given, width=12)
    return answers, fresh


def _task_key(change: p.PutTask) -> tuple[str, str]:
    return change.task.tenant, change.task.id


def _is_same(present: p.TaskRow | None, task: p.TaskRow) -> bool:
    """Whether it is there already. Its reference may have changed since, with that of its run."""
    return present is not None and replace(present, reference=task.reference) == task


def _task_row(task: p.TaskRow) -> tuple[Any, ...]:
    body = msgspec.json.encode(task if task.reference is None else replace(task, reference=None)).decode()
    return *task_columns(task, body), task.reference


async def set_references(writer: Writer, changes: Sequence[p.SetReference]) -> list[p.Answer]:
    """Set the references of runs and of their open tasks."""
    given = [(*change.key, change.reference) for change in changes]
    await writer.fetch_columns("set_reference", given, width=3)
    await writer.fetch_columns("set_reference_of_tasks", given, width=3)
    return [p.Referenced() for _ in changes]
