"""Delays as SCXML writes them, which are CSS2's times and a few longer units."""

from __future__ import annotations

import re
from typing import Final

_DELAY: Final = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?|\.[0-9]{1,15})\s*(ms|s|m|h|d)\s*")
_MILLISECONDS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
DELAY_LIMIT: Final = 100 * 365 * 86_400_000


def delay_milliseconds(text: str) -> int:
    """A delay such as ``1.5s`` or ``250ms``. Raises ValueError."""
    found = _DELAY.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no delay: write one such as 1.5s or 250ms")
    delay = round(float(found[1]) * _MILLISECONDS[found[2]])
    if delay > DELAY_LIMIT:
        raise ValueError(f"{text!r} is more than 100 years")
    return delay
