"""The ready runs that a claim may lease where tenants have limits."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.store import protocol as p
from holdfast.store.admission import MINUTE, TEMPLATE, Candidate, Loads, admit, loads_of
from holdfast.store.caps import CAP, laid_over
from holdfast.store.memory.tables import Tables


def limits_in(tables: Tables, limits: p.Limits | None) -> p.Limits | None:
    """The limits with the caps that people have set."""
    return laid_over(limits, [(row.tenant, row.id, row.body) for row in tables.caps.values() if row.kind == CAP])


def has_caps(tables: Tables, tenant: str) -> bool:
    """Whether people have set caps in the tenant."""
    return any((key.tenant, key.kind) == (tenant, CAP) for key in tables.caps)


def admitted(
    tables: Tables, ready: Sequence[p.Run], limits: p.Limits, limit: int, now: int
) -> tuple[list[p.Run], int | None]:
    """Up to ``limit`` of the ready runs, and when a rate allows the next. Runs under way and children come first.

    ``ready`` is in the order in which runs are leased.
    """
    free = [run for run in ready if run.begun_at is not None or run.parent is not None][:limit]
    if len(free) == limit:
        return free, None
    line = [
        Candidate(run.key, run.workflow, run.workspace, run.priority, run.attributes.get(TEMPLATE, ""))
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
            run.attributes.get(TEMPLATE, ""),
            int(run.ended_at is None),
            (run.begun_at,) if run.begun_at > now - MINUTE else (),
        )
        for run in tables.runs.values()
        if run.parent is None and run.begun_at is not None and run.program_kind != p.MACHINE
    )
