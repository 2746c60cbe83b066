"""The memory store: the same operations as the other stores, on dictionaries.

It is deterministic: the same calls on the same clock give the same answers. An operation never suspends, so it is one
transaction; handles on other threads are kept apart by a lock.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from holdfast.errors import StoreUnavailable
from holdfast.store import protocol as p
from holdfast.store.admission import TEMPLATE
from holdfast.store.memory import handovers, holding
from holdfast.store.memory.admission import admitted, limits_in
from holdfast.store.memory.changes import apply
from holdfast.store.memory.governance import lacks_evidence
from holdfast.store.memory.operations import set_pause
from holdfast.store.memory.queries import MemoryQueries, in_order
from holdfast.store.memory.tables import Tables, Watcher
from holdfast.store.outage import Outage

_numbers = itertools.count()


def _wall_clock() -> int:
    return time.time_ns() // 1000


class MemoryStore(MemoryQueries):
    """Runs in this process alone. ``clock`` gives the store's own time in microseconds, by which workers expire."""

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        self._clock = clock or _wall_clock
        self._tables = Tables()
        self._watching: set[int] = set()
        self._is_open = False
        self.outage = Outage()

    def twin(self) -> MemoryStore:
        twin = MemoryStore(self._clock)
        twin.outage = self.outage
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
            row = tables.workers.get(worker.id, worker)
            tables.workers[worker.id] = replace(row, expires_at=self._expiry(ttl_seconds))

    async def beat(self, worker: str, ttl_seconds: float) -> bool:
        with self._transaction() as tables:
            row = tables.workers.get(worker)
            if row is None:
                return False
            tables.workers[worker] = replace(row, expires_at=self._expiry(ttl_seconds))
            return True

    async def report_clock(self, worker: str, ahead: int) -> None:
        with self._transaction() as tables:
            if (row := tables.workers.get(worker)) is not None:
                tables.workers[worker] = replace(row, clock_ahead=ahead)

    async def now(self) -> int:
        return self._clock()

    async def due_now(self, kind: str, limit: int) -> p.DueNow:
        now = self._clock()
        return p.DueNow(now, await self.due_items(kind, now, limit))

    async def unregister(self, worker: str, now: int) -> None:
        with self._transaction() as tables:
            _take_back(tables, worker, now, died=False)
        self._tables.hint()

    async def rescue(self, now: int, by: str | None = None, *, cautious: bool = False) -> list[str] | None:
        with self._transaction() as tables:
            alive_after = self._clock()
            expired = [worker.id for worker in in_order(tables) if worker.expires_at < alive_after]
            if by in expired:
                return None
            gone = [] if cautious else expired
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
            limits = limits_in(tables, limits)
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
            next_wake_at = min((at for at in (next_at, *wakes) if at is not None), default=None)
            return p.ClaimedRuns(claimed, next_wake_at, limits is not None)

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
        names = None if steps is None else set(steps)

        def fits(work: p.Work, owner: str | None) -> bool:
            return owner is None and work.queue in wanted and (names is None or work.name in names)

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
            times = [work.available_at for work, owner, _ in tables.offers() if fits(work, owner)]
        return p.ClaimedWork(leased, min(times, default=None))

    async def leased(self, worker: str) -> p.Leased:
        with self._transaction() as tables:
            work = [work for work, owner, _ in tables.offers() if owner == worker]
            return p.Leased(list(tables.owned_by(worker)), work)

    async def arrivals(self, worker: str) -> list[p.Run]:
        with self._transaction() as tables:
            return [run for run in tables.owned_by(worker) if run.arrived > run.consumed or run.pause is not None]

    # -- reading ---------------------------------------------------------------------------------------------------

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
            pruned = 0
            while oldest := heapq.nsmallest(limit - pruned, _prunable(tables, ended_before)):
                for _, key in oldest:  # their children follow
                    holding.forget(tables, tables.runs[key])
                    tables.forget(key)
                pruned += len(oldest)
            return pruned

    async def untold(self, ended_before: int, limit: int) -> list[p.Run]:
        with self._transaction() as tables:
            ended = [run for run in tables.runs.values() if run.ended_at is not None and run.ended_at < ended_before]
            untold = [run for run in ended if _is_untold(tables, run)]
            return heapq.nsmallest(limit, untold, key=lambda run: (run.ended_at or 0, run.key))

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

    async def identity(self) -> str:
        return self._tables.identity

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


def _concerns_others(change: p.Change, answer: p.Answer) -> bool:
    """Whether a commit may have made something ready that another engine waits for."""
    match change, answer:
        case p.Start(owner=owner), p.Started(attached=attached):
            return owner is None or bool(attached)
        case p.Advance(projection=projection, release=release), p.Advanced(attached=attached):
            return release or bool(attached) or projection.standing in p.ENDED
        case _, p.Delivered() | p.Renewed() | p.OperatedOn():
            return True
        case p.PutTask(attached=attached) | p.CancelTask(attached=attached), p.Tasked():
            return bool(attached)
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


def _prunable(tables: Tables, ended_before: int) -> list[tuple[int, p.Key]]:
    return [
        (run.ended_at, run.key)
        for run in tables.runs.values()
        if run.ended_at is not None and run.ended_at < ended_before
        if not lacks_evidence(run) and not _is_untold(tables, run)
        if run.parent is None or p.Key(run.key.tenant, run.parent) not in tables.runs
    ]


def _is_untold(tables: Tables, run: p.Run) -> bool:
    return TEMPLATE in run.attributes and (run.key.tenant, p.story_id(run)) not in tables.noted
