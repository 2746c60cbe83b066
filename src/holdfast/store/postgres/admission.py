"""A claim within limits: first the runs that have begun, then as many queued runs as their tenants' caps allow.

It is one transaction under a lock that only such claims take, so that no two claims count the same free place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.store import protocol as p
from holdfast.store import sql_rows
from holdfast.store.admission import MINUTE, Candidate, Loads, admit, loads_of
from holdfast.store.caps import laid_over
from holdfast.store.postgres.sql import SQL
from holdfast.store.postgres.writer import columns


async def limits_in(connection: Any, limits: p.Limits | None) -> p.Limits | None:
    """The limits with the caps that people have set."""
    return laid_over(limits, [tuple(row) for row in await connection.fetch(SQL["set_caps"])])


async def claim_within(
    connection: Any, begun: str, worker: str, serves: p.Serves, limit: int, now: int, limits: p.Limits | None
) -> p.ClaimedRuns:
    """Lease ready runs, inside a transaction. ``begun`` claims the runs that need no place."""
    await connection.execute(SQL["lock_admission"])
    limits = await limits_in(connection, limits) or p.Limits()
    await connection.execute(SQL["wake"], now)
    found = await connection.fetch(begun, worker, serves.functions, limit, now, serves.kinds)
    claimed = [sql_rows.run(row) for row in found if row["tenant"] is not None]
    wakes = [found[0]["next_wake_at"]]
    room = limit - len(claimed)
    if room > 0:
        line = await connection.fetch(SQL["candidates"], serves.functions, limit, serves.kinds)
        candidates = [Candidate(p.Key(tenant, id_), *rest) for tenant, id_, *rest in line]
        if candidates:
            admitted = admit(candidates, await _loads(connection, candidates, limits, now), limits, room, now)
            wakes.append(admitted.next_at)
            let_in = await connection.fetch(SQL["claim_admitted"], worker, *columns(admitted.keys, 2), now)
            claimed += [sql_rows.run(row) for row in let_in]
    return p.ClaimedRuns(claimed, min((at for at in wakes if at is not None), default=None), limited=True)


async def _loads(connection: Any, candidates: Sequence[Candidate], limits: p.Limits, now: int) -> Loads:
    tenants = sorted({candidate.key.tenant for candidate in candidates})
    hurried = [tenant for tenant in tenants if limits.of(tenant).has_rate]
    counts = "loads_of_templates" if any(limits.of(tenant).templates for tenant in tenants) else "loads"
    found = await connection.fetch(SQL[counts], tenants, hurried, now - MINUTE)
    return loads_of(tuple(row) for row in found)
