"""Rows of SQLite as the protocol's structs, and the conditions of lists.

SQLite knows nothing of how many rows fit a condition. So a list is read in parts, each of one tenant and one standing:
then the index that has the conditions has the order as well, and a page ends after its last row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.store.protocol import (
    ASKS,
    ENDED,
    PAUSED,
    Cursor,
    Query,
    ReceiptRow,
    Run,
    Standing,
    UnavailableDefinition,
    WorkerRow,
)
from holdfast.store.rows import latest_start

LATEST: Final = 2**63 - 1
ATTRIBUTE: Final = "attribute "
"""Before a name: an attribute leads, whose table has the runs in the order of a list."""
OF_ATTRIBUTE: Final = "run_attributes CROSS JOIN runs ON runs.tenant = of_tenant AND runs.id = run WHERE true"

ENDED_RUNS: Final = (
    "runs INDEXED BY runs_prunable WHERE (NOT governed OR evidence IS NOT NULL)",
    "runs INDEXED BY runs_evidence_due WHERE governed AND evidence IS NULL",
)
"""All runs that have ended, in two parts with an index by the time of the end each."""


_receipts = msgspec.json.Decoder(ReceiptRow)


def read_receipt(body: str, reversed_by: str | None) -> ReceiptRow:
    receipt = _receipts.decode(body)
    return receipt if reversed_by is None else replace(receipt, reversed_by=reversed_by)


def worker(row: tuple[Any, ...]) -> WorkerRow:
    id_, host, pid, workflows, queues, started_at, expires_at, kinds, ahead, unavailable = row
    names, served_queues, others = (tuple(msgspec.json.decode(each)) for each in (workflows, queues, kinds))
    lacking = msgspec.json.decode(unavailable, type=tuple[UnavailableDefinition, ...])
    return WorkerRow(id_, host, pid, names, served_queues, started_at, expires_at, others, ahead, lacking)


def parts(query: Query, tenants: Sequence[str]) -> Iterator[Query]:
    """The queries whose results, together, are those of a query: of one tenant each, and of at most one standing."""
    standings: Sequence[Standing | None] = (None,) if _is_held_up(query) or not query.standings else query.standings
    for tenant in tenants:
        for standing in standings:
            yield replace(query, tenant=tenant, standings=query.standings if standing is None else (standing,))


def _is_held_up(query: Query) -> bool:
    """Whether only paused and cancelling runs are wanted: there are few, and they have an index of their own."""
    return query.parked is True or query.status in ("paused", "cancelling")


def leaders(query: Query) -> dict[str, tuple[str, tuple[Any, ...]]]:
    """The conditions of a part that have an index of their own, by column: what to look for in it, and the values."""
    wanted = query.standings or ((query.status,) if query.status is not None else ())
    is_leaving = query.cancelled and wanted and wanted[0] not in ENDED
    found: dict[str, tuple[str, tuple[Any, ...]]] = {}
    for column in ("reference", "parent", "actor", "workspace", "workflow"):
        if value := getattr(query, column):
            found[column] = (f"{column} = ? AND {column} <> ''", (value,))
    for attribute in query.attributes.items():
        found[ATTRIBUTE + attribute[0]] = ("name = ? AND content = ?", attribute)
    if _is_held_up(query) or is_leaving:
        found["pause"] = ("ended_at IS NULL AND (pause IS NOT NULL OR cancelling)", ())
    elif len(wanted) == 1:
        found["standing"] = ("standing = ?", (wanted[0],))
    return found


def conditions(query: Query, after: Run | Cursor | None, leading: str) -> tuple[str, list[Any]]:
    """The WHERE clause of a part of a list, and its parameters.

    ``leading`` is the column whose index is to be read. Conditions on other columns are written with a plus sign, which
    keeps SQLite from taking their indexes instead.
    """
    clauses = ["1"]
    values: list[Any] = []

    def add(clause: str, *value: Any) -> None:
        clauses.append(clause)
        values.extend(value)

    def equal(column: str, value: str) -> None:
        add(f"{column} = ?" if column == leading else f"+{column} = ?", value)

    for column in ("reference", "parent", "actor", "workspace", "workflow"):
        value = getattr(query, column)
        if value is not None:
            equal(column, value)
    if leading == "workspace":
        add("workspace <> ''")  # the index has only these
    for clause, time in (
        ("tenant = ?", query.tenant),
        ("created_at >= ?", query.created_after),
        ("created_at < ?", query.created_before),
        ("ended_at >= ?", query.ended_after),
        ("ended_at < ?", query.ended_before),
    ):
        if time is not None:
            add(clause, time)
    if query.ended_before is not None:
        add("created_at < ?", latest_start(query.ended_before))
    if query.status == "paused":
        add("ended_at IS NULL AND pause IS NOT NULL")
    elif query.status == "cancelling":
        add("ended_at IS NULL AND pause IS NULL AND cancelling")
    elif query.status is not None:
        equal("standing", query.status)
        if query.status not in ENDED:
            add("pause IS NULL AND NOT cancelling")
    if len(query.standings) == 1:
        equal("standing", query.standings[0])
    _add_more(query, add)
    for attribute in query.attributes.items():
        if ATTRIBUTE + attribute[0] == leading:
            add("of_tenant = ? AND name = ? AND content = ?", query.tenant, *attribute)
            if after is not None:
                add("made_at <= ?", after.cursor.at)
        else:
            add("EXISTS (SELECT 1 FROM json_each(attributes) WHERE key = ? AND value = ?)", *attribute)
    if after is not None and after.cursor.tenant == query.tenant:
        add("(created_at, id) < (?, ?)", after.cursor.at, after.cursor.id)
    elif after is not None:
        add("(created_at, tenant, id) < (?, ?, ?)", *after.cursor)
    return " AND ".join(clauses), values


def _add_more(query: Query, add: Callable[..., None]) -> None:
    if query.program_kind is not None:
        add("+program_kind = ?", query.program_kind)
    if query.other_kind_than is not None:
        add("program_kind <> ?", query.other_kind_than)
    if len(query.standings) > 1:
        add(f"+standing IN ({', '.join('?' * len(query.standings))})", *query.standings)
    if query.parked is not None:
        parked = "ended_at IS NULL AND pause IS NOT NULL AND instr(pause, ?) <> 1"
        add(parked if query.parked else f"NOT ({parked})", PAUSED)
    if query.pause is not None:
        add("ended_at IS NULL AND pause IS NOT NULL AND instr(pause, ?) = 1", query.pause)
    if query.asks is not None:
        asks = "instr(coalesce(waiting, ''), ?) > 0"
        add(asks if query.asks else f"NOT ({asks})", ASKS)
    if query.cancelled is not None:
        cancelled = "(cancelling OR standing = 'cancelled')"
        add(cancelled if query.cancelled else f"NOT {cancelled}")
        if query.cancelled and query.standings and query.standings[0] not in ENDED:
            add("ended_at IS NULL AND cancelling")  # these have an index
