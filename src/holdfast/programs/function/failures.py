"""Exceptions as data and back."""

from __future__ import annotations

import builtins
import sys
import traceback
from functools import lru_cache
from typing import Final, cast

from holdfast.errors import AuthorError, InvalidFunction, NotAwaited, StepFailed
from holdfast.journal.payload import Err, Failure, Ok, Outcome, Payload

TRACE_LIMIT = 4000

RECORDED: Final[dict[str, type[Exception]]] = {"holdfast.errors:InvalidDefinition": InvalidFunction}
"""Names that journals have for classes that are called otherwise now. A recorded name is for ever."""

_NAMES: Final[dict[type[BaseException], str]] = {kind: name for name, kind in RECORDED.items()}


class ContinueAsNew(BaseException):
    """Ends this generation of the run and begins the next. A BaseException, so that ``except Exception`` lets it by."""

    def __init__(self, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        super().__init__("the run continues as new")
        self.arguments = args, kwargs


def continuation(error: BaseException) -> ContinueAsNew | None:
    """What a body asked for that ended with this error: a TaskGroup wraps what ends it. An error beside it counts."""
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
    """Whether the body's own code must change, and the run waits for that. A step that failed that way has failed,
    like any other, and a call that was never awaited cannot be mended any more in this run."""
    return isinstance(error, AuthorError) and not isinstance(error, StepFailed | NotAwaited)


def unwrap(outcome: Outcome, what: str) -> Payload:
    """The value of an outcome, or its error raised."""
    if type(outcome) is Err:
        raise revive(outcome.failure, what)
    return cast("Ok", outcome).value


def describe(error: BaseException) -> Failure:
    """What the journal keeps of an exception."""
    if isinstance(error, StepFailed) and isinstance(error.failure, Failure):
        return error.failure
    kind = type(error)
    trace = "".join(traceback.format_exception(error, limit=-20))
    return Failure(name_of(kind), _clean(_message(error)), _clean(_end_of(trace)))


def name_of(kind: type[BaseException]) -> str:
    """What the journal calls a class of errors."""
    return _NAMES.get(kind) or f"{kind.__module__}:{kind.__qualname__}"


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
