"""Times as scripts and people read them."""

from __future__ import annotations

import datetime


def iso(microseconds: int | None) -> str | None:
    """A time as JSON has it: ISO 8601, UTC."""
    if microseconds is None:
        return None
    moment = datetime.datetime.fromtimestamp(microseconds // 1_000_000, datetime.UTC)
    return (
        moment.replace(microsecond=microseconds % 1_000_000).isoformat(timespec="microseconds").replace("+00:00", "Z")
    )


def clock(microseconds: int) -> str:
    """A time as people read it."""
    return datetime.datetime.fromtimestamp(microseconds / 1e6, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def span(microseconds: int) -> str:
    """A length of time in two units at most: ``12 ms``, ``3.4 s``, ``5m 12s``, ``2d 3h``."""
    seconds = max(0, microseconds) / 1e6
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
