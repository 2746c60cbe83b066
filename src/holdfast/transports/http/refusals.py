"""What a refusing answer of HTTP means, whoever read it: whether another attempt may mend it, when, and whether the
request may have been carried out."""

from __future__ import annotations

import datetime
import math
from email.utils import parsedate_to_datetime
from typing import Final

LONGEST_WAIT_SECONDS: Final = 366 * 86400.0
"""Nobody is left alone for longer, whatever they ask for: the time of the next attempt must be one."""

_LONGEST_TEXT: Final = 100
_LATER: Final = frozenset({408, 425, 429})


def is_refusal(status: object) -> bool:
    """Whether it is the status of an answer that refuses, or says that the other side failed."""
    return type(status) is int and 400 <= status <= 599


def may_mend(status: int) -> bool:
    """Whether another attempt may be answered otherwise."""
    return status in _LATER or status >= 500


def leaves_open(status: int) -> bool:
    """Whether the request may have been carried out: a side that gave up or failed may have done so before."""
    return status == 408 or 500 <= status <= 599


def seconds_of(retry_after: object, now: float) -> float | None:
    """The seconds that a ``Retry-After`` asks to wait, whether it is a number or an HTTP date; None if it is neither.

    ``now`` is the present time in seconds since 1970.
    """
    if isinstance(retry_after, str):
        text = retry_after.strip()
        wish = _number(text) if len(text) <= _LONGEST_TEXT else None
        if wish is None and (at := _date(text)) is not None:
            wish = at - now
    else:
        wish = _number(retry_after)
    return None if wish is None or not math.isfinite(wish) else min(max(0.0, wish), LONGEST_WAIT_SECONDS)


def _number(wish: object) -> float | None:
    try:
        return float(wish)  # type: ignore[arg-type]  # whatever cannot be read as a number raises
    except (TypeError, ValueError, OverflowError):
        return None


def _date(text: str) -> float | None:
    if len(text) > _LONGEST_TEXT:
        return None
    try:
        at = parsedate_to_datetime(text)
        return (at if at.tzinfo is not None else at.replace(tzinfo=datetime.UTC)).timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
