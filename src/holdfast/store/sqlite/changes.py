"""Each change as statements, inside a transaction that the store has begun."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import assert_never

import msgspec

from holdfast.store import protocol as p
from holdfast.store.judgements import goes_on, known_answer
from holdfast.store.sqlite import gate_changes, holding, operations
from holdfast.store.sqlite.cells import put_cells
from holdfast.store.sqlite.operations import keep_code
from holdfast.store.sqlite.sql import SQL

_Small = p.Tally | p.SetReference | p.MarkSplit | p.Hold | p.SetHolds | p.HoldFormer

_Row = tuple[int, str | None, bool]
"""The values of ``Advanced``: the inbox's last position, the reason of a pause, whether the lease was released."""


def apply(cursor: sqlite3.Cursor, change: p.Change) -> p.Answer:
    """Make one change, or none of it, and answer."""
    match change:
        case p.Advance():  # first, because nearly all changes are advances
            return _advance(cursor, change)
        case p.Note():
            return gate_changes.note(cursor, change)
        case p.OpenReceipt():
            return gate_changes.open_receipt(cursor, change)
        case p.CloseReceipt():
            return _gate(cursor, change)
        case p.Start():
            return _start(cursor, change)
        case p.Deliver():
            if change.unpauses:
                return _deliver_unpausing(cursor, change)
            return _deliver(cursor, change.key, change.message, change.place)
        case p.Enqueue(work=work):
            cursor.execute(
                SQL["enqueue"],
                (
                    *work.key,
                    work.position,
                    work.queue,
                    work.name,
                    work.attempt,
                    work.body,
                    work.priority,
                    work.available_at,
                    work.epoch,
                ),
            )
            return p.Enqueued()
        case p.Withdraw():
            return _withdraw(cursor, change)
        case p.FinishWork():
            if cursor.execute(SQL["finish_work"], (*change.key, change.position, change.epoch)).fetchone() is None:
                return p.Fenced()
            return _deliver(cursor, change.key, change.message)
        case p.Beat():
            cursor.execute(SQL["beat_step"], (*change.key, change.position, change.details, change.at))
            return p.Enqueued()
        case p.KeepCode(tenant=tenant, code=code):
            if not code.fits:
                return p.CodeMisfit()
            keep_code(cursor, tenant, code)
            return p.Kept()
        case p.PutCells():
            return put_cells(cursor, change)
        case p.Tally() | p.SetReference() | p.MarkSplit() | p.Hold() | p.SetHolds() | p.HoldFormer():
            return _small(cursor, change)
        case p.Renew():
            return _renew(cursor, change)
        case p.PutTask() | p.CancelTask() | p.TakeBack() | p.SettleTaking():
            return _gate(cursor, change)
        case p.Operate():
            return operations.operate(cursor, change, apply)
        case _ as never:
            assert_never(never)


def _small(cursor: sqlite3.Cursor, change: _Small) -> p.Answer:
    if isinstance(change, p.HoldFormer):
        return holding.hold_former(cursor, change)
    if isinstance(change, p.Hold):
        return holding.hold(cursor, change)
    if isinstance(change, p.SetHolds):
        return holding.set_holds(cursor, change)
    if isinstance(change, p.Tally):
        return operations.tally(cursor, change)
    if isinstance(change, p.MarkSplit):
        cursor.execute(SQL["mark_split"], (*change.key, change.split))
        return p.Marked()
    return gate_changes.set_reference(cursor, change)


def _gate(
    cursor: sqlite3.Cursor, change: p.CloseReceipt | p.PutTask | p.CancelTask | p.TakeBack | p.SettleTaking
) -> p.Answer:
    if isinstance(change, p.CloseReceipt):
        answer, fresh = gate_changes.close_receipt(cursor, change.receipt)
        if fresh:
            # They belong to the receipt: pruning the run does not delete them.
            _add_blobs(cursor, change.receipt.tenant, "receipt", change.receipt.id, change.blobs)
    elif isinstance(change, p.CancelTask):
        answer, fresh = gate_changes.cancel_task(cursor, change)
    elif isinstance(change, p.TakeBack):
        answer, fresh = holding.take_back(cursor, change)
    elif isinstance(change, p.SettleTaking):
        answer, fresh = holding.settle(cursor, change)
    else:
        answer, fresh = gate_changes.put_task(cursor, change.task)
        if fresh:
            _add_blobs(cursor, change.task.tenant, "task", change.task.id, change.blobs)
    if fresh:
        for each in change.attached:
            apply(cursor, each)
    return answer


