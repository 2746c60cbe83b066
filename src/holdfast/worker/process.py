"""The settings of a process that belongs to a worker. They hold for all its code, so nothing changes them unasked."""

from __future__ import annotations

import gc
import sys
from typing import Final

COLLECT_AFTER: Final = 20_000
"""So many objects are made, beyond those freed, before the garbage collector looks at the young ones. A busy engine's
objects are freed by counting references: with Python's 700 the collector looks often, and finds nothing."""

SWITCH_SECONDS: Final = 0.0002
"""So long a thread that is ready waits for the interpreter at most. With Python's 5 ms, a commit that is done may wait
longer for the event loop than it waited for the disk."""


def tune_process() -> None:
    """Set the garbage collector and the switching of threads for a busy engine. Call it once, when the engine is open.

    ``holdfast worker`` and ``holdfast serve`` do so. In a process of your own it is up to you, because the settings
    hold for all of its code: the garbage collector no longer looks at what exists now and looks at younger objects less
    often, and threads take turns more often.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])
    sys.setswitchinterval(SWITCH_SECONDS)
