"""Rows as the store's own structs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.store.protocol import Key, Message, Query, Received, Run, Segment, Work, Worker

_json = msgspec.json.Decoder(dict[str, str])


def run(row: Sequence[Any]) -> Run:
    """A row of ``runs``, in the order of its columns; what comes behind them is not looked at."""
    (tenant, id_, workflow, root, generation, version, head, standing, cancelling, pause, priority, attributes) = row[
        :12
    ]
    (parent, parent_position, fingerprint, owner, epoch, crashes, ready_at, wake_at, waiting, arrived) = row[12:22]
    (consumed, error, created_at, updated_at, ended_at) = row[22:27]
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
    )


def segment(row: Sequence[Any]) -> Segment:
    return Segment(*row)


def received(row: Sequence[Any]) -> Received:
    position, kind, body, at = row
    return Received(position, Message(kind, body, at))


def work(row: Sequence[Any]) -> Work:
    tenant, run_id, *rest = row
    return Work(Key(tenant, run_id), *rest)


def worker(row: Sequence[Any]) -> Worker:
    id_, host, pid, workflows, queues, started_at, expires_at = row
    return Worker(id_, host, pid, tuple(workflows), tuple(queues), started_at, expires_at)


def conditions(query: Query, after: Run | None) -> tuple[str, list[Any]]:
    """The WHERE clause of a listing, and its parameters."""
    clauses: list[str] = ["true"]
    values: list[Any] = []

    def add(clause: str, *more: Any) -> None:
        clauses.append(clause.format(*(f"${len(values) + place}" for place in range(1, len(more) + 1))))
        values.extend(more)

    if query.tenant is not None:
        add("tenant = {}", query.tenant)
    if query.workflow is not None:
        add("workflow = {}", query.workflow)
    if query.parent is not None:
        add("parent = {}", query.parent)
    if query.created_after is not None:
        add("created_at >= {}", query.created_after)
    if query.created_before is not None:
        add("created_at < {}", query.created_before)
    if query.status in ("completed", "failed", "cancelled"):
        add("standing = {}", query.status)
    elif query.status == "paused":
        add("ended_at IS NULL AND pause IS NOT NULL")
    elif query.status == "cancelling":
        add("ended_at IS NULL AND pause IS NULL AND cancelling")
    elif query.status is not None:
        add("standing = {} AND pause IS NULL AND NOT cancelling", query.status)
    if query.attributes:
        # Runs without attributes are not in the index; saying so lets the planner use it.
        clauses.append("attributes <> '{}'")
        add("attributes @> {}::jsonb", msgspec.json.encode(query.attributes).decode())
    if after is not None:
        add("(created_at, tenant, id) < ({}, {}, {})", after.created_at, after.key.tenant, after.key.run)
    return " AND ".join(clauses), values
