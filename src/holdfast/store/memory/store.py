"""The memory store: the same operations as the other stores, on dictionaries.

It is deterministic: the same calls on the same clock give the same answers. An operation never suspends, so it is one
transaction; handles on other threads are kept apart by a lock.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec.structs import replace

from holdfast.errors import StoreUnavailable
from holdfast.store import protocol as p
from holdfast.store.memory import handovers
from holdfast.store.memory.admission import admitted
from holdfast.store.memory.changes import apply
from holdfast.store.memory.governance import MemoryGovernance, lacks_evidence
from holdfast.store.memory.operations import set_pause
from holdfast.store.memory.tables import Holder, Tables, Watcher

SCHEMA: Final = 1

_numbers = itertools.count()


def _wall_clock() -> int:
    return time.time_ns() // 1000


class MemoryStore(MemoryGovernance):
    """Runs in this process alone. ``clock`` gives the store's own time in microseconds, by which workers expire."""

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        self._clock = clock or _wall_clock
        self._tables = Tables()
        self._watching: set[int] = set()
        self._is_open = False

    def twin(self) -> MemoryStore:
        twin = MemoryStore(self._clock)
        twin._tables = self._tables
        return twin

    async def open(self, *, migrate: bool = True) -> None:
        self._is_open = True

    async def close(self) -> None:
        """End this handle. The data stay for its twins, and for this one if it is opened again."""
        self._is_open = False
        for number in self._watching:
            self._tables.watchers.pop(number, None)
        self._watching.clear()

    @contextmanager
    def _transaction(self) -> Iterator[Tables]:
        if not self._is_open:
            raise StoreUnavailable("the memory store is not open: open it first")
        with self._tables.lock:
            yield self._tables

    async def commit(self, batch: Sequence[p.Change]) -> list[p.Answer]:
        with self._transaction() as tables:
            answers = [apply(tables, change) for change in batch]
        if any(map(_concerns_others, batch, answers)):
            self._tables.hint()
        return answers

    # -- leases ----------------------------------------------------------------------------------------------------

    def _expiry(self, ttl_seconds: float) -> int:
        return self._clock() + round(ttl_seconds * 1e6)

    async def register(self, worker: p.WorkerRow, ttl_seconds: float) -> None:
        with self._transaction() as tables:
            known = tables.workers.get(worker.id, worker)
            tables.workers[worker.id] = replace(known, expires_at=self._expiry(ttl_seconds))

    async def beat(self, worker: str, ttl_seconds: float) -> bool:
        with self._transaction() as tables:
            known = tables.workers.get(worker)
            if known is None:
                return False
            tables.workers[worker] = replace(known, expires_at=self._expiry(ttl_seconds))
            return True

    async def unregister(self, worker: str, now: int) -> None:
        with self._transaction() as tables:
            _take_back(tables, worker, now, died=False)
        self._tables.hint()

    async def rescue(self, now: int) -> list[str]:
        with self._transaction() as tables:
            alive_after = self._clock()
            gone = [worker.id for worker in _in_order(tables) if worker.expires_at < alive_after]
            strays = {run.owner for run in tables.runs.values() if run.owner is not None}
            strays |= {owner for _, owner, _ in tables.offers() if owner is not None}
            for worker_id in [*gone, *sorted(strays - tables.workers.keys())]:
                _take_back(tables, worker_id, now, died=True)
            forsaken = handovers.forget_forsaken(tables, alive_after)
        if gone or strays or forsaken:
            self._tables.hint()
        return gone

    async def claim(
        self,
        worker: str,
        serves: p.Serves,
        limit: int,
        now: int,
        limits: p.Limits | None = None,
        has_declined: bool = False,
    ) -> p.ClaimedRuns:
        with self._transaction() as tables:
            _wake(tables, now)
            ready = [tables.runs[key] for key in tables.ready]
            wanted = [run for run in ready if run.pause is None and serves.takes(run.program_kind, run.workflow)]
            if has_declined:
                wanted = [run for run in wanted if not handovers.has_declined(tables, run, worker)]
            wanted.sort(key=lambda run: (-run.priority, run.ready_at or 0, run.key))
            chosen, next_at = wanted[:limit], None
            if limits is not None:
                chosen, next_at = admitted(tables, wanted, limits, limit, now)
            claimed = [
                replace(
                    run,
                    owner=worker,
                    epoch=run.epoch + 1,
                    ready_at=None,
                    begun_at=now if run.begun_at is None else run.begun_at,
                )
                for run in chosen
            ]
            for run in claimed:
                tables.put(run)
            wakes = [tables.runs[key].wake_at for key in tables.sleeping]
            return p.ClaimedRuns(claimed, min((at for at in (next_at, *wakes) if at is not None), default=None))

    async def decline(self, worker: str, key: p.Key, epoch: int, reason: str, now: int) -> bool:
        with self._transaction() as tables:
            declined = p.Declined(worker, now, reason)
            handed = handovers.decline(tables, worker, key, epoch, declined, self._clock())
        if handed:
            self._tables.hint()
        return handed

    async def declined(self, key: p.Key) -> list[p.Declined]:
        with self._transaction() as tables:
            return handovers.declined(tables, tables.runs[key]) if key in tables.runs else []

    async def claim_work(
        self, worker: str, wanted: Mapping[str, int], now: int, steps: Sequence[str] | None = None
    ) -> p.ClaimedWork:
        claimed: list[p.Work] = []
        known = None if steps is None else set(steps)

        def fits(work: p.Work, owner: str | None) -> bool:
            return owner is None and work.queue in wanted and (known is None or work.name in known)

        with self._transaction() as tables:
            free = [work for work, owner, _ in tables.offers() if fits(work, owner)]
            available = sorted(
                (work for work in free if work.available_at <= now),
                key=lambda work: (-work.priority, work.available_at, work.key, work.position),
            )
            for queue, limit in wanted.items():
                claimed += [work for work in available if work.queue == queue][:limit]
            leased = [replace(work, epoch=work.epoch + 1, claims=work.claims + 1) for work in claimed]
            for work in leased:
                tables.offer(work, worker)
            left = [work.available_at for work, owner, _ in tables.offers() if fits(work, owner)]
        return p.ClaimedWork(leased, min(left, default=None))

    async def leased(self, worker: str) -> p.Leased:
        with self._transaction() as tables:
            work = [work for work, owner, _ in tables.offers() if owner == worker]
            return p.Leased(list(tables.owned_by(worker)), work)

    async def arrivals(self, worker: str) -> list[p.Run]:
        with self._transaction() as tables:
            return [run for run in tables.owned_by(worker) if run.arrived > run.consumed or run.pause is not None]

    # -- reading ---------------------------------------------------------------------------------------------------

    async def get(self, keys: Sequence[p.Key]) -> list[p.Run]:
        with self._transaction() as tables:
            return [tables.runs[key] for key in keys if key in tables.runs]

    async def load(self, keys: Sequence[p.Key], *, whole: bool = False) -> dict[p.Key, p.Loaded]:
        with self._transaction() as tables:
            return {key: _loaded(tables, key, whole) for key in keys if key in tables.runs}

    async def journals(self, keys: Sequence[p.Key]) -> dict[p.Key, list[p.Segment]]:
        with self._transaction() as tables:
            there = [key for key in keys if key in tables.runs]
            return {key: list(tables.segments[key].get(tables.runs[key].generation, [])) for key in there}

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

    async def counts(self, tenant: str | None = None) -> list[p.RunCount]:
        with self._transaction() as tables:
            found = Counter((run.key.tenant, run.status) for run in tables.runs.values())
        return [p.RunCount(*place, found[place]) for place in sorted(found) if tenant in (None, place[0])]

    async def work_of(self, key: p.Key) -> list[tuple[p.Work, str | None]]:
        with self._transaction() as tables:
            offers = sorted(tables.work.get(key, {}).items())
            return [(offer.work, offer.owner) for _, offer in offers if not offer.done]

    async def progress_of(self, key: p.Key) -> list[p.Progress]:
        with self._transaction() as tables:
            return [progress for _, progress in sorted(tables.progress.get(key, {}).items())]

    async def workers(self) -> list[p.WorkerRow]:
        with self._transaction() as tables:
            return _in_order(tables)

    async def facts(self) -> p.Facts:
        with self._transaction() as tables:
            runs: dict[str, int] = {}
            for run in tables.runs.values():
                runs[run.standing] = runs.get(run.standing, 0) + 1
            inbox = sum(map(len, tables.inbox.values()))
            work = sum(1 for _ in tables.offers())
            return p.Facts("memory", "1", SCHEMA, runs, inbox, work, len(tables.blobs), None)

    # -- operating -------------------------------------------------------------------------------------------------

    async def pause(self, key: p.Key, reason: str, now: int) -> bool:
        return self._set_pause(p.Pause(key, reason, now))

    async def unpause(self, key: p.Key, now: int) -> bool:
        return self._set_pause(p.Unpause(key, now))

    def _set_pause(self, change: p.Pause | p.Unpause) -> bool:
        with self._transaction() as tables:
            changed = set_pause(tables, change)
        if changed:
            self._tables.hint()
        return changed

    async def prune(self, ended_before: int, limit: int) -> int:
        with self._transaction() as tables:
            ended = [
                (run.ended_at, run.key)
                for run in tables.runs.values()
                if run.ended_at is not None and run.ended_at < ended_before and not lacks_evidence(run)
            ]
            oldest = heapq.nsmallest(limit, ended)
            for _, key in oldest:
                tables.forget(key)
            return len(oldest)

    async def forget_deliveries(self, before: int, limit: int) -> int:
        with self._transaction() as tables:
            old = sorted(
                (at, key, message)
                for key, messages in tables.deliveries.items()
                for message, at in messages.items()
                if at < before
            )[:limit]
            for _, key, message in old:
                del tables.deliveries[key][message]
            return len(old)

    def watch(self, hint: Callable[[], None]) -> Callable[[], None]:
        try:
            loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        number = next(_numbers)
        self._tables.watchers[number] = Watcher(hint, loop)
        self._watching.add(number)

        def stop() -> None:
            self._tables.watchers.pop(number, None)
            self._watching.discard(number)

        return stop

    # Last, because in the class behind it the word ``list`` means this method.
    async def code(self, tenant: str, digests: Sequence[bytes]) -> dict[bytes, p.Code]:
        with self._transaction() as tables:
            return {digest: tables.code[tenant, digest] for digest in digests if (tenant, digest) in tables.code}

    async def find(self, query: p.Query, limit: int, after: p.Run | p.Cursor | None = None) -> list[p.Run]:
        with self._transaction() as tables:
            found = [run for run in tables.runs.values() if _fits(run, query)]
        if after is not None:
            found = [run for run in found if run.cursor < after.cursor]
        return heapq.nlargest(limit, found, key=lambda run: run.cursor)


