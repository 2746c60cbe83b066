"""Work, counted: lines of this package that ran, and rows that a store gave. No busy machine changes either.

A test of growth does the same work at two sizes and compares the counts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import holdfast

_PACKAGE = holdfast.__path__[0]


class Count:
    """How many operations there were."""

    def __init__(self) -> None:
        self.total = 0


@contextmanager
def counted_lines(*modules: str) -> Iterator[Count]:
    """Count the lines and calls of the package's code on this thread; with ``modules``, of these files alone."""
    count = Count()

    def line(_frame: FrameType, _event: str, _argument: Any) -> Any:
        count.total += 1
        return line

    def call(frame: FrameType, _event: str, _argument: Any) -> Any:
        file = frame.f_code.co_filename
        if file.startswith(_PACKAGE) and (not modules or file.endswith(modules)):
            count.total += 1
            return line
        return None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        yield count
    finally:
        sys.settrace(before)
