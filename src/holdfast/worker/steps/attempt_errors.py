"""What the error of an attempt means: whether another may mend it, when, and whether the act may have been done.

Errors of httpx, requests, aiohttp and urllib are known by their names and members: none of them is imported.
"""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

from holdfast.errors import TransportFailed
from holdfast.journal.error_classes import (
    AUTHORISATION,
    OTHER,
    TRANSPORT,
    class_of_name,
    error_class,
    error_members,
    written_details,
)
from holdfast.journal.payload import Failure
from holdfast.programs.function.failures import describe

_RETRYABLE_STATUSES: Final = frozenset({408, 425, 429})

_OPEN_STATUSES: Final = frozenset({408, 500, 502, 503, 504})
"""Answers that do not say whether a request was carried out: it may have been before the answering side gave up."""

LONGEST_WAIT_SECONDS: Final = 366 * 86400.0
"""Nobody is left alone for longer, whatever they ask for: the time of the next attempt must be one."""

_NO_ANSWER: Final = frozenset(
    {
        "BrokenPipeError",
        "ChunkedEncodingError",
        "ConnectionAbortedError",
        "ConnectionResetError",
        "IncompleteRead",
        "IncompleteReadError",
        "OutcomeUnknown",
        "ReadError",
        "ReadTimeout",
        "ReadTimeoutError",
        "RemoteDisconnected",
        "RemoteProtocolError",
        "ServerDisconnectedError",
        "ServerTimeoutError",
        "TimeoutError",
        "WriteError",
        "WriteTimeout",
    }
)
"""Errors of the usual HTTP libraries, and Python's own, that leave open whether a request was carried out."""


def is_unknown(error: BaseException, *, writes: bool) -> bool:
    """Whether what was sent may have arrived although no answer came: known by its class, in any library.

    Libraries wrap what happened: as the cause, as the reason, or as an argument of their own error. For an act that
    ``writes``, an answer that leaves it open is none. A transport knows it, and says so.
    """
    if isinstance(error, TransportFailed):
        return error.is_unknown
    seen: set[int] = set()
    found: list[object] = [error]
    while found:
        one = found.pop()
        if not isinstance(one, BaseException) or id(one) in seen:
            continue
        seen.add(id(one))
        if any(kind.__name__ in _NO_ANSWER for kind in type(one).__mro__):
            return True
        if writes and _leaves_open(one):
            return True
        found += [one.__cause__, one.__context__, _attribute(one, "reason"), *one.args]
    return False


def _leaves_open(error: BaseException) -> bool:
    status = _status(error) or _attribute(error, "code")  # urllib's calls it so
    return isinstance(status, int) and status in _OPEN_STATUSES


def _status(error: BaseException) -> int | None:
    """The HTTP status behind an error of httpx, requests or aiohttp."""
    status = _attribute(_attribute(error, "response"), "status_code") or _attribute(error, "status")
    return status if isinstance(status, int) else None


def _attribute(error: object, name: str) -> Any:
    """An attribute of a library's error. Reading it must not fail: the attempt would end without any arrival."""
    try:
        return getattr(error, name, None)
    except Exception:
        return None


def is_terminal(error: BaseException) -> bool:
    """Whether the other side refused for good: another attempt would be refused too."""
    if isinstance(error, TransportFailed):
        return not error.retryable
    status = _status(error)
    return status is not None and 400 <= status < 500 and status not in _RETRYABLE_STATUSES


def retry_after(error: BaseException) -> float | None:
    """How long the other side asked to be left alone: a RetryableError's wish, or a Retry-After header in seconds."""
    try:
        wish = getattr(error, "retry_after", None)
        if wish is None:
            holder = getattr(error, "response", None) or error
            headers = getattr(holder, "headers", None)
            wish = None if headers is None else headers.get("Retry-After")
        seconds = None if wish is None else float(wish)
        if seconds is None or not math.isfinite(seconds):
            return None
        return min(max(0.0, seconds), LONGEST_WAIT_SECONDS)
    except Exception:  # whatever it is, it is no number of seconds
        return None


def failure_of(error: BaseException) -> Failure:
    """What the journal keeps of an attempt's error: what its name does not tell of its class, and its HTTP status, are
    among the details."""
    failure = describe(error)
    members: dict[str, object] = {}
    if not isinstance(error, TransportFailed):
        if (status := _status(error)) is not None:
            members["status"] = status
        if (kind := _class_of(error)) != error_class(failure):
            members["class"] = kind
    if not members:
        return failure
    return msgspec.structs.replace(failure, details=written_details({**error_members(failure), **members}))


def _class_of(error: BaseException) -> str:
    """The class of an error, by the status that it carries, or by the first of its classes that is known."""
    if (status := _status(error)) is not None:
        return AUTHORISATION if status in (401, 403) else TRANSPORT
    known = (class_of_name(kind.__name__) for kind in type(error).__mro__)
    return next((kind for kind in known if kind is not None), OTHER)