def _concerns_others(change: p.Change, answer: p.Answer) -> bool:
    """Whether a commit may have made something ready that another engine waits for."""
    match change, answer:
        case p.Start(owner=owner), p.Started(also=also):
            return owner is None or bool(also)
        case p.Advance(projection=projection, release=release), p.Advanced(also=also):
            return release or bool(also) or projection.standing in p.ENDED
        case _, p.Delivered() | p.Renewed() | p.OperatedOn():
            return True
        case p.PutTask(also=also) | p.CancelTask(also=also), p.Tasked():
            return bool(also)
        case p.Enqueue(), p.Enqueued():
            return True
        case _:
            return False


def _take_back(tables: Tables, worker: str, now: int, *, died: bool) -> None:
    for run in tables.owned_by(worker):
        tables.put(replace(run, owner=None, epoch=run.epoch + 1, ready_at=now, crashes=run.crashes + died))
    for work, owner, _ in list(tables.offers()):
        if owner == worker:
            tables.offer(replace(work, epoch=work.epoch + 1), None)
    tables.workers.pop(worker, None)
    handovers.forget_worker(tables, worker)


def _wake(tables: Tables, now: int) -> None:
    for run in [tables.runs[key] for key in tables.sleeping]:
        if run.wake_at is not None and run.wake_at <= now:
            ready_at = run.wake_at if run.ready_at is None else run.ready_at
            tables.put(replace(run, ready_at=ready_at, wake_at=None))


