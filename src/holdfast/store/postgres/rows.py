"""Rows of PostgreSQL as the protocol's structs, and the conditions of lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.store.protocol import (
    Cursor,
    ItemKey,
    Message,
    ReceiptQuery,
    ReceiptRow,
    Received,
    TaskQuery,
    TaskRow,
    UnavailableDefinition,
    WorkerRow,
)

_receipt = msgspec.json.Decoder(ReceiptRow)
_task = msgspec.json.Decoder(TaskRow)


def received(row: Sequence[Any]) -> Received:
    position, kind, body, at = row
    return Received(position, Message(kind, body, at))


def worker(row: Sequence[Any]) -> WorkerRow:
    id_, host, pid, workflows, queues, started_at, expires_at, kinds, ahead, unavailable = row
    lacking = msgspec.json.decode(unavailable, type=tuple[UnavailableDefinition, ...])
    served = tuple(workflows), tuple(queues), started_at, expires_at, tuple(kinds)
    return WorkerRow(id_, host, pid, *served, ahead, lacking)


def receipt(row: Mapping[str, Any]) -> ReceiptRow:
    """A receipt from its body and the later ``reversed_by``."""
    found = _receipt.decode(row["body"])
    return found if row["reversed_by"] is None else replace(found, reversed_by=row["reversed_by"])


def task(row: Mapping[str, Any]) -> TaskRow:
    """A task from its body and its reference, which is that of its run."""
    found = _task.decode(row["body"])
    return found if row["reference"] is None else replace(found, reference=row["reference"])


class Clauses:
    """The conditions of a listing, and their parameters."""

    def __init__(self) -> None:
        self._clauses: list[str] = ["true"]
        self.values: list[Any] = []

    def add(self, clause: str, *values: Any) -> None:
        """Add a clause with a pair of braces for each value."""
        self._clauses.append(clause.format(*(f"${len(self.values) + place}" for place in range(1, len(values) + 1))))
        self.values.extend(values)

    def equal(self, **columns: Any) -> None:
        """Add conditions that columns have these values; None is no condition."""
        for column, value in columns.items():
            if value is not None:
                self.add(f"{column} = {{}}", value)

    def __str__(self) -> str:
        return " AND ".join(self._clauses)


def item_clauses(kind: str, tenant: str | None, id: str | None, status: str | None, after: ItemKey | None) -> Clauses:
    clauses = Clauses()
    clauses.equal(kind=kind, tenant=tenant, id=id, status=status)
    if after is not None:
        clauses.add("(tenant, id) > ({}, {})", after.tenant, after.id)
    return clauses


def receipt_clauses(query: ReceiptQuery, after: ReceiptRow | Cursor | None) -> Clauses:
    clauses = Clauses()
    clauses.equal(tenant=query.tenant, run=query.run, state=query.state)
    if query.connector is not None:
        clauses.add("body::json ->> 'connector' = {}", query.connector)
    if after is not None:
        clauses.add("(opened_at, tenant, id) > ({}, {}, {})", *after.cursor)
    return clauses


def task_clauses(query: TaskQuery, after: TaskRow | Cursor | None) -> Clauses:
    clauses = Clauses()
    clauses.equal(tenant=query.tenant, run=query.run, kind=query.kind, owner=query.owner, reference=query.reference)
    if query.status == "requested":
        # The planner uses the partial index only if the clause repeats its condition.
        clauses.add("status = 'requested'")
    else:
        clauses.equal(status=query.status)
    if after is not None:
        clauses.add("(created_at, tenant, id) > ({}, {}, {})", *after.cursor)
    return clauses
