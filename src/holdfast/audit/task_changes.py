"""Changes of tasks, each with its note for the audit: the two are one commit."""

from __future__ import annotations

import msgspec

from holdfast.audit import records as r
from holdfast.audit.check.task_accounts import REQUESTED, form_of, shown_of, terms
from holdfast.audit.notes import note
from holdfast.journal.promise import PromiseId
from holdfast.store import protocol as p
from holdfast.tasks import answers as tasks


def put(task: p.TaskRow, verdict: str, now: int, who: str | None = None, reason: str = "") -> p.PutTask:
    """A task made or changed, with its note."""
    return p.PutTask(task, (_note(task, verdict, now, who, reason),))


def expired(task: p.TaskRow, now: int, *refused: p.Note) -> p.PutTask:
    """A task whose time is over, closed from the version that is known here: an answer at the last moment wins.

    Only where it is closed is the action ``refused``.
    """
    closed = put(tasks.close(task, "expired", now), "expired", now)
    return msgspec.structs.replace(closed, also=(*closed.also, *refused))


def cancelled(task: p.TaskRow, now: int) -> p.CancelTask:
    """A task that nobody needs to answer any more, closed whatever was said to it meanwhile without deciding it."""
    return p.CancelTask(task.tenant, task.id, now, (_note(tasks.close(task, "cancelled", now), "cancelled", now),))


def _note(task: p.TaskRow, verdict: str, now: int, who: str | None = None, reason: str = "") -> p.Note:
    seen = task.kind == "form" and verdict in (REQUESTED, tasks.COMPLETED)
    record = r.Asked(
        now,
        task.run,
        str(PromiseId(task.root).child(task.position)),
        task.id,
        task.kind,
        task.status,
        verdict,
        task.proposal.hex(),
        task.tier,
        task.two_person,
        who,
        reason,
        task.delegated_to,
        task.expires_at,
        terms(task) if verdict == REQUESTED else "",
        _given(task) if verdict in (tasks.HAPPENED, tasks.COMPLETED) else None,
        task.owner,
        form_of(task) if seen else None,
        shown_of(task) if seen else None,
    )
    return note(task.tenant, task.run, record)


def _given(task: p.TaskRow) -> r.Metadata | None:
    """What the last answer says that the act gave, or fills the form in with."""
    value = task.answers[-1].value
    return None if value is None else r.of_bytes("result", value)
