"""Each change as a replacement of rows. A change is judged first, then made completely: a refusal leaves no trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.store.judgements import known_answer
from holdfast.store.memory import gate_changes, holding, operations
from holdfast.store.memory.admission import has_caps
from holdfast.store.memory.cells import put_cells
from holdfast.store.memory.tables import Holder, Tables


def apply(tables: Tables, change: p.Change) -> p.Answer:
    """Make one change, or none of it, and answer."""
    match change:
        case p.Advance():
            return _advance(tables, change)
        case p.Start():
            return _start(tables, change)
        case p.Deliver(key=key, message=message):
            answer = _deliver(tables, key, message, change.place)
            if change.unpauses and isinstance(answer, p.Delivered):
                operations.set_pause(tables, p.Unpause(key, message.at))
            return answer
        case p.Enqueue(work=work):
            return _enqueue(tables, work)
        case p.Withdraw(key=key, position=position):
            offer = tables.work.get(key, {}).get(position)
            if change.unbegun and offer is not None and (offer.done or offer.owner is not None):
                return p.Withdrawn(left=True)
            tables.work.get(key, {}).pop(position, None)
            return p.Withdrawn()
        case p.FinishWork():
            return _finish_work(tables, change)
        case p.Beat(key=key, position=position, details=details, at=at):
            tables.progress.setdefault(key, {})[position] = p.StepProgress(position, details, at)
            return p.Enqueued()
        case p.KeepCode(tenant=tenant, code=code):
            if not code.fits:
                return p.CodeMisfit()
            tables.code.setdefault((tenant, code.digest), code)
            return p.Kept()
        case p.PutCells():
            return put_cells(tables, change)
        case p.Tally():
            return operations.tally(tables, change)
        case p.MarkSplit():
            if (run := tables.runs.get(change.key)) is not None:
                tables.put(replace(run, split=change.split))
            return p.Marked()
        case p.SetReference():
            return gate_changes.set_reference(tables, change)
        case p.Renew():
            return _renew(tables, change)
        case p.Operate():
            return operations.operate(tables, change, apply)
        case p.Note():
            return gate_changes.note(tables, change)
        case p.OpenReceipt():
            return gate_changes.open_receipt(tables, change)
        case p.Hold():
            return holding.hold(tables, change)
        case p.HoldFormer():
            return holding.hold_former(tables, change)
        case p.SetHolds():
            return holding.set_holds(tables, change)
        case p.CloseReceipt() | p.PutTask() | p.CancelTask() | p.TakeBack() | p.SettleTaking():
            return _gate(tables, change)
        case _ as never:
            assert_never(never)


def _gate(tables: Tables, change: p.CloseReceipt | p.PutTask | p.CancelTask | p.TakeBack | p.SettleTaking) -> p.Answer:
    if isinstance(change, p.CloseReceipt):
        answer, fresh = gate_changes.close_receipt(tables, change)
    elif isinstance(change, p.TakeBack):
        answer, fresh = holding.take_back(tables, change)
    elif isinstance(change, p.SettleTaking):
        answer, fresh = holding.settle(tables, change)
    elif isinstance(change, p.CancelTask):
        answer, fresh = gate_changes.cancel_task(tables, change)
    else:
        answer, fresh = gate_changes.put_task(tables, change)
    if fresh:
        for each in change.attached:
            apply(tables, each)
    return answer


def _start(tables: Tables, change: p.Start) -> p.Answer:
    existing = tables.runs.get(change.key)
    if existing is not None:
        first = (existing.owner, existing.epoch, existing.generation, existing.head)
        if change.owner is not None and first == (change.owner, 1, 0, change.segment.head):
            return p.Started(1, tuple(_again(tables, each) for each in change.attached))
    if change.trigger_key is not None:
        existing = tables.runs.get(tables.triggers.get((change.key.tenant, change.trigger_key), change.key))
    if existing is not None:
        return p.Exists(existing.workflow, existing.fingerprint, existing.key.run)
    if change.key in tables.retired:
        return p.Retired()
    if change.begins and has_caps(tables, change.key.tenant):
        return p.Limited()
    segment, projection = change.segment, change.projection
    ended_at = segment.at if projection.standing in p.ENDED else None
    tables.put(
        p.Run(
            key=change.key,
            workflow=change.workflow,
            root=change.root,
            generation=0,
            version=segment.first + segment.count,
            head=segment.head,
            standing=projection.standing,
            cancelling=projection.cancelling,
            pause=projection.pause,
            priority=change.priority,
            attributes=dict(change.attributes),
            parent=change.parent,
            parent_position=change.parent_position,
            fingerprint=change.fingerprint,
            owner=None if ended_at is not None else change.owner,
            epoch=1,
            crashes=0,
            ready_at=segment.at if change.owner is None and projection.standing == "queued" else None,
            wake_at=projection.wake_at,
            waiting=projection.waiting,
            arrived=0,
            consumed=0,
            error=projection.error,
            created_at=segment.at,
            updated_at=segment.at,
            ended_at=ended_at,
            workspace=change.origin.workspace,
            actor=change.origin.actor,
            trigger_type=change.origin.trigger_type,
            trigger_ref=change.origin.trigger_ref,
            begun_at=change.begun_at,
            governed=projection.governed,
            writes=projection.writes,
            program_kind=change.program_kind,
            code_digest=change.code_digest,
        )
    )
    if change.trigger_key is not None:
        tables.triggers[change.key.tenant, change.trigger_key] = change.key
        tables.trigger_keys[change.key] = change.trigger_key
    _write(tables, change.key, 0, segment, change.blobs)
    return p.Started(1, tuple(apply(tables, each) for each in change.attached))


def _advance(tables: Tables, change: p.Advance) -> p.Answer:
    run = tables.runs.get(change.key)
    if run is None:
        return p.Fenced()
    expected = (change.generation, change.epoch, change.version)
    if run.owner is None or (run.generation, run.epoch, run.version) != expected:
        return _advanced_before(tables, run, change)
    was_paused = run.pause is not None
    run = _advanced_row(run, change)
    tables.put(run)
    if change.segment is not None:
        _write(tables, run.key, change.generation, change.segment, change.blobs)
    else:
        _use_blobs(tables, run.key, change.blobs)
    if change.checkpoint is not None:
        _keep_checkpoint(tables, change)
    if _ends(change):
        tables.clear(run.key)
    else:
        _drop_messages(tables, run.key, change.consumed)
    if change.renewal is not None:
        fresh = change.renewal.segment
        following = replace(
            run,
            generation=run.generation + 1,
            version=fresh.first + fresh.count,
            head=fresh.head,
            root=change.renewal.root,
            standing="running",
            ended_at=None,
            error=None,
        )
        tables.put(following)
        tables.checkpoints.pop(run.key, None)
        _write(tables, run.key, following.generation, fresh, change.renewal.blobs)
    if change.projection.pause is not None and not was_paused:
        run = _unpaused_by_late_cancel(tables, run, change)
    answers = tuple(apply(tables, each) for each in change.attached)
    return p.Advanced(run.arrived, run.pause, run.owner is None, answers)


def _unpaused_by_late_cancel(tables: Tables, run: p.Run, change: p.Advance) -> p.Run:
    """The run, which its own turn has paused, ready if a cancellation has come that the turn did not know of."""
    inbox = tables.inbox.get(run.key, {}).items()
    late = (each for position, each in inbox if position > change.heard and each.kind == p.CANCEL)
    if (first := next(late, None)) is not None:
        operations.set_pause(tables, p.Unpause(run.key, first.at))
    return tables.runs[run.key]


def _keep_checkpoint(tables: Tables, change: p.Advance) -> None:
    if change.checkpoint and change.segment is not None:
        version, head = change.segment.first + change.segment.count, change.segment.head
        tables.checkpoints[change.key] = p.CheckpointRow(version, head, change.checkpoint)
    else:
        tables.checkpoints.pop(change.key, None)


def _ends(change: p.Advance) -> bool:
    return change.projection.standing in p.ENDED and change.renewal is None


def _advanced_row(run: p.Run, change: p.Advance) -> p.Run:
    """The row after a turn. The lease is kept where messages are not consumed, unless the run is paused or ended."""
    segment, projection, ends = change.segment, change.projection, _ends(change)
    pause = projection.pause if projection.pause is not None else run.pause
    idle = run.arrived <= change.consumed or ends or pause is not None
    at = None if segment is None else segment.at
    return replace(
        run,
        version=run.version if segment is None else segment.first + segment.count,
        head=run.head if segment is None else segment.head,
        standing=projection.standing,
        cancelling=projection.cancelling,
        wake_at=projection.wake_at,
        waiting=projection.waiting,
        error=projection.error,
        consumed=change.consumed,
        updated_at=run.updated_at if at is None else at,
        ended_at=at if ends else None,
        crashes=run.crashes if segment is None else 0,
        ready_at=None,
        pause=pause,
        governed=run.governed or projection.governed,
        writes=projection.writes,
        owner=None if (change.release or ends) and idle else run.owner,
    )


def _advanced_before(tables: Tables, run: p.Run, change: p.Advance) -> p.Answer:
    """The same advance committed again: recognised by its head hash, which no other advance has."""
    if change.segment is None:
        return p.Fenced()
    generation, segment = change.generation, change.segment
    if change.renewal is not None:
        generation, segment = generation + 1, change.renewal.segment
    present = (run.epoch, run.generation, run.version, run.head)
    if present != (change.epoch, generation, segment.first + segment.count, segment.head):
        return p.Fenced()
    answers = tuple(_again(tables, each) for each in change.attached)
    return p.Advanced(run.arrived, run.pause, run.owner is None, answers)


def _again(tables: Tables, change: p.Attachable) -> p.Answer:
    """The answer to an attached change whose carrier was applied before. A change without an id is not made twice."""
    return known_answer(change) or apply(tables, change)


def _renew(tables: Tables, change: p.Renew) -> p.Answer:
    run = tables.runs.get(change.key)
    if run is None or run.generation != change.generation or run.ended_at is None:
        return p.Fenced()
    segment = change.renewal.segment
    following = replace(
        run,
        generation=run.generation + 1,
        version=segment.first + segment.count,
        head=segment.head,
        root=change.renewal.root,
        standing=change.projection.standing,
        cancelling=False,
        pause=None,
        owner=None,
        epoch=run.epoch + 1,
        ready_at=change.at,
        wake_at=None,
        waiting=None,
        error=None,
        consumed=run.arrived,  # what came too late for its end was dropped with that
        updated_at=change.at,
        ended_at=None,
        crashes=0,
        begun_at=None,  # it needs a place like a new run
        evidence=None,
    )
    tables.put(following)
    tables.checkpoints.pop(run.key, None)
    _write(tables, run.key, following.generation, segment, change.renewal.blobs)
    return p.Renewed(following.generation)


def _enqueue(tables: Tables, work: p.Work) -> p.Answer:
    """The same attempt offered again changes nothing, even when it is done; a later attempt replaces it."""
    offer = tables.work.get(work.key, {}).get(work.position)
    if offer is None:
        tables.offer(work, None)
    elif work.attempt > offer.work.attempt:
        tables.offer(replace(work, epoch=max(work.epoch, offer.work.epoch + 1)), None)
    return p.Enqueued()


def _finish_work(tables: Tables, change: p.FinishWork) -> p.Answer:
    offer = tables.work.get(change.key, {}).get(change.position)
    if offer is None or offer.done or offer.work.epoch != change.epoch:
        return p.Fenced()
    tables.offer(offer.work, None, done=True)
    return _deliver(tables, change.key, change.message)


def _deliver(tables: Tables, addressed: p.Key, message: p.Message, place: int | None = None) -> p.Answer:
    if message.id is not None and message.id in tables.deliveries.get(addressed, ()):
        return p.Repeated()
    key, run = addressed, tables.runs.get(addressed)
    while run is not None and (heir := p.heir_of(key, run.split, place)) is not None:
        key, run = heir, tables.runs.get(heir)
    if run is None:
        return p.Unknown()
    if run.ended_at is not None:
        return p.Gone()
    if message.id is not None:
        tables.deliveries.setdefault(addressed, {})[message.id] = message.at
    ready_at = run.ready_at
    if run.owner is None and ready_at is None:
        ready_at = message.at
    position = run.arrived + 1
    cancelling = run.cancelling or message.kind == p.CANCEL
    tables.put(replace(run, arrived=position, ready_at=ready_at, cancelling=cancelling))
    tables.inbox.setdefault(key, {})[position] = replace(message, id=None)
    return p.Delivered(position, None if key == addressed else key.run)


def _drop_messages(tables: Tables, key: p.Key, consumed: int) -> None:
    inbox = tables.inbox.get(key, {})
    for position in [position for position in inbox if position <= consumed]:
        del inbox[position]


def _write(tables: Tables, key: p.Key, generation: int, segment: p.Segment, blobs: Mapping[bytes, bytes]) -> None:
    tables.segments.setdefault(key, {}).setdefault(generation, []).append(segment)
    _use_blobs(tables, key, blobs)


def _use_blobs(tables: Tables, key: p.Key, blobs: Mapping[bytes, bytes]) -> None:
    for digest, data in blobs.items():
        tables.use_blob(Holder(key.tenant, "run", key.run), digest, data)
