"""Rows as the store's own structs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.store.protocol import (
    ASKS,
    PAUSED,
    Cursor,
    Key,
    Message,
    Query,
    ReceiptQuery,
    ReceiptRow,
    Received,
    Run,
    Segment,
    TaskQuery,
    TaskRow,
    Work,
    WorkerRow,
)

_json = msgspec.json.Decoder(dict[str, str])
_receipt = msgspec.json.Decoder(ReceiptRow)
_task = msgspec.json.Decoder(TaskRow)


def run(row: Sequence[Any]) -> Run:
    """A row of ``runs``, in the order of its columns; what comes behind them is not looked at."""
    (tenant, id_, workflow, root, generation, version, head, standing, cancelling, pause, priority, attributes) = row[
        :12
    ]
    (parent, parent_position, fingerprint, owner, epoch, crashes, ready_at, wake_at, waiting, arrived) = row[12:22]
    (consumed, error, created_at, updated_at, ended_at, workspace, actor, trigger_type, trigger_ref) = row[22:31]
    (begun_at, governed, writes, evidence, program_kind, code_digest) = row[31:37]
    return Run(
        key=Key(tenant, id_),
        workflow=workflow,
        root=root,
        generation=generation,
        version=version,
        head=head,
        standing=standing,
        cancelling=cancelling,
        pause=pause,
        priority=priority,
        attributes=_json.decode(attributes),
        parent=parent,
        parent_position=parent_position,
        fingerprint=fingerprint,
        owner=owner,
        epoch=epoch,
        crashes=crashes,
        ready_at=ready_at,
        wake_at=wake_at,
        waiting=waiting,
        arrived=arrived,
        consumed=consumed,
        error=error,
        created_at=created_at,
        updated_at=updated_at,
        ended_at=ended_at,
        workspace=workspace,
        actor=actor,
        trigger_type=trigger_type,
        trigger_ref=trigger_ref,
        begun_at=begun_at,
        governed=governed,
        writes=writes,
        evidence=evidence,
        program_kind=program_kind,
        code_digest=code_digest,
    )


def segment(row: Sequence[Any]) -> Segment:
    return Segment(*row)


def received(row: Sequence[Any]) -> Received:
    position, kind, body, at = row
    return Received(position, Message(kind, body, at))


def work(row: Sequence[Any]) -> Work:
    tenant, run_id, *rest = row
    return Work(Key(tenant, run_id), *rest)


def worker(row: Sequence[Any]) -> WorkerRow:
    id_, host, pid, workflows, queues, started_at, expires_at, kinds = row
    return WorkerRow(id_, host, pid, tuple(workflows), tuple(queues), started_at, expires_at, tuple(kinds))


def receipt(row: Mapping[str, Any]) -> ReceiptRow:
    """Of a row's body, and of who has reversed it since."""
    found = _receipt.decode(row["body"])
    return found if row["reversed_by"] is None else replace(found, reversed_by=row["reversed_by"])


def task(body: str) -> TaskRow:
    return _task.decode(body)


class Clauses:
    """The conditions of a listing, and their parameters."""

    def __init__(self) -> None:
        self._clauses: list[str] = ["true"]
        self.values: list[Any] = []

    def add(self, clause: str, *values: Any) -> None:
        """A clause with a pair of braces for each value."""
        self._clauses.append(clause.format(*(f"${len(self.values) + place}" for place in range(1, len(values) + 1))))
        self.values.extend(values)

    def equal(self, **columns: Any) -> None:
        """Columns that must have these values; None is no condition."""
        for column, value in columns.items():
            if value is not None:
                self.add(f"{column} = {{}}", value)

    def __str__(self) -> str:
        return " AND ".join(self._clauses)


def run_clauses(query: Query, after: Run | Cursor | None) -> Clauses:
    clauses = Clauses()
    clauses.equal(tenant=query.tenant, workflow=query.workflow, parent=query.parent)
    clauses.equal(workspace=query.workspace, actor=query.actor)
    _add_more(query, clauses)
    if query.created_after is not None:
        clauses.add("created_at >= {}", query.created_after)
    if query.created_before is not None:
        clauses.add("created_at < {}", query.created_before)
    if query.status in ("completed", "failed", "cancelled"):
        clauses.add("standing = {}", query.status)
    elif query.status == "paused":
        clauses.add("ended_at IS NULL AND pause IS NOT NULL")
    elif query.status == "cancelling":
        clauses.add("ended_at IS NULL AND pause IS NULL AND cancelling")
    elif query.status is not None:
        clauses.add("standing = {} AND pause IS NULL AND NOT cancelling", query.status)
    if query.attributes:
        # Runs without attributes are not in the index; saying so lets the planner use it.
        clauses.add("attributes <> '{{}}'")
        clauses.add("attributes @> {}::jsonb", msgspec.json.encode(query.attributes).decode())
    if after is not None:
        clauses.add("(created_at, tenant, id) < ({}, {}, {})", *after.cursor)
    return clauses


def _add_more(query: Query, clauses: Clauses) -> None:
    if query.ended_after is not None:
        clauses.add("ended_at >= {}", query.ended_after)
    if query.ended_before is not None:
        clauses.add("ended_at < {}", query.ended_before)
    if query.standings:
        clauses.add("standing = ANY ({}::text[])", list(query.standings))
    if query.parked is not None:
        parked = "(ended_at IS NULL AND pause IS NOT NULL AND NOT starts_with(pause, {}))"
        clauses.add(parked if query.parked else f"NOT {parked}", PAUSED)
    if query.asks is not None:
        asks = "strpos(coalesce(waiting, ''), {}) > 0"
        clauses.add(asks if query.asks else f"NOT ({asks})", ASKS)


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
    clauses.equal(tenant=query.tenant, run=query.run, kind=query.kind, owner=query.owner)
    if query.status == "requested":
        # Only said in so many words does it lead to the index of those.
        clauses.add("status = 'requested'")
    else:
        clauses.equal(status=query.status)
    if after is not None:
        clauses.add("(created_at, tenant, id) > ({}, {}, {})", *after.cursor)
    return clauses
