"""How the work stands, as people and programs see it: what waits for workers, since when, and what they have."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.client.views.times import moment
from holdfast.client.views.workers import WorkerInfo, worker_info
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

MOST_PARKED: Final = 1000


class QueueInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A queue of steps: how many attempts wait for a worker, since when, how many one has, and who serves it."""

    queue: str
    waiting: int
    leased: int
    oldest_at: datetime | None
    workers: int


class HealthInfo(msgspec.Struct, frozen=True, kw_only=True):
    """How the work of a tenant stands.

    ``ready`` runs could move and no worker has leased them, the oldest since ``ready_since``: that is the lag.
    ``timer_at`` is the earliest timer of a run that no worker has leased; it is overdue where it is over. ``leases``
    counts runs by worker. ``store_bytes`` is for the operator of the installation.
    """

    workers: tuple[WorkerInfo, ...]
    leases: dict[str, int]
    runs: dict[str, int]  # by status
    parked: int  # at most 1000 are counted
    ready: int
    ready_since: datetime | None
    timer_at: datetime | None
    queues: tuple[QueueInfo, ...]
    store_bytes: int | None
    retention_days: float | None  # how long ended runs are kept; None is for ever


async def health_of(app: Holdfast, tenant: str) -> HealthInfo:
    """How the work of a tenant stands now."""
    now = app.clock.now()
    load = await app.store.workload(tenant)
    workers = await app.store.workers()
    parked = await app.store.find(p.Query(tenant=tenant, parked=True, status="paused"), MOST_PARKED)
    return HealthInfo(
        workers=tuple(worker_info(row) for row in workers),
        leases=load.leases,
        runs={row.status: row.count for row in await app.store.counts(tenant)},
        parked=len(parked),
        ready=load.ready,
        ready_since=moment(load.oldest_ready_at),
        timer_at=moment(load.timer_at),
        queues=tuple(_queue_info(each, workers, now) for each in load.queues),
        store_bytes=load.size_bytes,
        retention_days=app.options.retention_days,
    )


def _queue_info(load: p.QueueLoad, workers: Sequence[p.WorkerRow], now: int) -> QueueInfo:
    serving = sum(1 for row in workers if load.queue in row.queues and row.expires_at > now)
    return QueueInfo(
        queue=load.queue,
        waiting=load.waiting,
        leased=load.leased,
        oldest_at=moment(load.oldest_at),
        workers=serving,
    )
