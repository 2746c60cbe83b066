"""Patience with a store that does not answer: back off, log it once, and continue when the store is back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from holdfast.errors import OperatorError, StoreUnavailable

log = logging.getLogger("holdfast.worker")

T = TypeVar("T")

SHORTEST_SECONDS: Final = 0.05
LONGEST_SECONDS: Final = 2.0

TROUBLE: Final = (StoreUnavailable, OperatorError)
"""The errors that end with time, or with an operator's help."""


async def patiently(call: Callable[[], Awaitable[T]], *, unless: tuple[type[Exception], ...] = ()) -> T:
    """Call until the store answers. Errors in ``unless`` are raised at once: another try would not help."""
    pause = SHORTEST_SECONDS
    complained = False
    while True:
        try:
            answer = await call()
        except unless:
            raise
        except TROUBLE as error:
            if not complained:
                log.warning("%s (trying again)", error)
            complained = True
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_SECONDS)
        else:
            if complained:
                log.warning("the store answers again")
            return answer
