"""A worker as people and programs see it."""

from __future__ import annotations

from datetime import datetime

import msgspec

from holdfast.client.views.times import moment
from holdfast.store.protocol import UnavailableDefinition, WorkerRow


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A registered worker. It is alive until ``expires_at``, which it keeps moving."""

    id: str
    host: str
    process: int
    workflows: tuple[str, ...]  # the functions that it serves; it serves every published definition
    queues: tuple[str, ...]
    unavailable: tuple[UnavailableDefinition, ...]  # definitions that its process was given and could not accept
    started_at: datetime
    expires_at: datetime


def off_by(ahead: int) -> str:
    """How far a worker's clock is off the store's, in words."""
    return f"its clock is {abs(ahead) / 1e6:.1f} s {'ahead of' if ahead > 0 else 'behind'} the store's"


def worker_info(row: WorkerRow) -> WorkerInfo:
    """A worker's row as a view."""
    return WorkerInfo(
        id=row.id,
        host=row.host,
        process=row.pid,
        workflows=row.workflows,
        queues=row.queues,
        unavailable=row.unavailable,
        started_at=moment(row.started_at),
        expires_at=moment(row.expires_at),
    )
