"""The statement that reads a page of runs.

A page of one tenant and one standing is read from an index that has the order as well, and ends after its last row. So
where all tenants or several standings are wanted, a page of each is read, and the first of all of them are taken.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.store.postgres.rows import Clauses
from holdfast.store.postgres.sql import SQL
from holdfast.store.protocol import ASKS, ENDED, PAUSED, Cursor, Query, Run
from holdfast.store.rows import latest_start

_PAGE: Final = "SELECT * FROM {table} WHERE {clauses} ORDER BY created_at DESC, id DESC LIMIT {limit}"

_ENDED_RUNS: Final = (
    "(SELECT * FROM runs WHERE NOT governed OR evidence IS NOT NULL"
    " UNION ALL SELECT * FROM runs WHERE governed AND evidence IS NULL) AS runs"
)
"""All runs, in two parts, each with an index by the time of the end. The planner knows how many ended in a time."""


def run_list(query: Query, limit: int, after: Run | Cursor | None) -> tuple[str, list[Any]]:
    """The statement of a page, and its parameters."""
    clauses, sources = _clauses(query, after), []
    if query.tenant is None:
        clauses.add("tenant = found.tenant")
        sources.append(f"({SQL['tenants']}) AS found")
    if query.standings:
        place = clauses.place(list(query.standings))
        clauses.add("standing = wanted.standing")
        sources.append(f"unnest({place}::text[]) AS wanted (standing)")
    table = "runs" if query.ended_after is None else _ENDED_RUNS
    page = _PAGE.format(table=table, clauses=clauses, limit=int(limit))
    if not sources:
        return page, clauses.values
    order = f"ORDER BY created_at DESC, tenant DESC, id DESC LIMIT {int(limit)}"
    every = " CROSS JOIN ".join(sources)
    statement = f"SELECT listed.* FROM {every} CROSS JOIN LATERAL ({page}) AS listed {order}"  # noqa: S608  # ours
    return statement, clauses.values


def _clauses(query: Query, after: Run | Cursor | None) -> Clauses:
    clauses = Clauses()
    clauses.equal(tenant=query.tenant, workflow=query.workflow, parent=query.parent)
    clauses.equal(workspace=query.workspace, actor=query.actor, reference=query.reference)
    if query.workspace:
        clauses.add("workspace <> ''")  # lets the planner use the index, which has only these
    _add_more(query, clauses)
    if query.created_after is not None:
        clauses.add("created_at >= {}", query.created_after)
    if query.created_before is not None:
        clauses.add("created_at < {}", query.created_before)
    if query.status in ENDED:
        clauses.add("standing = {}", query.status)
    elif query.status == "paused":
        clauses.add("ended_at IS NULL AND pause IS NOT NULL")
    elif query.status == "cancelling":
        clauses.add("ended_at IS NULL AND pause IS NULL AND cancelling")
    elif query.status is not None:
        clauses.add("standing = {} AND pause IS NULL AND NOT cancelling", query.status)
    if query.attributes:
        # Runs without attributes are not in the index; this clause lets the planner use it.
        clauses.add("attributes <> '{{}}'")
        clauses.add("attributes @> {}::jsonb", msgspec.json.encode(query.attributes).decode())
    if after is not None and after.cursor.tenant == query.tenant:
        clauses.add("(created_at, id) < ({}, {})", after.cursor.at, after.cursor.id)
    elif after is not None:
        clauses.add("(created_at, tenant, id) < ({}, {}, {})", *after.cursor)
    return clauses


def _add_more(query: Query, clauses: Clauses) -> None:
    if query.ended_after is not None:
        clauses.add("ended_at >= {}", query.ended_after)
    if query.ended_before is not None:
        clauses.add("ended_at < {}", query.ended_before)
        clauses.add("created_at < {}", latest_start(query.ended_before))
    if query.parked is not None:
        parked = "(ended_at IS NULL AND pause IS NOT NULL AND NOT starts_with(pause, {}))"
        clauses.add(parked if query.parked else f"NOT {parked}", PAUSED)
    if query.asks is not None:
        asks = "strpos(coalesce(waiting, ''), {}) > 0"
        clauses.add(asks if query.asks else f"NOT ({asks})", ASKS)
    if query.cancelled is not None:
        cancelled = "(cancelling OR standing = 'cancelled')"
        clauses.add(cancelled if query.cancelled else f"NOT {cancelled}")
