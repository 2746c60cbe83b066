"""The timers of an open task: reminders, an escalation that adds people when it is overdue, and expiry.

Times are counted from when the task was made. A reminder and an escalation change the task and are noted in the audit;
they decide nothing. Several reminders that were missed, because no worker ran, become one.
"""

from __future__ import annotations

from holdfast.store.governance import TaskRow
from holdfast.tasks.answers import ESCALATED, REMINDED, is_expired, move


def next_time(task: TaskRow) -> int | None:
    """When the next timer of the task is due; None where it has no more."""
    if task.status != "requested":
        return None
    reminder = task.reminders[task.reminded] if task.reminded < len(task.reminders) else None
    escalation = task.due_at if task.escalation is not None and task.escalated_at is None else None
    return min((time for time in (reminder, escalation, task.expires_at) if time is not None), default=None)


def elapse(task: TaskRow, now: int) -> tuple[TaskRow, str] | None:
    """The next version and its event, where a reminder or an escalation is due and the task has not expired."""
    if task.status != "requested" or is_expired(task, now):
        return None
    if task.escalation is not None and task.escalated_at is None and task.due_at is not None and task.due_at <= now:
        return move(task, ESCALATED, escalated_at=now), ESCALATED
    over = sum(time <= now for time in task.reminders)
    if over > task.reminded:
        return move(task, REMINDED, reminded=over, reminded_at=now), REMINDED
    return None
