"""The difference between a person's Ctrl-C and a KeyboardInterrupt that an author's code raises."""

from __future__ import annotations

import dis
import threading
from types import TracebackType
from typing import Final

_RAISE: Final = dis.opmap["RAISE_VARARGS"]


def is_interrupt(error: BaseException) -> bool:
    """Whether a person pressed Ctrl-C while an author's code ran on the main thread.

    asyncio's handler is recognised by the module in which it raises. Python's own handler interrupts any instruction;
    an author's code raises with a ``raise`` instruction.
    """
    if not isinstance(error, KeyboardInterrupt) or threading.current_thread() is not threading.main_thread():
        return False
    innermost = _innermost(error.__traceback__)
    if innermost is None or innermost.tb_frame.f_globals.get("__name__") == "asyncio.runners":
        return True
    return innermost.tb_frame.f_code.co_code[innermost.tb_lasti] != _RAISE


def _innermost(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace
