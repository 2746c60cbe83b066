"""Exceptions as data and back."""

from __future__ import annotations

import builtins
import sys
import traceback
from functools import lru_cache
from typing import Final, cast

from holdfast.errors import (
    AuthorError,
    InvalidDefinition,
    InvalidFunction,
    NotAwaited,
    StepFailed,
    TransportFailed,
    Undecodable,
)
from holdfast.journal.error_classes import written_details
from holdfast.journal.payload import Err, Failure, Ok, Outcome, Payload

TRACE_LIMIT = 4000

RECORDED: Final[dict[str, type[Exception]]] = {
    "holdfast.errors:InvalidDefinition": InvalidFunction,
    "holdfast.definition:InvalidDefinition": InvalidDefinition,
}
"""Recorded names of classes that have another name now. Recorded names never change."""

_NAMES: Final[dict[type[BaseException], str]] = {kind: name for name, kind in RECORDED.items()}


class ContinueAsNew(BaseException):
    """Ends this generation of the run and begins the next. A BaseException, so that ``except Exception`` does not
    catch it."""

    def __init__(self, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        super().__init__("the run continues as new")
        self.arguments = args, kwargs


def continuation(error: BaseException) -> ContinueAsNew | None:
    """The request to continue as new in the error that ended a body: a TaskGroup wraps it. None where another error is
    beside it."""
    if not isinstance(error, BaseExceptionGroup):
        return error if isinstance(error, ContinueAsNew) else None
    wanted, other = error.split(ContinueAsNew)
    if wanted is None or other is not None:
        return None
    first: BaseException = wanted
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return cast("ContinueAsNew", first)


def is_at_fault(error: BaseException) -> bool:
    """Whether the body's own code must change, so that the run waits for new code. A step's error of this kind is a
    failure like any other, and new code cannot help a run in which a call was never awaited."""
    return isinstance(error, AuthorError) and not isinstance(error, StepFailed | NotAwaited)


def unwrap(outcome: Outcome, what: str) -> Payload:
    """The value of an outcome, or its error raised."""
    if type(outcome) is Err:
        raise revive(outcome.failure, what)
    return cast("Ok[Payload]", outcome).value


def describe(error: BaseException) -> Failure:
    """The exception as the journal keeps it."""
    if isinstance(error, StepFailed) and isinstance(error.failure, Failure):
        return error.failure
    kind = type(error)
    trace = "".join(traceback.format_exception(error, limit=-20))
    details = written_details(error.members) if isinstance(error, TransportFailed) else ""
    return Failure(name_of(kind), _clean(_message(error)), _clean(_end_of(trace)), details)


def name_of(kind: type[BaseException]) -> str:
    """The recorded name of a class of errors."""
    return _NAMES.get(kind) or f"{kind.__module__}:{kind.__qualname__}"


def _message(error: BaseException) -> str:
    """The exception's text. A class whose text raises must not lose the failure."""
    try:
        return str(error)
    except BaseException as second:
        return f"its text cannot be read: {type(second).__name__}"


def _end_of(trace: str) -> str:
    """The last lines of a trace, within the limit. Whole lines only: half of a secret would not be recognised."""
    if len(trace) <= TRACE_LIMIT:
        return trace
    end = trace[-TRACE_LIMIT:]
    return end.partition("\n")[2] or end


def _clean(text: str) -> str:
    """Text that every store can keep: no NUL, no lone surrogates."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def revive(failure: Failure, what: str) -> StepFailed:
    """The exception that a workflow sees: a StepFailed, and also the recorded class where that can be found."""
    return _class_for(failure.type)(f"{what} failed: {failure}", failure=failure)


def misfit(error: Undecodable) -> StepFailed:
    """The error of a value that was given just now and does not fit its annotation: a failure, not stored data that
    newer code must learn to read."""
    return StepFailed(str(error), failure=Failure(name_of(Undecodable), str(error)))


@lru_cache(maxsize=512)
def _class_for(name: str) -> type[StepFailed]:
    found = _find(name)
    if found is None:
        return StepFailed
    own = {"__init__": _initialize, "__str__": Exception.__str__, "__module__": __name__}
    try:
        revived: type[StepFailed] = type(found.__name__, (StepFailed, found), own)
        revived("probe")
    except Exception:  # memory layouts that do not mix, or a class (ExceptionGroup) with its own constructor
        return StepFailed
    return revived


def _initialize(self: StepFailed, message: str, *, failure: object = None) -> None:
    # Not by super(): the recorded class's own __init__ may want other arguments than a message.
    Exception.__init__(self, message)
    self.failure = failure


def _find(name: str) -> type[Exception] | None:
    if name in RECORDED:
        return RECORDED[name]
    module_name, _, qualname = name.partition(":")
    module = builtins if module_name == "builtins" else sys.modules.get(module_name)
    found: object = module
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if isinstance(found, type) and issubclass(found, Exception) and not issubclass(found, StepFailed):
        return found
    return None
