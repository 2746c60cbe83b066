"""Rows of SQLite as the protocol's structs, and the conditions of lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.store.protocol import ASKS, PAUSED, Cursor, Query, Run, WorkerRow


def worker(row: tuple[Any, ...]) -> WorkerRow:
    id_, host, pid, workflows, queues, started_at, expires_at, kinds = row
    names, served_queues, others = (tuple(msgspec.json.decode(each)) for each in (workflows, queues, kinds))
    return WorkerRow(id_, host, pid, names, served_queues, started_at, expires_at, others)


def conditions(query: Query, after: Run | Cursor | None) -> tuple[str, list[Any]]:
    """The WHERE clause of a listing, and its parameters."""
    clauses = ["1"]
    values: list[Any] = []

    def add(clause: str, *value: Any) -> None:
        clauses.append(clause)
        values.extend(value)

    for clause, value in (
        ("tenant = ?", query.tenant),
        ("workflow = ?", query.workflow),
        ("parent = ?", query.parent),
        ("created_at >= ?", query.created_after),
        ("created_at < ?", query.created_before),
        ("workspace = ?", query.workspace),
        ("actor = ?", query.actor),
        ("reference = ?", query.reference),
        ("ended_at >= ?", query.ended_after),
        ("ended_at < ?", query.ended_before),
    ):
        if value is not None:
            add(clause, value)
    if query.status in ("completed", "failed", "cancelled"):
        add("standing = ?", query.status)
    elif query.status == "paused":
        add("ended_at IS NULL AND pause IS NOT NULL")
    elif query.status == "cancelling":
        add("ended_at IS NULL AND pause IS NULL AND cancelling")
    elif query.status is not None:
        add("standing = ? AND pause IS NULL AND NOT cancelling", query.status)
    _add_more(query, add)
    for attribute in query.attributes.items():
        add("EXISTS (SELECT 1 FROM json_each(attributes) WHERE key = ? AND value = ?)", *attribute)
    if after is not None:
        add("(created_at, tenant, id) < (?, ?, ?)", *after.cursor)
    return " AND ".join(clauses), values


def _add_more(query: Query, add: Callable[..., None]) -> None:
    if query.standings:
        add(f"standing IN ({', '.join('?' * len(query.standings))})", *query.standings)
    if query.parked is not None:
        parked = "ended_at IS NULL AND pause IS NOT NULL AND instr(pause, ?) <> 1"
        add(parked if query.parked else f"NOT ({parked})", PAUSED)
    if query.asks is not None:
        asks = "instr(coalesce(waiting, ''), ?) > 0"
        add(asks if query.asks else f"NOT ({asks})", ASKS)
    if query.cancelled is not None:
        cancelled = "(cancelling OR standing = 'cancelled')"
        add(cancelled if query.cancelled else f"NOT {cancelled}")