def _start(cursor: sqlite3.Cursor, change: p.Start) -> p.Answer:
    segment, projection = change.segment, change.projection
    ended_at = segment.at if projection.standing in p.ENDED else None
    ready_at = segment.at if change.owner is None and projection.standing == "queued" else None
    version = segment.first + segment.count
    cursor.execute(
        SQL["start"],
        (
            *change.key,
            change.workflow,
            change.root,
            version,
            segment.head,
            projection.standing,
            projection.cancelling,
            projection.pause,
            change.priority,
            msgspec.json.encode(change.attributes).decode(),
            change.parent,
            change.parent_position,
            change.fingerprint,
            None if ended_at is not None else change.owner,
            ready_at,
            projection.wake_at,
            projection.waiting,
            projection.error,
            segment.at,
            segment.at,
            ended_at,
            change.origin.workspace,
            change.origin.actor,
            change.origin.trigger_type,
            change.origin.trigger_ref,
            change.begun_at,
            projection.governed,
            projection.writes,
            change.program_kind,
            change.code_digest,
            change.trigger_key,
        ),
    )
    if cursor.rowcount != 1:
        if cursor.execute(SQL["started_before"], (*change.key, change.owner, segment.head)).fetchone() is not None:
            return p.Started(1, tuple(_again(cursor, each) for each in change.attached))
        existing = cursor.execute(SQL["exists"], (*change.key, change.trigger_key)).fetchone()
        if existing is not None:
            return p.Exists(*existing)
        is_capped = change.begins and cursor.execute(SQL["has_caps"], (change.key.tenant,)).fetchone() is not None
        return p.Limited() if is_capped else p.Retired()
    _add_segment(cursor, change.key, 0, segment)
    _add_blobs(cursor, change.key.tenant, "run", change.key.run, change.blobs)
    tenant, run = change.key
    for attribute in change.attributes.items():
        cursor.execute(SQL["add_attribute"], (tenant, *attribute, segment.at, run))
    return p.Started(1, tuple(apply(cursor, each) for each in change.attached))


def _advance(cursor: sqlite3.Cursor, change: p.Advance) -> p.Answer:
    segment, projection = change.segment, change.projection
    row: _Row | None = (change.consumed, None, False)
    late_cancel = None if projection.pause is None else _late_cancel(cursor, change)
    if not (goes_on(change) and _go_on(cursor, change)):
        row = _advance_row(cursor, change)
    if row is None:
        return _advanced_before(cursor, change)
    if segment is not None:
        _add_segment(cursor, change.key, change.generation, segment)
    _add_blobs(cursor, change.key.tenant, "run", change.key.run, change.blobs)
    if change.checkpoint is not None:
        _keep_checkpoint(cursor, change)
    if projection.standing in p.ENDED and change.renewal is None:
        for name in ("clear_inbox", "clear_work", "clear_progress"):
            cursor.execute(SQL[name], change.key)
    elif change.consumed:
        cursor.execute(SQL["drop_messages"], (*change.key, change.consumed))
    if change.renewal is not None:
        renewal = change.renewal
        fresh = renewal.segment
        cursor.execute(SQL["next_generation"], (*change.key, fresh.first + fresh.count, fresh.head, renewal.root))
        cursor.execute(SQL["drop_checkpoint"], change.key)
        _add_segment(cursor, change.key, change.generation + 1, fresh)
        _add_blobs(cursor, change.key.tenant, "run", change.key.run, renewal.blobs)
    if late_cancel is not None:
        operations.set_pause(cursor, p.Unpause(change.key, late_cancel))
        row = (row[0], None, row[2])
    answers = tuple(apply(cursor, each) for each in change.attached)
    return p.Advanced(*row, answers)


def _late_cancel(cursor: sqlite3.Cursor, change: p.Advance) -> int | None:
    """When a cancellation came that a turn, which is to pause its run, does not know of; None of a paused run."""
    found = cursor.execute(SQL["late_cancel"], (*change.key, max(change.heard, change.consumed))).fetchone()
    return None if found is None else int(found[0])


def _keep_checkpoint(cursor: sqlite3.Cursor, change: p.Advance) -> None:
    segment = change.segment
    if change.checkpoint and segment is not None:
        place = (change.generation, segment.first + segment.count, segment.head)
        cursor.execute(SQL["keep_checkpoint"], (*change.key, *place, change.checkpoint))
    else:
        cursor.execute(SQL["drop_checkpoint"], change.key)


def _go_on(cursor: sqlite3.Cursor, change: p.Advance) -> bool:
    """Make the usual turn; False where other columns of the run must change, too, or its lease is lost."""
    segment, projection = change.segment, change.projection
    assert segment is not None
    cursor.execute(
        SQL["go_on"],
        (
            segment.first + segment.count,
            segment.head,
            change.consumed,
            segment.at,
            projection.writes,
            *change.key,
            change.epoch,
            change.version,
            change.generation,
            projection.governed,
        ),
    )
    return cursor.rowcount == 1


