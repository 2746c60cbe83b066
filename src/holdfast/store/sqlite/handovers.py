"""Runs that workers hand over because their code does not fit the journal."""

from __future__ import annotations

import sqlite3
from typing import Final

from holdfast.store import protocol as p
from holdfast.store.sqlite import presence
from holdfast.store.sqlite.sql import GATE, SQL

_CLAIMED: Final = "WHERE ready_at IS NOT NULL"
_UNDECLINED: Final = """NOT EXISTS (
    SELECT 1 FROM declined
    WHERE declined.tenant = runs.tenant AND declined.run = runs.id
      AND declined.generation = runs.generation AND declined.worker = ?1
)"""


def _undeclined(statement: str) -> str:
    """A claim that leaves out the runs that this worker has declined. The usual claim does not look that up."""
    return statement.replace(_CLAIMED, f"{_CLAIMED} AND {_UNDECLINED}", 1)


CLAIM: Final = {False: SQL["claim"], True: _undeclined(SQL["claim"])}
CLAIM_GOING: Final = {False: GATE["claim_going"], True: _undeclined(GATE["claim_going"])}
"""By whether the worker has declined anything."""


def decline(
    connection: sqlite3.Connection, path: str, key: p.Key, epoch: int, declined: p.Declined, alive_after: int
) -> bool:
    """Release the run for others. False, and nothing done, where no other worker may fit."""
    lease = connection.execute(SQL["lease"], (*key, declined.worker, epoch)).fetchone()
    if lease is None:
        return True
    program_kind, workflow, generation = lease
    fitting = connection.execute(SQL["fitting"], (workflow, alive_after, *key, generation, program_kind)).fetchall()
    others = (worker for (worker,) in fitting if worker != declined.worker)
    if all(presence.is_dead(path, worker) for worker in others):
        return False
    connection.execute(SQL["decline"], (*key, declined.worker, generation, declined.at, declined.reason))
    connection.execute(SQL["hand_over"], (*key, declined.at))
    return True
