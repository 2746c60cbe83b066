"""Changes of tasks, each with its note for the audit: the two are one commit."""

from __future__ import annotations

import msgspec

from holdfast.audit import records as r
from holdfast.audit.check.task_accounts import REQUESTED, attached_files, form_of, shown_of, terms
from holdfast.audit.notes import note
from holdfast.journal.promise import PromiseId
from holdfast.store import protocol as p
from holdfast.tasks import answers as tasks
from holdfast.tasks.eligibility import candidates_of, groups_of


def put(task: p.TaskRow, verdict: str, now: int, who: str | None = None, reason: str = "") -> p.PutTask:
    """A task made or changed, with its note."""
    return p.PutTask(task, (_note(task, verdict, now, who, reason),))


def expired(task: p.TaskRow, now: int, *refused: p.Note) -> p.PutTask:
    """A task whose time is over, closed from this version: an answer that came before the commit wins.

    The notes in ``refused`` are written only if the task is closed.
    """
    closed = put(tasks.close(task, "expired", now), "expired", now)
    return msgspec.structs.replace(closed, attached=(*closed.attached, *refused))


def cancelled(task: p.TaskRow, now: int) -> p.CancelTask:
    """A task that is no longer needed, closed unless an answer has decided it. Other changes do not prevent that."""
    return p.CancelTask(task.tenant, task.id, now, (_note(tasks.close(task, "cancelled", now), "cancelled", now),))


def _note(task: p.TaskRow, verdict: str, now: int, who: str | None = None, reason: str = "") -> p.Note:
    names_form = task.kind == "form" and verdict in (REQUESTED, tasks.COMPLETED)
    is_asking = verdict in (REQUESTED, tasks.ESCALATED)
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
        _last_value(task) if verdict in (tasks.HAPPENED, tasks.COMPLETED) else None,
        task.owner,
        form_of(task) if names_form else None,
        shown_of(task) if names_form else None,
        attached_files(task) if verdict == tasks.COMPLETED else (),
        candidates_of(task) if is_asking else (),
        groups_of(task) if is_asking else (),
    )
    return note(task.tenant, task.run, record)


def _last_value(task: p.TaskRow) -> r.Metadata | None:
    """The metadata of the value in the last answer: the result of the act, or the answer to the form."""
    value = task.answers[-1].value
    return None if value is None else r.of_bytes("result", value)