def _advance_row(cursor: sqlite3.Cursor, change: p.Advance) -> _Row | None:
    segment, projection = change.segment, change.projection
    ended = projection.standing in p.ENDED and change.renewal is None
    if segment is None:
        version, at, head = change.version, None, None
    else:
        version, at, head = segment.first + segment.count, segment.at, segment.head
    found = cursor.execute(
        SQL["advance"],
        (
            version,
            head,
            projection.standing,
            projection.cancelling,
            projection.wake_at,
            projection.waiting,
            projection.error,
            change.consumed,
            at,
            at if ended else None,
            change.release or ended,
            *change.key,
            change.epoch,
            change.version,
            projection.pause,
            change.generation,
            ended,
            projection.governed,
            projection.writes,
        ),
    ).fetchone()
    return _row(found)


def _row(found: tuple[int, str | None, str | None] | None) -> _Row | None:
    if found is None:
        return None
    arrived, pause, owner = found
    return arrived, pause, owner is None


def _advanced_before(cursor: sqlite3.Cursor, change: p.Advance) -> p.Answer:
    """The answer to an advance that may have been committed before, with its answer lost."""
    if change.segment is None:
        return p.Fenced()
    generation, segment = change.generation, change.segment
    if change.renewal is not None:
        generation, segment = generation + 1, change.renewal.segment
    version = segment.first + segment.count
    values = (*change.key, change.epoch, generation, version, segment.head)
    row = _row(cursor.execute(SQL["advanced_before"], values).fetchone())
    if row is None:
        return p.Fenced()
    return p.Advanced(*row, tuple(_again(cursor, each) for each in change.attached))


def _again(cursor: sqlite3.Cursor, change: p.Attachable) -> p.Answer:
    """The answer to an attached change whose carrier was applied before. A change without an id is not made twice."""
    return known_answer(change) or apply(cursor, change)


def _renew(cursor: sqlite3.Cursor, change: p.Renew) -> p.Answer:
    renewal = change.renewal
    segment = renewal.segment
    found = cursor.execute(
        SQL["renew"],
        (
            *change.key,
            change.generation,
            segment.first + segment.count,
            segment.head,
            renewal.root,
            change.projection.standing,
            change.at,
        ),
    ).fetchone()
    if found is None:
        return p.Fenced()
    cursor.execute(SQL["drop_checkpoint"], change.key)
    _add_segment(cursor, change.key, found[0], segment)
    _add_blobs(cursor, change.key.tenant, "run", change.key.run, renewal.blobs)
    return p.Renewed(found[0])


def _withdraw(cursor: sqlite3.Cursor, change: p.Withdraw) -> p.Answer:
    place = (*change.key, change.position)
    if not change.unbegun:
        cursor.execute(SQL["withdraw"], place)
        return p.Withdrawn()
    cursor.execute(SQL["withdraw_unbegun"], place)
    return p.Withdrawn(left=cursor.execute(SQL["has_work"], place).fetchone() is not None)


def _deliver_unpausing(cursor: sqlite3.Cursor, change: p.Deliver) -> p.Answer:
    answer = _deliver(cursor, change.key, change.message, change.place)
    if isinstance(answer, p.Delivered):
        operations.set_pause(cursor, p.Unpause(change.key, change.message.at))
    return answer


def _deliver(cursor: sqlite3.Cursor, addressed: p.Key, message: p.Message, place: int | None = None) -> p.Answer:
    if message.id is not None:
        cursor.execute(SQL["note_delivery"], (*addressed, message.id, message.at))
        if cursor.rowcount != 1:
            return p.Repeated()
    key, found = _arrive(cursor, addressed, message.at, place)
    if found is None:
        if message.id is not None:
            cursor.execute(SQL["unnote_delivery"], (*addressed, message.id))
        return p.Unknown() if cursor.execute(SQL["exists"], (*key, None)).fetchone() is None else p.Gone()
    cursor.execute(SQL["add_message"], (*key, found[0], message.kind, message.body, message.at))
    if message.kind == p.CANCEL:
        cursor.execute(SQL["mark_cancelling"], key)
    return p.Delivered(found[0], None if key == addressed else key.run)


def _arrive(cursor: sqlite3.Cursor, key: p.Key, at: int, place: int | None) -> tuple[p.Key, tuple[int] | None]:
    """The run that gets a message, and the message's position in its inbox; None where it takes none."""
    while (found := cursor.execute(SQL["arrive"], (*key, at, place)).fetchone()) is None:
        row = cursor.execute(SQL["split_of"], key).fetchone()
        heir = None if row is None else p.heir_of(key, row[0], place)
        if heir is None:
            break
        key = heir
    return key, found


def _add_segment(cursor: sqlite3.Cursor, key: p.Key, generation: int, segment: p.Segment) -> None:
    cursor.execute(
        SQL["add_segment"],
        (*key, generation, segment.first, segment.count, segment.events, segment.head, segment.at),
    )


def _add_blobs(cursor: sqlite3.Cursor, tenant: str, kind: str, holder: str, blobs: Mapping[bytes, bytes]) -> None:
    for digest, data in blobs.items():
        cursor.execute(SQL["add_blob"], (tenant, digest, data))
        cursor.execute(SQL["use_blob"], (tenant, digest, kind, holder))
