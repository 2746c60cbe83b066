"""Runs that workers hand over because their code does not fit the journal."""

from __future__ import annotations

from typing import Any, Final

from holdfast.store import protocol as p
from holdfast.store.postgres.sql import SQL

_CLAIMED: Final = "ready_at IS NOT NULL AND owner IS NULL"
_UNDECLINED: Final = """NOT EXISTS (
    SELECT FROM declined
    WHERE declined.tenant = runs.tenant AND declined.run = runs.id
      AND declined.generation = runs.generation AND declined.worker = $1
)"""


def _undeclined(statement: str) -> str:
    """A claim that leaves out the runs that this worker has declined. The usual claim does not look that up."""
    return statement.replace(_CLAIMED, f"{_CLAIMED} AND {_UNDECLINED}", 1)


CLAIM: Final = {False: SQL["claim"], True: _undeclined(SQL["claim"])}
CLAIM_BEGUN: Final = {False: SQL["claim_begun"], True: _undeclined(SQL["claim_begun"])}
"""By whether the worker has declined anything."""


async def decline(connection: Any, key: p.Key, epoch: int, declined: p.Declined) -> bool:
    """Release the run for others, inside a transaction. False, and nothing done, where no other worker may fit."""
    lease = await connection.fetchrow(SQL["lease"], *key, declined.worker, epoch)
    if lease is None:
        return True
    program_kind, workflow, generation = lease
    if await connection.fetchrow(SQL["fitting"], workflow, *key, generation, declined.worker, program_kind) is None:
        return False
    await connection.execute(SQL["decline"], *key, declined.worker, generation, declined.at, declined.reason)
    await connection.execute(SQL["hand_over"], *key, declined.at)
    return True
