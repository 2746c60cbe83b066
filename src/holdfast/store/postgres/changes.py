"""The changes of a batch as statements, each of which makes a whole set of changes.

A batch of plain changes of one kind is one statement, which is its own transaction: one round trip. Anything else runs
inside a transaction that first locks all runs it touches.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from holdfast.errors import StoreUnavailable
from holdfast.store import protocol as p
from holdfast.store.postgres.layers import is_plain, keys_of, layers
from holdfast.store.postgres.sql import SQL

C = TypeVar("C", bound=p.Change)


class Writer:
    """One connection's statements, and the hint that goes out with the first one that can carry it."""

    def __init__(self, connection: Any, channel: str, instance: str) -> None:
        self._connection = connection
        self._channel = channel
        self._instance = instance
        self.hinting = False

    async def fetch(self, name: str, *values: Any) -> list[Any]:
        found: list[Any] = await self._connection.fetch(SQL[name], *values)
        return found

    async def fetch_columns(self, name: str, rows: Iterable[tuple[Any, ...]], *, width: int) -> list[Any]:
        """A statement over a set: its rows become one array per column."""
        return await self.fetch(name, *columns(rows, width))

    async def fetch_hinting(self, name: str, rows: Iterable[tuple[Any, ...]], *, width: int) -> list[Any]:
        """The same for a statement that can carry the hint. It does so where it changes anything."""
        hint = self._instance if self.hinting else None
        return await self.fetch(name, *columns(rows, width), self._channel, hint)

    async def hint(self) -> None:
        await self.fetch("notify", self._channel, self._instance)


def columns(rows: Iterable[tuple[Any, ...]], width: int) -> list[Sequence[Any]]:
    """Rows turned into columns, of which there are ``width`` even where there is no row."""
    return list(zip(*rows, strict=True)) or [()] * width


def one_statement(batch: Sequence[p.Change]) -> bool:
    """Whether the batch is one statement, and so needs no transaction around it."""
    first = type(batch[0])
    return all(type(change) is first and is_plain(change) for change in batch) and len(layers(batch)) == 1


async def apply(writer: Writer, changes: Sequence[p.Change]) -> list[p.Answer]:
    """Make the changes, or those that are not refused, as if one after the other."""
    answers: dict[int, p.Answer] = {}
    for layer in layers(changes):
        kinds: dict[type[p.Change], list[int]] = {}
        for index in layer:
            kinds.setdefault(type(changes[index]), []).append(index)
        if p.FinishWork in kinds:
            await _finish(writer, changes, kinds, answers)
        for kind, indices in kinds.items():
            # In the order of the keys, so that rows are inserted and locked in an order that all batches share.
            # The sort is stable: what belongs to one run stays in the order given.
            indices.sort(key=lambda index: next(keys_of(changes[index])))
            chosen = [changes[index] for index in indices]
            answers.update(zip(indices, await _APPLY[kind](writer, chosen), strict=True))
    return [answers[index] for index in range(len(changes))]


async def _finish(
    writer: Writer, changes: Sequence[p.Change], kinds: dict[type[p.Change], list[int]], answers: dict[int, p.Answer]
) -> None:
    """Delete finished work; what is left to do is to deliver the messages, in order with the other deliveries."""
    finished = {
        index: change for index in kinds.pop(p.FinishWork) if isinstance(change := changes[index], p.FinishWork)
    }
    rows = [(*change.key, change.position, change.epoch) for change in finished.values()]
    found = {tuple(row) for row in await writer.fetch_columns("finish_work", rows, width=4)}
    held = []
    for index, change in finished.items():
        if (*change.key, change.position) in found:
            held.append(index)
        else:
            answers[index] = p.Fenced()
    if held:
        kinds[p.Deliver] = sorted(kinds.get(p.Deliver, []) + held)


async def _also(writer: Writer, owners: Sequence[tuple[int, Sequence[p.Change]]]) -> dict[int, tuple[p.Answer, ...]]:
    """What comes also with changes that were applied, by the index of each."""
    answers = iter(await apply(writer, [also for _, alsos in owners for also in alsos]))
    return {index: tuple(next(answers) for _ in alsos) for index, alsos in owners}


# -- starting and advancing ----------------------------------------------------------------------------------------


