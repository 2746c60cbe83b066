"""Exit codes, which scripts rely on.

An error's code follows from who must act, so a new error class needs no line here unless its code differs.
"""

from __future__ import annotations

from typing import Final

from holdfast import errors

GOOD: Final = 0
NO: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
CONFLICT: Final = 4
STORE: Final = 5
INTERRUPTED: Final = 130

TABLE: Final = (
    (GOOD, "good"),
    (NO, "the answer is no: the run failed, a difference or a problem was found, or you may not"),
    (USAGE, "wrong usage or bad input"),
    (NOT_FOUND, "not found: no such run, cell, workflow, task, receipt, template, schedule or webhook"),
    (CONFLICT, "conflict: the id is taken, the run has ended, the task is closed, or the template's status forbids it"),
    (STORE, "the store is unavailable, or an operator must act"),
    (INTERRUPTED, "interrupted"),
)

# The first class that fits decides, so the narrow ones come before the wide ones.
_BY_ERROR: Final = (
    (errors.RunFailed, NO),
    (errors.RunCancelled, NO),
    (errors.RunParked, NO),
    (errors.Nondeterminism, NO),
    (errors.TaskForbidden, NO),
    (errors.NotPermitted, NO),
    (errors.InvalidToken, NO),
    (errors.RunNotFound, NOT_FOUND),
    (errors.CellNotFound, NOT_FOUND),
    (errors.DeadLetterNotFound, NOT_FOUND),
    (errors.TaskNotFound, NOT_FOUND),
    (errors.ReceiptNotFound, NOT_FOUND),
    (errors.WorkflowUnknown, NOT_FOUND),
    (errors.TemplateNotFound, NOT_FOUND),
    (errors.ScheduleNotFound, NOT_FOUND),
    (errors.WebhookNotFound, NOT_FOUND),
    (errors.SubscriptionNotFound, NOT_FOUND),
    (errors.DeliveryNotFound, NOT_FOUND),
    (errors.TenantNotFound, NOT_FOUND),
    (errors.UserNotFound, NOT_FOUND),
    (errors.TokenNotFound, NOT_FOUND),
    (errors.WorkspaceNotFound, NOT_FOUND),
    (errors.ProposalNotFound, NOT_FOUND),
    (errors.RunConflict, CONFLICT),
    (errors.RunEnded, CONFLICT),
    (errors.CellNotParked, CONFLICT),
    (errors.TaskClosed, CONFLICT),
    (errors.NameTaken, CONFLICT),
    (errors.LastRuler, CONFLICT),
    (errors.NotReversible, CONFLICT),
    (errors.TemplateConflict, CONFLICT),
    (errors.ProposalConflict, CONFLICT),
    (errors.ManifestBlocked, CONFLICT),
    (errors.EventConflict, CONFLICT),
    (errors.ScheduleConflict, CONFLICT),
    (errors.CallerError, USAGE),
    (errors.AuthorError, USAGE),
    (errors.OperatorError, STORE),
    (errors.StoreUnavailable, STORE),
)


def code_for(error: type[errors.HoldfastError]) -> int:
    """The exit code for a class of errors."""
    return next((code for kind, code in _BY_ERROR if issubclass(error, kind)), NO)
