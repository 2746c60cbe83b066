"""The changes of a batch as statements, each of which makes a whole set of changes.

A batch of plain changes of one kind is one statement, which is its own transaction: one round trip. Anything else runs
inside a transaction that first locks all rows that it touches.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from holdfast.errors import StoreUnavailable
from holdfast.store import protocol as p
from holdfast.store.judgements import goes_on, known_answer
from holdfast.store.postgres import checkpoints, code, deliveries, gate_changes, holding, operations
from holdfast.store.postgres.cells import put_cells
from holdfast.store.postgres.layers import is_plain, layers, place_of
from holdfast.store.postgres.writer import SET_SIZE, Place, Writer


def one_statement(batch: Sequence[p.Change]) -> bool:
    """Whether the batch is one statement, and so needs no transaction around it."""
    first = type(batch[0])
    if len(batch) > SET_SIZE:
        return False
    return all(type(change) is first and is_plain(change) for change in batch) and len(layers(batch)) == 1


async def apply(writer: Writer, changes: Sequence[p.Change]) -> list[p.Answer]:
    """Make the changes that are not refused, with the result of making them one after the other."""
    answers = await _make(writer, changes, [(index,) for index in range(len(changes))])
    if writer.noted:
        await gate_changes.write_notes(writer)
    return answers


async def _make(writer: Writer, changes: Sequence[p.Change], places: Sequence[Place]) -> list[p.Answer]:
    answers: dict[int, p.Answer] = {}
    for layer in layers(changes):
        kinds: dict[type[p.Change], list[int]] = {}
        for index in layer:
            kinds.setdefault(type(changes[index]), []).append(index)
        if p.FinishWork in kinds:
            await _finish(writer, changes, kinds, answers)
        for kind, indices in kinds.items():
            # In the order of the keys, so that all batches insert and lock rows in the same order. The sort is stable:
            # changes of one run stay in the order of the batch.
            indices.sort(key=lambda index: place_of(changes[index]))
            for begin in range(0, len(indices), SET_SIZE):
                chosen = indices[begin : begin + SET_SIZE]
                given = [changes[index] for index in chosen]
                if kind in _BRINGING:
                    made = await _BRINGING[kind](writer, given, [places[index] for index in chosen])
                else:
                    made = await _APPLY[kind](writer, given)
                answers.update(zip(chosen, made, strict=True))
    return [answers[index] for index in range(len(changes))]


async def _finish(
    writer: Writer, changes: Sequence[p.Change], kinds: dict[type[p.Change], list[int]], answers: dict[int, p.Answer]
) -> None:
    """Mark finished work done. Its messages are then delivered in order with the other deliveries."""
    finished = {
        index: change for index in kinds.pop(p.FinishWork) if isinstance(change := changes[index], p.FinishWork)
    }
    rows = [(*change.key, change.position, change.epoch) for change in finished.values()]
    found = {tuple(row) for row in await writer.fetch_columns("finish_work", rows, width=4)}
    delivered = []
    for index, change in finished.items():
        if (*change.key, change.position) in found:
            delivered.append(index)
        else:
            answers[index] = p.Fenced()
    if delivered:
        kinds[p.Deliver] = sorted(kinds.get(p.Deliver, []) + delivered)


async def _apply_attached(
    writer: Writer, owners: Sequence[tuple[int, Sequence[p.Change]]], places: Sequence[Place]
) -> dict[int, tuple[p.Answer, ...]]:
    """Apply the attached changes; the answers are keyed by the index of the change that carries them."""
    changes = [each for _, attached in owners for each in attached]
    below = [(*places[index], number) for index, attached in owners for number in range(len(attached))]
    answers = iter(await _make(writer, changes, below))
    return {index: tuple(next(answers) for _ in attached) for index, attached in owners}


# -- starting and advancing ----------------------------------------------------------------------------------------


async def _start(writer: Writer, changes: Sequence[p.Start], places: Sequence[Place]) -> list[p.Answer]:
    rows = [_start_row(change) for change in changes]
    started = {(row[0], row[1]) for row in await writer.fetch_hinting("start", rows, width=34)}
    before, existing = await _started_before(writer, [change for change in changes if change.key not in started])
    applied = [(index, change) for index, change in enumerate(changes) if change.key in started]
    await writer.add_blobs([(change.key, change.blobs) for _, change in applied])
    owners = [
        (index, change.attached if change.key in started else _again(change))
        for index, change in enumerate(changes)
        if change.key in started or change.key in before
    ]
    attached = await _apply_attached(writer, owners, places)
    answers: list[p.Answer] = []
    for index, change in enumerate(changes):
        if change.key in started:
            answers.append(p.Started(1, attached[index]))
        elif change.key in before:
            answers.append(p.Started(1, _restored(change, attached[index])))
        else:
            answers.append(existing[change.key])
    return answers


async def _started_before(
    writer: Writer, changes: Sequence[p.Start]
) -> tuple[set[tuple[str, str]], dict[tuple[str, str], p.Exists | p.Retired | p.Limited]]:
    """The starts that were not made: those that were committed before with their answer lost, and the others."""
    if not changes:
        return set(), {}
    rows = [(*change.key, change.owner, change.segment.head, change.trigger_key) for change in changes]
    before: set[tuple[str, str]] = set()
    existing: dict[tuple[str, str], p.Exists | p.Retired | p.Limited] = {}
    for tenant, id_, workflow, fingerprint, run, same, _ in await writer.fetch_columns("exists", rows, width=5):
        if same:
            before.add((tenant, id_))
        else:
            existing[tenant, id_] = p.Retired() if workflow is None else p.Exists(workflow, fingerprint, run)
    for change in changes:
        if change.begins and change.key not in before and change.key not in existing:
            existing[change.key] = p.Limited()
    if len(before) + len(existing) < len(changes):
        raise StoreUnavailable("a run was deleted while its id was asked for: try again")
    return before, existing


def _start_row(change: p.Start) -> tuple[Any, ...]:
    segment, projection, origin = change.segment, change.projection, change.origin
    ended_at = segment.at if projection.standing in p.ENDED else None
    ready_at = segment.at if change.owner is None and projection.standing == "queued" else None
    return (
        *change.key,
        change.workflow,
        change.root,
        segment.first + segment.count,
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
        ended_at,
        segment.first,
        segment.count,
        segment.events,
        origin.workspace,
        origin.actor,
        origin.trigger_type,
        origin.trigger_ref,
        change.begun_at,
        projection.governed,
        projection.writes,
        change.program_kind,
        change.code_digest,
        change.trigger_key,
    )


async def _advance(writer: Writer, changes: Sequence[p.Advance], places: Sequence[Place]) -> list[p.Answer]:
    rows = [_advance_row(change) for change in changes]
    moved = {(row[0], row[1]): row for row in await writer.fetch_hinting("advance", rows, width=11)}
    fenced = [change for change in changes if change.key not in moved]
    before = await _advanced_before(writer, fenced) if fenced else {}
    applied = [(index, change) for index, change in enumerate(changes) if change.key in moved]
    # The statement did not see a message that was committed while it waited for its run's lock.
    late = [change.key for _, change in applied if _ends(change) and moved[change.key][2] > change.consumed]
    if late:
        await writer.fetch_columns("clear_inbox", late, width=2)
    await writer.add_blobs([(change.key, change.blobs) for _, change in applied])
    await checkpoints.keep(writer, [change for _, change in applied if change.checkpoint is not None])
    await _renew_journals(writer, [change for _, change in applied if change.renewal is not None])
    unpaused = await _unpause_late_cancelled(writer, [each for _, each in applied if not moved[each.key][5]])
    owners = [
        (index, change.attached if change.key in moved else _again(change))
        for index, change in enumerate(changes)
        if change.key in moved or change.key in before
    ]
    attached = await _apply_attached(writer, owners, places)
    answers: list[p.Answer] = []
    for index, change in enumerate(changes):
        row = moved.get(change.key) or before.get(change.key)
        if row is None:
            answers.append(p.Fenced())
        else:
            replies = attached[index] if change.key in moved else _restored(change, attached[index])
            pause = None if change.key in unpaused else row[3]
            answers.append(p.Advanced(row[2], pause, row[4] is None, replies))
    return answers


async def _unpause_late_cancelled(writer: Writer, changes: Sequence[p.Advance]) -> set[tuple[str, str]]:
    """Make the runs ready that these turns have paused, and that got a cancellation of which the turns did not know."""
    rows = [(*each.key, max(each.heard, each.consumed)) for each in changes if each.projection.pause is not None]
    late = await writer.fetch_columns("late_cancels", rows, width=3) if rows else []
    for tenant, run, at in late:
        await writer.fetch_hint("unpause", tenant, run, at)
    return {(tenant, run) for tenant, run, _ in late}


def _ends(change: p.Advance) -> bool:
    return change.projection.standing in p.ENDED and change.renewal is None


def _advance_row(change: p.Advance) -> tuple[Any, ...]:
    segment = change.segment
    if segment is None:
        count, head, at, events = None, None, None, None
    else:
        count, head, at, events = segment.count, segment.head, segment.at, segment.events
    place = (*change.key, change.epoch, change.version, change.generation)
    return (*place, count, head, change.consumed, at, events, _rest(change))


def _rest(change: p.Advance) -> str | None:
    """What only an unusual turn sets, as JSON; None for a usual one."""
    projection = change.projection
    if goes_on(change) and not projection.governed and not projection.writes:
        return None
    ended = _ends(change)
    rest = {
        "standing": projection.standing,
        "cancelling": projection.cancelling,
        "wake_at": projection.wake_at,
        "waiting": projection.waiting,
        "error": projection.error,
        "pause": projection.pause,
        "ended": ended,
        "release": change.release or ended,
        "governed": projection.governed,
        "writes": projection.writes,
    }
    return msgspec.json.encode(rest).decode()


async def _advanced_before(writer: Writer, changes: Sequence[p.Advance]) -> dict[tuple[str, str], Any]:
    """The advances that were committed before, with their answer lost."""
    rows = []
    for change in changes:
        generation, segment = change.generation, change.segment
        if segment is not None and change.renewal is not None:
            generation, segment = generation + 1, change.renewal.segment
        if segment is not None:
            rows.append((*change.key, change.epoch, generation, segment.first + segment.count, segment.head))
    return {(row[0], row[1]): row for row in await writer.fetch_columns("advanced_before", rows, width=6)}


def _again(change: p.Advance | p.Start) -> list[p.Change]:
    """The attached changes to apply again where the change was applied before; the others were applied with it."""
    return [each for each in change.attached if known_answer(each) is None]


def _restored(change: p.Advance | p.Start, answers: tuple[p.Answer, ...]) -> tuple[p.Answer, ...]:
    """The answers to the changes that were applied again, merged with the known answers to the others."""
    following = iter(answers)
    return tuple(known_answer(each) or next(following) for each in change.attached)


async def _renew_journals(writer: Writer, changes: Sequence[p.Advance]) -> None:
    """Begin the next generations of runs that continue with a fresh journal."""
    renewals = [(change, change.renewal) for change in changes if change.renewal is not None]
    if not renewals:
        return
    rows, segments = [], []
    for change, renewal in renewals:
        fresh = renewal.segment
        rows.append((*change.key, fresh.first + fresh.count, fresh.head, renewal.root))
        segments.append(_segment_row(change.key, change.generation + 1, fresh))
    await writer.fetch_columns("next_generation", rows, width=5)
    await checkpoints.drop(writer, [change.key for change, _ in renewals])
    await writer.fetch_columns("add_segment", segments, width=8)
    await writer.add_blobs([(change.key, renewal.blobs) for change, renewal in renewals])


async def _renew(writer: Writer, changes: Sequence[p.Renew]) -> list[p.Answer]:
    rows = []
    for change in changes:
        renewal, fresh = change.renewal, change.renewal.segment
        version = fresh.first + fresh.count
        standing = change.projection.standing
        rows.append((*change.key, change.generation, version, fresh.head, renewal.root, standing, change.at))
    # An ended run has no inbox; a message that came while it ended must not reach the next generation either.
    await writer.fetch_columns("clear_inbox", [change.key for change in changes], width=2)
    found = {(row[0], row[1]): row[2] for row in await writer.fetch_columns("renew", rows, width=8)}
    renewed = [change for change in changes if change.key in found]
    await checkpoints.drop(writer, [change.key for change in renewed])
    segments = [_segment_row(change.key, found[change.key], change.renewal.segment) for change in renewed]
    await writer.fetch_columns("add_segment", segments, width=8)
    await writer.add_blobs([(change.key, change.renewal.blobs) for change in renewed])
    return [p.Renewed(found[change.key]) if change.key in found else p.Fenced() for change in changes]


def _segment_row(key: p.Key, generation: int, segment: p.Segment) -> tuple[Any, ...]:
    return (*key, generation, segment.first, segment.count, segment.events, segment.head, segment.at)


# -- messages and work ---------------------------------------------------------------------------------------------


async def _enqueue(writer: Writer, changes: Sequence[p.Enqueue]) -> list[p.Answer]:
    works = [change.work for change in changes]
    works.sort(key=lambda work: (work.key, work.position))
    rows = [
        (*w.key, w.position, w.queue, w.name, w.attempt, w.body, w.priority, w.available_at, w.epoch) for w in works
    ]
    await writer.fetch_hinting("enqueue", rows, width=10)
    return [p.Enqueued() for _ in changes]


async def _withdraw(writer: Writer, changes: Sequence[p.Withdraw]) -> list[p.Answer]:
    rows = [(*change.key, change.position, change.unbegun) for change in changes]
    left = {tuple(row) for row in await writer.fetch_columns("withdraw", rows, width=4)}
    return [p.Withdrawn(left=(*change.key, change.position) in left) for change in changes]


async def _beat(writer: Writer, changes: Sequence[p.Beat]) -> list[p.Answer]:
    # Only the last beat of a step counts; a statement may touch a row only once.
    last = {(change.key, change.position): (change.details, change.at) for change in changes}
    rows = [(*key, position, *beat) for (key, position), beat in sorted(last.items())]
    await writer.fetch_columns("beat_step", rows, width=5)
    return [p.Enqueued() for _ in changes]


async def _put_tasks(writer: Writer, changes: Sequence[p.PutTask], places: Sequence[Place]) -> list[p.Answer]:
    answers, fresh = await gate_changes.put_tasks(writer, changes)
    await _apply_attached(writer, [(index, changes[index].attached) for index in fresh], places)
    return answers


async def _cancel_tasks(writer: Writer, changes: Sequence[p.CancelTask], places: Sequence[Place]) -> list[p.Answer]:
    answers, fresh = await gate_changes.cancel_tasks(writer, changes)
    await _apply_attached(writer, [(index, changes[index].attached) for index in fresh], places)
    return answers


async def _operate(writer: Writer, changes: Sequence[p.Operate], places: Sequence[Place]) -> list[p.Answer]:
    return await operations.operate(writer, changes, places, _make)


_APPLY: dict[type[p.Change], Callable[[Writer, Any], Awaitable[list[p.Answer]]]] = {
    p.Renew: _renew,
    p.Deliver: deliveries.deliver,
    p.Enqueue: _enqueue,
    p.Withdraw: _withdraw,
    p.Beat: _beat,
    p.KeepCode: code.keep,
    p.PutCells: put_cells,
    p.SetReference: gate_changes.set_references,
    p.MarkSplit: operations.mark_split,
    p.Tally: operations.tally,
    p.Hold: holding.hold,
    p.HoldFormer: holding.hold_former,
    p.SetHolds: holding.set_holds,
}

# The changes for which the order of the batch counts, mostly because audit entries are attached to them.
_BRINGING: dict[type[p.Change], Callable[[Writer, Any, Sequence[Place]], Awaitable[list[p.Answer]]]] = {
    p.Start: _start,
    p.Advance: _advance,
    p.OpenReceipt: gate_changes.open_receipts,
    p.CloseReceipt: gate_changes.close_receipts,
    p.TakeBack: holding.take_back,
    p.SettleTaking: holding.settle,
    p.PutTask: _put_tasks,
    p.CancelTask: _cancel_tasks,
    p.Note: gate_changes.note,
    p.Operate: _operate,
}