async def _start(writer: Writer, changes: Sequence[p.Start]) -> list[p.Answer]:
    rows = [_start_row(change) for change in changes]
    started = {(row[0], row[1]) for row in await writer.fetch_hinting("start", rows, width=24)}
    taken = [change.key for change in changes if change.key not in started]
    existing = {}
    if taken:
        for tenant, id_, workflow, fingerprint in await writer.fetch_columns("exists", taken, width=2):
            existing[tenant, id_] = p.Exists(workflow, fingerprint)
        if len(existing) < len(taken):
            raise StoreUnavailable("a run was deleted while its id was asked for: try again")
    applied = [(index, change) for index, change in enumerate(changes) if change.key in started]
    await _add_blobs(writer, [(change.key, change.blobs) for _, change in applied])
    also = await _also(writer, [(index, change.also) for index, change in applied])
    return [
        p.Started(1, also[index]) if index in also else existing[change.key] for index, change in enumerate(changes)
    ]


def _start_row(change: p.Start) -> tuple[Any, ...]:
    segment, projection = change.segment, change.projection
    ended_at = segment.at if projection.standing in p.ENDED else None
    ready_at = segment.at if change.owner is None and ended_at is None else None
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
    )


async def _advance(writer: Writer, changes: Sequence[p.Advance]) -> list[p.Answer]:
    rows = [_advance_row(change) for change in changes]
    moved = {(row[0], row[1]): row for row in await writer.fetch_hinting("advance", rows, width=20)}
    fenced = [change for change in changes if change.key not in moved]
    before = await _advanced_before(writer, fenced) if fenced else {}
    applied = [(index, change) for index, change in enumerate(changes) if change.key in moved]
    # A message that was committed while this statement waited for its run's lock was not seen by it.
    late = [change.key for _, change in applied if _ends(change) and moved[change.key][2] > change.consumed]
    if late:
        await writer.fetch_columns("clear_inbox", late, width=2)
    await _add_blobs(writer, [(change.key, change.blobs) for _, change in applied])
    await _renew_journals(writer, [change for _, change in applied if change.renewal is not None])
    owners = [
        (index, change.also if change.key in moved else _again(change))
        for index, change in enumerate(changes)
        if change.key in moved or change.key in before
    ]
    also = await _also(writer, owners)
    answers: list[p.Answer] = []
    for index, change in enumerate(changes):
        row = moved.get(change.key) or before.get(change.key)
        if row is None:
            answers.append(p.Fenced())
        else:
            again = also[index] if change.key in moved else _restored(change, also[index])
            answers.append(p.Advanced(row[2], row[3], row[4] is None, again))
    return answers


def _ends(change: p.Advance) -> bool:
    return change.projection.standing in p.ENDED and change.renewal is None


def _advance_row(change: p.Advance) -> tuple[Any, ...]:
    segment, projection = change.segment, change.projection
    ended = _ends(change)
    if segment is None:
        version, head, at, first, count, events = change.version, None, None, None, None, None
    else:
        version, head, at = segment.first + segment.count, segment.head, segment.at
        first, count, events = segment.first, segment.count, segment.events
    return (
        *change.key,
        change.epoch,
        change.version,
        change.generation,
        version,
        head,
        projection.standing,
        projection.cancelling,
        projection.wake_at,
        projection.waiting,
        projection.error,
        change.consumed,
        at,
        ended,
        change.release or ended,
        projection.pause,
        first,
        count,
        events,
    )


async def _advanced_before(writer: Writer, changes: Sequence[p.Advance]) -> dict[tuple[str, str], Any]:
    """Those advances whose first commit came through although its answer was lost."""
    rows = []
    for change in changes:
        generation, segment = change.generation, change.segment
        if segment is not None and change.renewal is not None:
            generation, segment = generation + 1, change.renewal.segment
        if segment is not None:
            rows.append((*change.key, change.epoch, generation, segment.first + segment.count, segment.head))
    return {(row[0], row[1]): row for row in await writer.fetch_columns("advanced_before", rows, width=6)}


def _again(change: p.Advance) -> list[p.Change]:
    """What is asked again of an advance applied before. Work is not offered again: it may have been done meanwhile."""
    return [also for also in change.also if not isinstance(also, p.Enqueue)]


