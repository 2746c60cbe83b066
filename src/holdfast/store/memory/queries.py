"""The operations that read runs, their journals, inboxes and blobs; definitions and items."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Final

from holdfast.store import protocol as p
from holdfast.store.counts import cut
from holdfast.store.memory.cells import MemoryCells
from holdfast.store.memory.tables import Offer, Tables

SCHEMA: Final = 1


class MemoryQueries(MemoryCells):
    """The operations of the memory store that read."""

    async def get(self, keys: Sequence[p.Key]) -> list[p.Run]:
        with self._transaction() as tables:
            return [tables.runs[key] for key in keys if key in tables.runs]

    async def load(self, keys: Sequence[p.Key], *, whole: bool = False) -> dict[p.Key, p.Loaded]:
        with self._transaction() as tables:
            return {key: _loaded(tables, key, whole) for key in keys if key in tables.runs}

    async def journals(self, keys: Sequence[p.Key]) -> dict[p.Key, list[p.Segment]]:
        with self._transaction() as tables:
            existing = [key for key in keys if key in tables.runs]
            return {key: list(tables.segments[key].get(tables.runs[key].generation, [])) for key in existing}

    async def messages(self, keys: Sequence[p.Key]) -> dict[p.Key, list[p.Received]]:
        with self._transaction() as tables:
            return {key: _inbox(tables, key) for key in keys}

    async def segments(self, key: p.Key, generation: int, first: int, limit: int) -> list[p.Segment]:
        with self._transaction() as tables:
            journal = tables.segments.get(key, {}).get(generation, [])
            return [segment for segment in journal if segment.first + segment.count > first][:limit]

    async def blob(self, tenant: str, digest: bytes) -> bytes | None:
        with self._transaction() as tables:
            return tables.blobs.get((tenant, digest))

    async def blobs(self, tenant: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        with self._transaction() as tables:
            return {each: tables.blobs[tenant, each] for each in digests if (tenant, each) in tables.blobs}

    async def counts(self, tenant: str | None = None, most: int | None = None) -> list[p.RunCount]:
        with self._transaction() as tables:
            found = Counter((run.key.tenant, run.status) for run in tables.runs.values())
        counts = [p.RunCount(*place, found[place]) for place in sorted(found) if tenant in (None, place[0])]
        return counts if tenant is None else cut(counts, most)

    async def owners(self, limit: int) -> list[str]:
        with self._transaction() as tables:
            found = {key.tenant for key in tables.runs}
            found |= {row.tenant for row in tables.items.values() if row.kind in ("tenant", "user")}
        return sorted(found)[:limit]

    async def oldest_due(self) -> int | None:
        with self._transaction() as tables:
            free = [
                run for run in tables.runs.values() if run.owner is None and run.pause is None and run.ended_at is None
            ]
        times = [time for run in free for time in (run.ready_at, run.wake_at) if time is not None]
        return min(times, default=None)

    async def work_of(self, key: p.Key) -> list[tuple[p.Work, str | None]]:
        with self._transaction() as tables:
            offers = sorted(tables.work.get(key, {}).items())
            return [(offer.work, offer.owner) for _, offer in offers if not offer.done]

    async def progress_of(self, key: p.Key) -> list[p.StepProgress]:
        with self._transaction() as tables:
            return [progress for _, progress in sorted(tables.progress.get(key, {}).items())]

    async def workers(self) -> list[p.WorkerRow]:
        with self._transaction() as tables:
            return in_order(tables)

    async def workload(self, tenant: str | None = None) -> p.Workload:
        with self._transaction() as tables:
            runs = [run for run in tables.runs.values() if tenant in (None, run.key.tenant) and run.ended_at is None]
            offers = [offer for offer in tables.offers() if tenant in (None, offer.work.key.tenant)]
        free = [run for run in runs if run.owner is None]
        ready = [run.ready_at for run in free if run.ready_at is not None and run.pause is None]
        timers = [run.wake_at for run in free if run.wake_at is not None]
        leases = Counter(run.owner for run in runs if run.owner is not None)
        queues = tuple(
            _queue_load(name, [offer for offer in offers if offer.work.queue == name])
            for name in sorted({offer.work.queue for offer in offers})
        )
        return p.Workload(len(ready), min(ready, default=None), min(timers, default=None), dict(leases), queues, None)

    async def facts(self) -> p.Facts:
        with self._transaction() as tables:
            runs: dict[str, int] = {}
            for run in tables.runs.values():
                runs[run.standing] = runs.get(run.standing, 0) + 1
            inbox = sum(map(len, tables.inbox.values()))
            work = sum(1 for _ in tables.offers())
            return p.Facts("memory", "1", SCHEMA, runs, inbox, work, len(tables.blobs), None)

    async def code(self, tenant: str, digests: Sequence[bytes]) -> dict[bytes, p.Code]:
        with self._transaction() as tables:
            return {digest: tables.code[tenant, digest] for digest in digests if (tenant, digest) in tables.code}

    async def definitions(
        self, tenant: str, limit: int, after: p.DefinitionRow | None = None, *, name: str | None = None
    ) -> list[p.DefinitionRow]:
        with self._transaction() as tables:
            found = [row for row in tables.definitions.values() if row.tenant == tenant and name in (None, row.name)]
        return heapq.nsmallest(limit, (row for row in found if after is None or row[1:3] > after[1:3]))

    async def item(self, key: p.ItemKey) -> p.ItemRow | None:
        with self._transaction() as tables:
            return tables.items.get(key)

    async def items(
        self,
        kind: str,
        limit: int,
        *,
        tenant: str | None = None,
        id: str | None = None,
        status: str | None = None,
        after: p.ItemKey | None = None,
    ) -> list[p.ItemRow]:
        with self._transaction() as tables:
            found = [
                row
                for row in tables.items.values()
                if row.kind == kind
                and tenant in (None, row.tenant)
                and id in (None, row.id)
                and status in (None, row.status)
                and (after is None or row.key > after)
            ]
        return heapq.nsmallest(limit, found, key=lambda row: row.key)

    async def due_items(self, kind: str, now: int, limit: int) -> list[p.ItemRow]:
        with self._transaction() as tables:
            due = [
                (row.due_at, row.key) for row in tables.items.values() if row.kind == kind and row.due_at is not None
            ]
            return [tables.items[key] for at, key in heapq.nsmallest(limit, due) if at <= now]

    async def next_due_item(self, kind: str) -> int | None:
        with self._transaction() as tables:
            due = (row.due_at for row in tables.items.values() if row.kind == kind and row.due_at is not None)
            return min(due, default=None)

    async def find(self, query: p.Query, limit: int, after: p.Run | p.Cursor | None = None) -> list[p.Run]:
        with self._transaction() as tables:
            found = [run for run in tables.runs.values() if _fits(run, query)]
        if after is not None:
            found = [run for run in found if run.cursor < after.cursor]
        return heapq.nlargest(limit, found, key=lambda run: run.cursor)


def in_order(tables: Tables) -> list[p.WorkerRow]:
    """The workers, the oldest first."""
    return sorted(tables.workers.values(), key=lambda worker: (worker.started_at, worker.id))


def _inbox(tables: Tables, key: p.Key) -> list[p.Received]:
    return [p.Received(position, message) for position, message in sorted(tables.inbox.get(key, {}).items())]


def _loaded(tables: Tables, key: p.Key, whole: bool) -> p.Loaded:
    segments = tables.segments[key].get(tables.runs[key].generation, [])
    checkpoint = None if whole else tables.checkpoints.get(key)
    if checkpoint is not None:
        tail = bisect_left(segments, checkpoint.version, key=lambda segment: segment.first)
        return p.Loaded(segments[tail:], {}, _inbox(tables, key), checkpoint)
    return p.Loaded(list(segments), {}, _inbox(tables, key))


def _fits(run: p.Run, query: p.Query) -> bool:
    return (
        query.tenant in (None, run.key.tenant)
        and query.status in (None, run.status)
        and query.workflow in (None, run.workflow)
        and query.parent in (None, run.parent)
        and (query.created_after is None or run.created_at >= query.created_after)
        and (query.created_before is None or run.created_at < query.created_before)
        and (query.ended_after is None or (run.ended_at is not None and run.ended_at >= query.ended_after))
        and (query.ended_before is None or (run.ended_at is not None and run.ended_at < query.ended_before))
        and query.workspace in (None, run.workspace)
        and query.actor in (None, run.actor)
        and query.reference in (None, run.reference)
        and query.program_kind in (None, run.program_kind)
        and query.other_kind_than != run.program_kind
        and (not query.standings or run.standing in query.standings)
        and query.parked in (None, _is_parked(run))
        and (query.pause is None or _is_paused_for(run, query.pause))
        and query.asks in (None, p.ASKS in (run.waiting or ""))
        and query.cancelled in (None, run.cancelling or run.standing == "cancelled")
        and all(run.attributes.get(name) == value for name, value in query.attributes.items())
    )


def _is_paused_for(run: p.Run, reason: str) -> bool:
    return run.ended_at is None and run.pause is not None and run.pause.startswith(reason)


def _is_parked(run: p.Run) -> bool:
    return run.ended_at is None and run.pause is not None and not run.pause.startswith(p.PAUSED)


def _queue_load(name: str, offers: Sequence[Offer]) -> p.QueueLoad:
    waiting = [offer.work.available_at for offer in offers if offer.owner is None]
    return p.QueueLoad(name, len(waiting), len(offers) - len(waiting), min(waiting, default=None))
