"""Time and randomness, given to the engine from outside."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from holdfast.kernel.scribe import Entropy


class Clock(Protocol):
    """The present, in microseconds since 1970, UTC."""

    def now(self) -> int: ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> int:
        return time.time_ns() // 1000


SYSTEM_CLOCK: Final[Clock] = SystemClock()
SYSTEM_ENTROPY: Final[Entropy] = random.SystemRandom()
