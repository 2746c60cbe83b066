"""Occurrences: what an entry of the audit says that subscriptions can be told of.

Tasks and people's acts have their entries anyway. That a run was started, has ended or is parked has one only where a
tenant has a subscription: the worker notes it in the commit that does it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.audit import chain
from holdfast.audit import records as r
from holdfast.audit.notes import named, note
from holdfast.store import protocol as p
from holdfast.tasks import answers as tasks
from holdfast.tasks.eligibility import APPROVED
from holdfast.webhooks.subscription import RUN_EVENTS, message_id

WORKER: Final = "worker"
"""Who acts in the audit, where a run's own life is noted."""

_ACTS: Final[Mapping[str, str]] = {
    **{f"run.{each}": f"run.{each}" for each in RUN_EVENTS[:5]},
    "pause": "run.paused",
    "resume": "run.resumed",
    "retry": "run.retried",
    "fork": "run.started",
}
_VERDICTS: Final[Mapping[str, str]] = {
    "requested": "task.opened",
    tasks.CLAIMED: "task.claimed",
    tasks.RELEASED: "task.released",
    tasks.ASSIGNED: "task.assigned",
    tasks.DELEGATED: "task.delegated",
    tasks.REMINDED: "task.reminded",
    tasks.ESCALATED: "task.escalated",
    APPROVED: "task.completed",
    tasks.REJECTED: "task.completed",
    tasks.HAPPENED: "task.completed",
    tasks.DID_NOT_HAPPEN: "task.completed",
    tasks.GIVEN_UP: "task.completed",
    tasks.COMPLETED: "task.completed",
    tasks.EXPIRED: "task.expired",
    tasks.CANCELLED: "task.cancelled",
}
"""An approval by one of two is none yet: nothing is told of it."""


class Occurrence(NamedTuple):
    """Something that happened to a run or a task. ``workflow`` is None where only the run's row says it."""

    type: str
    at: int
    run: str
    workflow: str | None
    data: dict[str, Any]
    message: str


def run_note(tenant: str, event: str, at: int, details: Mapping[str, str]) -> p.Note:
    """The note by which a run's own life comes into the audit. It belongs to the tenant, not to the run's evidence."""
    return named(note(tenant, None, r.Operated(at, f"run.{event}", WORKER, None, "", details)))


def occurrence_of(entry: p.AuditEntry) -> Occurrence | None:
    """What an entry says that can be told; None for all others."""
    if entry.kind not in _KINDS:
        return None
    try:
        record = r.decode(entry.body)
    except r.UNREADABLE:  # who alters the audit is found by its verification
        return None
    found = _of_act(record) if isinstance(record, r.Operated) else _of_task(record)
    if found is None:
        return None
    type, run, workflow, data = found
    unique = hashlib.sha256(chain.digest(entry) + str(entry.sequence).encode()).hexdigest()
    return Occurrence(type, entry.at, run, workflow, data, message_id(entry.at, unique))


_KINDS: Final = frozenset(str(kind.__struct_config__.tag) for kind in (r.Operated, r.Asked))
_Found = tuple[str, str, str | None, dict[str, Any]]


def _of_act(record: r.Operated) -> _Found | None:
    type = _ACTS.get(record.act)
    if type is None:
        return None
    if record.run is not None:
        run = record.details["fork"] if record.act == "fork" else record.run
        return type, run, None, {"by": record.who, "reason": record.reason}
    data: dict[str, Any] = dict(record.details)
    if "run" not in data:
        return None
    return type, data.pop("run"), data.pop("workflow", ""), data


def _of_task(record: r.Record) -> _Found | None:
    if not isinstance(record, r.Asked) or (type := _VERDICTS.get(record.verdict)) is None:
        return None
    said = {"task": record.task, "kind": record.subject, "status": record.status, "verdict": record.verdict}
    more = {"by": record.who, "owner": record.owner, "delegated_to": record.delegated_to}
    return type, record.run, None, {**said, **{name: value for name, value in more.items() if value is not None}}


def body_of(type: str, at: int, data: Mapping[str, Any]) -> str:
    """What is sent of an event: facts about it, and no values of a run."""
    time = datetime.fromtimestamp(at / 1e6, UTC)
    return msgspec.json.encode({"type": type, "timestamp": time, "data": data}).decode()


def worker_note(tenant: str, act: str, at: int, details: Mapping[str, str], id: str, reason: str = "") -> p.Note:
    """The note of what a worker does for a subscription. Its id must be new: two workers may try the same."""
    return msgspec.structs.replace(note(tenant, None, r.Operated(at, act, WORKER, None, reason, details)), id=id)