def _in_order(tables: Tables) -> list[p.WorkerRow]:
    return sorted(tables.workers.values(), key=lambda worker: (worker.started_at, worker.id))


def _inbox(tables: Tables, key: p.Key) -> list[p.Received]:
    return [p.Received(position, message) for position, message in sorted(tables.inbox.get(key, {}).items())]


def _loaded(tables: Tables, key: p.Key, whole: bool) -> p.Loaded:
    segments = tables.segments[key].get(tables.runs[key].generation, [])
    checkpoint = None if whole else tables.checkpoints.get(key)
    if checkpoint is not None:
        behind = bisect_left(segments, checkpoint.version, key=lambda segment: segment.first)
        return p.Loaded(segments[behind:], {}, _inbox(tables, key), checkpoint)
    named = p.named_in(segments, sorted(tables.blob_uses.get(Holder(key.tenant, "run", key.run), ())))
    return p.Loaded(list(segments), {each: tables.blobs[key.tenant, each] for each in named}, _inbox(tables, key))


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
        and (not query.standings or run.standing in query.standings)
        and query.parked in (None, _is_parked(run))
        and query.asks in (None, p.ASKS in (run.waiting or ""))
        and all(run.attributes.get(name) == value for name, value in query.attributes.items())
    )


def _is_parked(run: p.Run) -> bool:
    return run.ended_at is None and run.pause is not None and not run.pause.startswith(p.PAUSED)
