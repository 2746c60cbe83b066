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


_STANDINGS: Final = ("queued", "running", "waiting", "completed", "failed", "cancelled")


def run_list(query: Query, limit: int, after: Run | Cursor | None) -> tuple[str, list[Any]]:
    """The statement of a page, and its parameters."""
    clauses = _clauses(query, after)
    if query.tenant is None:
        clauses.add("tenant = found.tenant")
    table = "runs" if query.ended_after is None else _ENDED_RUNS
    # A standing is written out: of one that is a parameter, the planner may take the share of the usual one.
    chosen = [f"{clauses} AND standing = '{standing}'" for standing in _STANDINGS if standing in query.standings]
    pages = [_PAGE.format(table=table, clauses=each, limit=int(limit)) for each in chosen or [str(clauses)]]
    if query.tenant is not None and len(pages) == 1:
        return pages[0], clauses.values
    every = " UNION ALL ".join(f"({page})" for page in pages)
    order = f"ORDER BY created_at DESC, tenant DESC, id DESC LIMIT {int(limit)}"
    if query.tenant is not None:
        return f"SELECT * FROM ({every}) AS listed {order}", clauses.values  # noqa: S608  # the clauses are ours
    source = f"({SQL['tenants']}) AS found CROSS JOIN LATERAL ({every}) AS listed"
    return f"SELECT listed.* FROM {source} {order}", clauses.values  # noqa: S608  # the clauses are ours


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
        clauses.add(f"standing = '{query.status}'")
    elif query.status == "paused":
        clauses.add("ended_at IS NULL AND pause IS NOT NULL")
    elif query.status == "cancelling":
        clauses.add("ended_at IS NULL AND pause IS NULL AND cancelling")
    elif query.status in _STANDINGS:
        clauses.add(f"standing = '{query.status}' AND pause IS NULL AND NOT cancelling")
    elif query.status is not None:
        clauses.add("false")  # no run has another one
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
    clauses.equal(program_kind=query.program_kind)
    if query.other_kind_than is not None:
        clauses.add("program_kind <> {}", query.other_kind_than)
    if query.ended_after is not None:
        clauses.add("ended_at >= {}", query.ended_after)
    if query.ended_before is not None:
        clauses.add("ended_at < {}", query.ended_before)
        clauses.add("created_at < {}", latest_start(query.ended_before))
    if query.parked is not None:
        parked = "(ended_at IS NULL AND pause IS NOT NULL AND NOT starts_with(pause, {}))"
        clauses.add(parked if query.parked else f"NOT {parked}", PAUSED)
    if query.pause is not None:
        clauses.add("ended_at IS NULL AND pause IS NOT NULL AND starts_with(pause, {})", query.pause)
    if query.asks is not None:
        asks = "strpos(coalesce(waiting, ''), {}) > 0"
        clauses.add(asks if query.asks else f"NOT ({asks})", ASKS)
    if query.cancelled is not None:
        cancelled = "(cancelling OR standing = 'cancelled')"
        clauses.add(cancelled if query.cancelled else f"NOT {cancelled}")
