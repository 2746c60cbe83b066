"""Rates: how many requests somebody may make. A bucket fills at the rate and holds so many at once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Final

MOST_KEYS: Final = 20_000
"""Buckets that are kept: of more, the ones that were not used for longest are forgotten, which fills them."""


class Rates:
    """Buckets by key."""

    def __init__(self, per_second: float, at_once: float, clock: Callable[[], float] = monotonic) -> None:
        self._per_second = per_second
        self._at_once = max(1.0, at_once)
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str, count: float = 1.0) -> float:
        """Take from a bucket. Gives 0 where that is allowed, else the seconds until it would be."""
        left = self._left(key)
        if left < count:
            return (count - left) / self._per_second if self._per_second > 0 else 3600.0
        self._keep(key, left - count)
        return 0.0

    def is_empty(self, key: str) -> bool:
        """Whether nothing can be taken just now."""
        return self._left(key) < 1.0

    def _left(self, key: str) -> float:
        amount, at = self._buckets.get(key, (self._at_once, self._clock()))
        return min(self._at_once, amount + (self._clock() - at) * self._per_second)

    def _keep(self, key: str, left: float) -> None:
        self._buckets[key] = left, self._clock()
        self._buckets.move_to_end(key)
        while len(self._buckets) > MOST_KEYS:
            self._buckets.popitem(last=False)
