"""What the error of an attempt means: whether another may mend it, when, and whether the act may have been done.

Errors of httpx, requests, aiohttp and urllib are known by their names and members: none of them is imported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
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
from holdfast.transports.http.refusals import leaves_open, may_mend, seconds_of

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


def is_unknown(error: BaseException, *, writes: bool, not_done: Collection[int] = ()) -> bool:
    """Whether what was sent may have arrived although no answer came: known by its class, in any library.

    Libraries wrap what happened: as the cause, as the reason, or as an argument of their own error. For an act that
    ``writes``, an answer that leaves it open is none, unless its status is in ``not_done`` and is the error's own: a
    status further inside may be that of another request. A transport knows it, and says so.
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
        if writes and _leaves_open(one, not_done if one is error else ()):
            return True
        found += [one.__cause__, one.__context__, _attribute(one, "reason"), *one.args]
    return False


def _leaves_open(error: BaseException, not_done: Collection[int]) -> bool:
    status = _own_status(error) or _attribute(error, "code")  # some errors call it so
    return isinstance(status, int) and leaves_open(status) and status not in not_done


def _status(error: BaseException) -> int | None:
    """The HTTP status of an error of any library, or of the error that is its cause."""
    return next((status for one in _causes(error) if (status := _own_status(one)) is not None), None)


def _own_status(error: BaseException) -> int | None:
    """The status that the error itself, or its response, has: httpx, requests, aiohttp, urllib, clients of services."""
    for holder in (error, _attribute(error, "response")):
        for name in ("status_code", "status"):
            status = _attribute(holder, name)
            if isinstance(status, int) and 100 <= status <= 599:
                return int(status)
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, and what it was raised from, each once."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        yield one
        seen.add(id(one))
        one = one.__cause__


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
    return status is not None and status >= 400 and not may_mend(status)


def retry_after(error: BaseException, now: int) -> float | None:
    """How long the other side asked to be left alone: a RetryableError's wish, or the header of an answer.

    ``now`` is the present time in microseconds.
    """
    wishes = (seconds_of(_wish(one), now / 1e6) for one in _causes(error))
    return next((wish for wish in wishes if wish is not None), None)


def _wish(error: BaseException) -> object:
    wish = _attribute(error, "retry_after")
    if wish is not None:
        return wish
    headers = _attribute(_attribute(error, "response") or error, "headers")
    try:
        return headers.get("Retry-After")
    except Exception:  # whatever it is, it has no headers
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
