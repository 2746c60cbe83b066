"""What a worker itself knows of its lease's life.

The store decides who holds a run. But between its answer and our next step, the process may have been stopped,
or the store out of reach, for so long that another worker has the run. So no step begins later than the last heartbeat
plus the time to live, counted from before that heartbeat was sent: another worker can take over only later.
"""

from __future__ import annotations

from collections.abc import Callable


class LocalLease:
    """A deadline on this process's own monotonic clock; beats move it. Read and written across threads."""

    def __init__(self, ttl_seconds: float, time: Callable[[], float]) -> None:
        self._ttl = ttl_seconds
        self._time = time
        self._deadline = 0.0
        self.losses = 0

    def time(self) -> float:
        return self._time()

    def beaten(self, sent_at: float) -> None:
        """A heartbeat that was sent at this time has been answered."""
        self._deadline = max(self._deadline, sent_at + self._ttl)

    def lost(self) -> None:
        """The store has forgotten this worker. What it was granted before that, and learns of only now, is void."""
        self._deadline = 0.0
        self.losses += 1

    def alive(self) -> bool:
        return self._time() < self._deadline

    def held_since(self, losses: int) -> bool:
        """Whether an answer of the store still counts: the worker was not forgotten while it was on its way."""
        return self.losses == losses and self.alive()
