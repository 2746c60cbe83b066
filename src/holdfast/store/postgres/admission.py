"""A claim within limits: what has begun first, then as many of those that wait as their tenants' caps let begin.

It is one transaction under a lock that only such claims take, so that no two count the same free place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.store import protocol as p
from holdfast.store.admission import MINUTE, Candidate, Loads, admit, loads_of
from holdfast.store.postgres import rows
from holdfast.store.postgres.sql import SQL
from holdfast.store.postgres.writer import columns


async def claim_within(
    connection: Any, begun: str, worker: str, serves: p.Serves, limit: int, now: int, limits: p.Limits
) -> p.ClaimedRuns:
    """Lease ready runs, inside a transaction. ``begun`` claims those that need no place."""
    await connection.execute(SQL["lock_admission"])
    await connection.execute(SQL["wake"], now)
    found = await connection.fetch(begun, worker, serves.functions, limit, now, serves.kinds)
    claimed = [rows.run(row) for row in found if row["tenant"] is not None]
    wakes = [found[0]["next_wake_at"]]
    room = limit - len(claimed)
    if room > 0:
        line = await connection.fetch(SQL["candidates"], serves.functions, limit, serves.kinds)
        candidates = [Candidate(p.Key(tenant, id_), *rest) for tenant, id_, *rest in line]
        if candidates:
            admitted = admit(candidates, await _loads(connection, candidates, limits, now), limits, room, now)
            wakes.append(admitted.next_at)
            let_in = await connection.fetch(SQL["claim_admitted"], worker, *columns(admitted.keys, 2), now)
            claimed += [rows.run(row) for row in let_in]
    return p.ClaimedRuns(claimed, min((at for at in wakes if at is not None), default=None))


async def _loads(connection: Any, candidates: Sequence[Candidate], limits: p.Limits, now: int) -> Loads:
    tenants = sorted({candidate.key.tenant for candidate in candidates})
    hurried = [tenant for tenant in tenants if _has_rate(limits.of(tenant))]
    found = await connection.fetch(SQL["loads"], tenants, hurried, now - MINUTE)
    return loads_of(tuple(row) for row in found)


def _has_rate(limits: p.TenantLimits) -> bool:
    """Whether when a tenant's runs began matters: reading a whole minute of them is for nothing otherwise."""
    return any(cap.max_runs_per_min is not None for cap in (limits.cap, *limits.workflows.values()))
