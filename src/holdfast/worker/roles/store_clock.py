"""The store's clock, as a scheduler reads it: it decides which ticks are due, and whether they were missed.

A reading is believed where it goes with the last one that was: the store's clock went on by as much as this process's
monotonic one, ``JUMP`` more or less. A clock that has jumped ahead by more is looked at twice. If it stays there, it
is right, or wrong for longer than anybody can wait; if it comes back, nothing was done by it. One that goes back
is believed at once: no tick is due earlier by it.

    last believed     last doubted                       a reading that             is
    none              any                                any                        believed
    any               any                                goes with the believed     believed
    any               5 s ago, and goes with it          has jumped                 believed
    any               none, later, or does not           has jumped                 doubted
"""

from __future__ import annotations

from typing import Final, NamedTuple

JUMP: Final = 600 * 1_000_000
"""A clock that goes ahead by more than this at once has jumped."""
MOST_OFF: Final = 5 * 1_000_000
"""A worker whose own clock is off the store's by more than this starts nothing by a schedule."""
SECOND_LOOK_SECONDS: Final = 5.0
"""After this time a clock that has jumped is looked at again."""


class _Reading(NamedTuple):
    now: int
    time: float

    def reaches(self, other: _Reading) -> bool:
        """Whether a later reading is one of the same clock, that has not jumped."""
        return (other.now - self.now) - (other.time - self.time) * 1e6 <= JUMP


class StoreClock:
    """What one scheduler has read. Times of this process are seconds of its monotonic clock."""

    def __init__(self) -> None:
        self._believed: _Reading | None = None
        self._doubted: _Reading | None = None

    def believes(self, now: int, time: float) -> bool:
        """Take a reading; whether it may be gone by."""
        reading = _Reading(now, time)
        if self._believed is None or self._believed.reaches(reading) or self._is_confirmed(reading):
            self._believed, self._doubted = reading, None
            return True
        if self._doubted is None or not self._doubted.reaches(reading):
            self._doubted = reading
        return False

    def now(self, time: float) -> int:
        """What the store's clock says by the last reading that was believed."""
        assert self._believed is not None, "a reading was believed"
        return self._believed.now + round((time - self._believed.time) * 1e6)

    def _is_confirmed(self, reading: _Reading) -> bool:
        doubted = self._doubted
        return doubted is not None and reading.time - doubted.time >= SECOND_LOOK_SECONDS and doubted.reaches(reading)


def clock_ahead(before: int, store: int, after: int) -> int:
    """By how much the clock of this process is ahead of the store's, which was read between two readings of it:
    negative where it is behind, 0 where it may be right."""
    return max(before - store, 0) + min(after - store, 0)
