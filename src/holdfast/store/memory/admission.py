"""Which of the ready runs a claim may have where tenants have limits."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.store import protocol as p
from holdfast.store.admission import MINUTE, Candidate, Loads, admit, loads_of
from holdfast.store.memory.tables import Tables


def admitted(
    tables: Tables, ready: Sequence[p.Run], limits: p.Limits, limit: int, now: int
) -> tuple[list[p.Run], int | None]:
    """Up to ``limit`` of the ready runs, those that are under way and children first, and when a rate frees the next.

    ``ready`` comes in the order in which runs are to be leased.
    """
    free = [run for run in ready if run.begun_at is not None or run.parent is not None][:limit]
    if len(free) == limit:
        return free, None
    line = [
        Candidate(run.key, run.workflow, run.workspace, run.priority)
        for run in ready
        if run.begun_at is None and run.parent is None
    ]
    chosen = admit(line, _loads(tables, now), limits, limit - len(free), now)
    return free + [tables.runs[key] for key in chosen.keys], chosen.next_at


def _loads(tables: Tables, now: int) -> Loads:
    return loads_of(
        (
            run.key.tenant,
            run.workflow,
            run.workspace,
            int(run.ended_at is None),
            (run.begun_at,) if run.begun_at > now - MINUTE else (),
        )
        for run in tables.runs.values()
        if run.parent is None and run.begun_at is not None
    )