def _restored(change: p.Advance, answers: tuple[p.Answer, ...]) -> tuple[p.Answer, ...]:
    """The answers to what was asked again, with those to the work between them."""
    asked = iter(answers)
    return tuple(p.Enqueued() if isinstance(also, p.Enqueue) else next(asked) for also in change.also)


async def _renew_journals(writer: Writer, changes: Sequence[p.Advance]) -> None:
    """Begin the next generations of runs that go on with a fresh journal."""
    renewals = [(change, change.renewal) for change in changes if change.renewal is not None]
    if not renewals:
        return
    rows, segments = [], []
    for change, renewal in renewals:
        fresh = renewal.segment
        rows.append((*change.key, fresh.first + fresh.count, fresh.head, renewal.root))
        segments.append(_segment_row(change.key, change.generation + 1, fresh))
    await writer.fetch_columns("next_generation", rows, width=5)
    await writer.fetch_columns("add_segment", segments, width=8)
    await _add_blobs(writer, [(change.key, renewal.blobs) for change, renewal in renewals])


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
    segments = [_segment_row(change.key, found[change.key], change.renewal.segment) for change in renewed]
    await writer.fetch_columns("add_segment", segments, width=8)
    await _add_blobs(writer, [(change.key, change.renewal.blobs) for change in renewed])
    return [p.Renewed(found[change.key]) if change.key in found else p.Fenced() for change in changes]


def _segment_row(key: p.Key, generation: int, segment: p.Segment) -> tuple[Any, ...]:
    return (*key, generation, segment.first, segment.count, segment.events, segment.head, segment.at)


async def _add_blobs(writer: Writer, given: Sequence[tuple[p.Key, Any]]) -> None:
    uses = sorted({(key.tenant, digest, key.run) for key, blobs in given for digest in blobs})
    if uses:
        data = {(key.tenant, digest): data for key, blobs in given for digest, data in blobs.items()}
        await writer.fetch_columns("add_blob", [(*blob, data[blob]) for blob in sorted(data)], width=3)
        await writer.fetch_columns("use_blob", uses, width=3)


# -- messages and work ---------------------------------------------------------------------------------------------


async def _deliver(writer: Writer, changes: Sequence[p.Deliver | p.FinishWork]) -> list[p.Answer]:
    rows = [
        (*change.key, change.message.kind, change.message.body, change.message.at, change.message.id)
        for change in changes
    ]
    answers: list[p.Answer] = [p.Unknown() for _ in changes]
    for ordinal, gone, position, _ in await writer.fetch_hinting("deliver", rows, width=6):
        if gone:
            answers[ordinal - 1] = p.Gone()
        else:
            answers[ordinal - 1] = p.Repeated() if position is None else p.Delivered(position)
    return answers


async def _enqueue(writer: Writer, changes: Sequence[p.Enqueue]) -> list[p.Answer]:
    works = [change.work for change in changes]
    works.sort(key=lambda work: (work.key, work.position))
    rows = [(*w.key, w.position, w.queue, w.name, w.attempt, w.body, w.priority, w.available_at) for w in works]
    await writer.fetch_hinting("enqueue", rows, width=9)
    return [p.Enqueued() for _ in changes]


async def _withdraw(writer: Writer, changes: Sequence[p.Withdraw]) -> list[p.Answer]:
    await writer.fetch_columns("withdraw", [(*change.key, change.position) for change in changes], width=3)
    return [p.Withdrawn() for _ in changes]


async def _beat(writer: Writer, changes: Sequence[p.Beat]) -> list[p.Answer]:
    # Of several beats of one step the last one counts; a statement may touch a row only once.
    last = {(change.key, change.position): (change.details, change.at) for change in changes}
    rows = [(*key, position, *said) for (key, position), said in sorted(last.items())]
    await writer.fetch_columns("beat_step", rows, width=5)
    return [p.Enqueued() for _ in changes]


_APPLY: dict[type[p.Change], Callable[[Writer, Any], Awaitable[list[p.Answer]]]] = {
    p.Start: _start,
    p.Advance: _advance,
    p.Renew: _renew,
    p.Deliver: _deliver,
    p.Enqueue: _enqueue,
    p.Withdraw: _withdraw,
    p.Beat: _beat,
}
