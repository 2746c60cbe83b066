"""Exit codes follow from who must act."""

from __future__ import annotations

import inspect

from holdfast import errors
from holdfast.cli import exits

EXPECTED = {
    "InvalidRequest": 2,
    "Undecodable": 2,
    "RunNotFound": 3,
    "WorkflowUnknown": 3,
    "RunConflict": 4,
    "RunEnded": 4,
    "TaskNotFound": 3,
    "ReceiptNotFound": 3,
    "TaskClosed": 4,
    "NotReversible": 4,
    "TaskForbidden": 1,
    "InvalidPolicy": 5,
    "RunFailed": 1,
    "RunCancelled": 1,
    "Nondeterminism": 1,
    "UnsupportedStore": 5,
    "SchemaTooNew": 5,
    "StoreReadOnly": 5,
    "StoreCorrupt": 5,
    "StoreFull": 5,
    "StoreUnavailable": 5,
    "LawBroken": 1,
}


def test_each_error_has_the_documented_exit_code() -> None:
    """A script can tell a missing run from a store that is away."""
    assert {name: exits.code_for(getattr(errors, name)) for name in EXPECTED} == EXPECTED


def test_no_error_ends_well_or_in_a_code_that_is_not_documented() -> None:
    """Whatever class is added later, it never looks like success."""
    documented = {code for code, _ in exits.TABLE} - {exits.GOOD}
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.HoldfastError):
            assert exits.code_for(kind) in documented, name
