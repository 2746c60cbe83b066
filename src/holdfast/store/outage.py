"""An outage: since when this process does not reach its store, and for how long it has reached it again.

An outage looks the same from all sides: the heartbeats of every worker are missing, and a server that was restarted has
lost the locks of all. So a process that did not reach the store cannot tell whether others have died meanwhile, and
gives them a moment to come back. All handles of a process on one store share an outage, also across threads.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import Final

SETTLING_SECONDS: Final = 3.0
"""For so long after the store was out of reach, no worker is considered dead."""


class Outage:
    """Whether the store is reached: see the module."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._over_at = -math.inf

    def lost(self) -> None:
        """The store was not reached, or has not answered for long."""
        if self._since is None:
            self._since = _now()

    def reached(self) -> None:
        """The store has answered."""
        if self._since is not None:
            self._since = None
            self._over_at = _now()

    @property
    def settled(self) -> bool:
        """Whether the store has been reached for long enough that others, too, had time to come back."""
        return self._since is None and _now() - self._over_at > SETTLING_SECONDS


def _now() -> float:
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:  # a connection that is torn down with its loop
        return time.monotonic()
