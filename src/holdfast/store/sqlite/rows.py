"""Rows as the store's own structs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.errors import StoreCorrupt
from holdfast.store.protocol import ASKS, PAUSED, Cursor, Key, Query, Run, Segment, Work, WorkerRow

_json = msgspec.json.Decoder(dict[str, str])


def run(row: tuple[Any, ...]) -> Run:
    """A row of ``runs``, in the order of its columns."""
    (tenant, id_, workflow, root, generation, version, head, standing, cancelling, pause, priority, attributes) = row[
        :12
    ]
    (parent, parent_position, fingerprint, owner, epoch, crashes, ready_at, wake_at, waiting, arrived) = row[12:22]
    (consumed, error, created_at, updated_at, ended_at) = row[22:27]
    (workspace, actor, trigger_type, trigger_ref, begun_at, governed, writes, evidence) = row[27:35]
    program_kind, code_digest = row[35:37]
    return Run(
        key=Key(tenant, id_),
        workflow=workflow,
        root=root,
        generation=generation,
        version=version,
        head=head,
        standing=standing,
        cancelling=bool(cancelling),
        pause=pause,
        priority=priority,
        attributes=_attributes(attributes, tenant, id_),
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
        governed=bool(governed),
        writes=writes,
        evidence=evidence,
        program_kind=program_kind,
        code_digest=code_digest,
    )


def _attributes(text: str, tenant: str, id_: str) -> dict[str, str]:
    try:
        return _json.decode(text)
    except (msgspec.DecodeError, TypeError) as error:
        raise StoreCorrupt(
            f"the attributes of run {id_!r} of tenant {tenant!r} cannot be read ({error}): restore it from a backup."
        ) from error


def segment(row: tuple[Any, ...]) -> Segment:
    return Segment(*row)


def work(row: tuple[Any, ...]) -> Work:
    tenant, run_id, *rest = row
    return Work(Key(tenant, run_id), *rest)


def worker(row: tuple[Any, ...]) -> WorkerRow:
    id_, host, pid, workflows, queues, started_at, expires_at, kinds = row
    served, taken, others = (tuple(msgspec.json.decode(each)) for each in (workflows, queues, kinds))
    return WorkerRow(id_, host, pid, served, taken, started_at, expires_at, others)


def conditions(query: Query, after: Run | Cursor | None) -> tuple[str, list[Any]]:
    """The WHERE clause of a listing, and its parameters."""
    clauses = ["1"]
    values: list[Any] = []

    def add(clause: str, *value: Any) -> None:
        clauses.append(clause)
        values.extend(value)

    if query.tenant is not None:
        add("tenant = ?", query.tenant)
    if query.workflow is not None:
        add("workflow = ?", query.workflow)
    if query.parent is not None:
        add("parent = ?", query.parent)
    if query.created_after is not None:
        add("created_at >= ?", query.created_after)
    if query.created_before is not None:
        add("created_at < ?", query.created_before)
    if query.status in ("completed", "failed", "cancelled"):
        add("standing = ?", query.status)
    elif query.status == "paused":
        add("ended_at IS NULL AND pause IS NOT NULL")
    elif query.status == "cancelling":
        add("ended_at IS NULL AND pause IS NULL AND cancelling")
    elif query.status is not None:
        add("standing = ? AND pause IS NULL AND NOT cancelling", query.status)
    _add_more(query, add)
    for name, value in query.attributes.items():
        add("EXISTS (SELECT 1 FROM json_each(attributes) WHERE key = ? AND value = ?)", name, value)
    if after is not None:
        add("(created_at, tenant, id) < (?, ?, ?)", *after.cursor)
    return " AND ".join(clauses), values


def _add_more(query: Query, add: Callable[..., None]) -> None:
    if query.workspace is not None:
        add("workspace = ?", query.workspace)
    if query.actor is not None:
        add("actor = ?", query.actor)
    if query.ended_after is not None:
        add("ended_at >= ?", query.ended_after)
    if query.ended_before is not None:
        add("ended_at < ?", query.ended_before)
    if query.standings:
        add(f"standing IN ({', '.join('?' * len(query.standings))})", *query.standings)
    if query.parked is not None:
        parked = "ended_at IS NULL AND pause IS NOT NULL AND instr(pause, ?) <> 1"
        add(parked if query.parked else f"NOT ({parked})", PAUSED)
    if query.asks is not None:
        asks = "instr(coalesce(waiting, ''), ?) > 0"
        add(asks if query.asks else f"NOT ({asks})", ASKS)
