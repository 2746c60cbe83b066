"""Times as parts of sentences about runs."""

from __future__ import annotations

import datetime


def moment(microseconds: int) -> str:
    """A time, to the second."""
    found = datetime.datetime.fromtimestamp(microseconds / 1e6, datetime.UTC)
    return found.strftime("%Y-%m-%d %H:%M:%S UTC")


def when(due: int, now: int) -> str:
    """A time, and how far off it is."""
    return f"{moment(due)} ({f'{length(now - due)} ago' if due <= now else f'in {length(due - now)}'})"


def length(microseconds: int) -> str:
    """A length of time, in the largest unit in which it is at least two."""
    seconds = max(0, microseconds) / 1e6
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} seconds"
