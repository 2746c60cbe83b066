"""What the error of an attempt tells: whether another may mend it, when, and whether the act may have been done.

Errors of httpx, requests, aiohttp and urllib are told by their names and members, so that none of them is imported.
"""

from __future__ import annotations

from typing import Any, Final

_RETRYABLE_STATUSES: Final = frozenset({408, 425, 429})

_OPEN_STATUSES: Final = frozenset({408, 500, 502, 503, 504})
"""Answers that do not say whether a request was carried out: it may have been before whoever answers gave up."""

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
    """Whether what was sent may have arrived although no answer came: told by its class, whichever library it is of.

    Libraries wrap what happened: as the cause, as the reason, or as an argument of their own error. For an act that
    ``writes``, an answer that leaves it open is none.
    """
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
    """What an error of a library says of itself. Asking must not fail: the attempt would end without any arrival."""
    try:
        return getattr(error, name, None)
    except Exception:
        return None


def is_terminal(error: BaseException) -> bool:
    """Whether the other side refused for good: another attempt would be refused too."""
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
        return None if wish is None else max(0.0, float(wish))
    except Exception:  # whatever it is, it is no number of seconds
        return None
