"""Exit codes: what a script may rely on.

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
    (NO, "the answer is no: the run failed, a difference or a problem was found"),
    (USAGE, "wrong usage or bad input"),
    (NOT_FOUND, "not found: no such run or workflow"),
    (CONFLICT, "conflict: the id is taken, or the run has ended"),
    (STORE, "the store is unavailable, or an operator must act"),
    (INTERRUPTED, "interrupted"),
)

# The first class that fits decides, so the narrow ones come before the wide ones.
_BY_ERROR: Final = (
    (errors.RunFailed, NO),
    (errors.RunCancelled, NO),
    (errors.Nondeterminism, NO),
    (errors.RunNotFound, NOT_FOUND),
    (errors.WorkflowUnknown, NOT_FOUND),
    (errors.RunConflict, CONFLICT),
    (errors.RunEnded, CONFLICT),
    (errors.CallerError, USAGE),
    (errors.AuthorError, USAGE),
    (errors.OperatorError, STORE),
    (errors.StoreUnavailable, STORE),
)


def code_for(error: type[errors.HoldfastError]) -> int:
    """The exit code for a class of errors."""
    return next((code for kind, code in _BY_ERROR if issubclass(error, kind)), NO)
