"""Exceptions as data and back."""

from __future__ import annotations

import builtins
import sys
import traceback
from functools import lru_cache

from holdfast.errors import StepFailed
from holdfast.journal.payload import Failure

TRACE_LIMIT = 4000


def describe(error: BaseException) -> Failure:
    """What the journal keeps of an exception."""
    if isinstance(error, StepFailed) and isinstance(error.failure, Failure):
        return error.failure
    kind = type(error)
    trace = "".join(traceback.format_exception(error, limit=-20))
    return Failure(f"{kind.__module__}:{kind.__qualname__}", _clean(_message(error)), _clean(_end_of(trace)))


def _message(error: BaseException) -> str:
    """What the exception says of itself. A class whose text cannot be had must not lose the failure."""
    try:
        return str(error)
    except BaseException as unsaid:
        return f"its text cannot be read: {type(unsaid).__name__}"


def _end_of(trace: str) -> str:
    """As many whole lines from its end as are kept: half of a secret would not be recognised as one."""
    if len(trace) <= TRACE_LIMIT:
        return trace
    end = trace[-TRACE_LIMIT:]
    return end.partition("\n")[2] or end


def _clean(text: str) -> str:
    """Text that every store can keep: no NUL, no lone surrogates."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def revive(failure: Failure, what: str) -> StepFailed:
    """The exception that a workflow sees: a StepFailed, and the recorded class too where it can be found."""
    return _class_for(failure.type)(f"{what} failed: {failure}", failure=failure)


@lru_cache(maxsize=512)
def _class_for(name: str) -> type[StepFailed]:
    found = _find(name)
    if found is None:
        return StepFailed
    own = {"__init__": _initialize, "__str__": Exception.__str__, "__module__": __name__}
    try:
        revived: type[StepFailed] = type(found.__name__, (StepFailed, found), own)
        revived("probe")
    except Exception:  # memory layouts that do not mix, or a class (ExceptionGroup) that is made in its own way only
        return StepFailed
    return revived


def _initialize(self: StepFailed, message: str, *, failure: object = None) -> None:
    # Not by super(): the recorded class's own __init__ may want other arguments than a message.
    Exception.__init__(self, message)
    self.failure = failure


def _find(name: str) -> type[Exception] | None:
    module_name, _, qualname = name.partition(":")
    module = builtins if module_name == "builtins" else sys.modules.get(module_name)
    found: object = module
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if isinstance(found, type) and issubclass(found, Exception) and not issubclass(found, StepFailed):
        return found
    return None
