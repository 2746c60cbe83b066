"""How much the random tests try: a part in ``make test``, all of it in ``make test-long``."""

from __future__ import annotations

import os
from typing import Final, TypeVar

VARIABLE: Final = "HOLDFAST_LONG_TESTS"
IS_LONG: Final = os.environ.get(VARIABLE, "") not in ("", "0")

T = TypeVar("T")


def volume(usual: T, long: T) -> T:
    """What a test tries, usually and where there is time."""
    return long if IS_LONG else usual
