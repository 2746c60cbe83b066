"""Times of the store, which are microseconds since 1970: as Python and JSON have them, and as people read them."""

from __future__ import annotations

import datetime
from typing import Final, overload

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_LAST: Final = datetime.datetime.max.replace(tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)


@overload
def moment(microseconds: int) -> datetime.datetime: ...
@overload
def moment(microseconds: int | None) -> datetime.datetime | None: ...


def moment(microseconds: int | None) -> datetime.datetime | None:
    """A time of the store in UTC. One beyond the year 9999 is the last that Python knows: a timer may be set so far."""
    if microseconds is None:
        return None
    try:
        return _EPOCH + datetime.timedelta(microseconds=microseconds)
    except OverflowError:
        return _LAST


def length(microseconds: int) -> datetime.timedelta:
    """A length of time of the store; the longest that Python knows where it is longer."""
    try:
        return datetime.timedelta(microseconds=microseconds)
    except OverflowError:
        return datetime.timedelta.max


def microseconds(time: datetime.datetime | datetime.timedelta) -> int:
    """A time, or a length of time, as the store has it."""
    return (time - _EPOCH if isinstance(time, datetime.datetime) else time) // _MICROSECOND


def present() -> datetime.datetime:
    """The time now, by this computer's clock."""
    return datetime.datetime.now(datetime.UTC)


def iso(time: datetime.datetime | None) -> str | None:
    """A time as JSON has it: ISO 8601, UTC."""
    return None if time is None else time.isoformat(timespec="microseconds").replace("+00:00", "Z")


def clock(time: datetime.datetime) -> str:
    """A time as people read it."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC")


def span(time: datetime.timedelta) -> str:
    """A length of time in two units at most: ``12 ms``, ``3.4 s``, ``5m 12s``, ``2d 3h``."""
    seconds = max(0.0, time.total_seconds())
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d {hours}h"
    return f"{hours}h {minutes}m" if hours else f"{minutes}m {rest}s"
