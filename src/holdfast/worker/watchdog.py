"""The watchdog: it notices a workflow body that blocks the event loop, and reports the place.

Two guards. An audit hook refuses what a workflow body or a handler of a machine must not do, as it is done: see
``programs/function/guard``. And a turn that takes longer than the limit is reported, with the frame that blocks, by the
heart's thread, which runs when the loop does not.
"""

from __future__ import annotations

import functools
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from holdfast.programs.function.guard import BLOCKING, WATCHED, refuse_in_body
from holdfast.programs.function.loop import durable_loop
from holdfast.programs.machine import guard as handlers
from holdfast.store.protocol import Key

log = logging.getLogger("holdfast.watchdog")

_installed = threading.Lock()


def _refuse(event: str, args: tuple[Any, ...]) -> None:
    if event in WATCHED:
        loop = durable_loop()
        if loop is not None:
            refuse_in_body(loop.program.edition, loop.program.workflow.name, event, args, loop.refuse)
        elif event in BLOCKING and handlers.is_handling():
            handlers.refuse(event)


def guard() -> None:
    """Refuse such calls from now on. Hooks cannot be removed, so one serves all."""
    if _installed.acquire(blocking=False):
        sys.addaudithook(_refuse)
        if sys.version_info < (3, 13):
            time.sleep = _announced(time.sleep, "time.sleep")
        if sys.version_info < (3, 12):
            threading.Thread.start = _announced(threading.Thread.start, "_thread.start_new_thread")  # type: ignore[method-assign]


def _announced(function: Callable[..., None], event: str) -> Callable[..., None]:
    """The function, made to notify audit hooks of its calls, as newer Pythons do by themselves."""

    @functools.wraps(function)
    def announced(*args: Any) -> None:
        sys.audit(event, *args)
        function(*args)

    return announced


class Watchdog:
    """Knows which turn is running since when."""

    def __init__(self, limit_seconds: float) -> None:
        self.limit_seconds = limit_seconds
        self._turn: tuple[Key, float, int] | None = None
        self._reported: tuple[Key, float, int] | None = None

    def begin(self, key: Key) -> None:
        """A turn of this run begins in this thread."""
        self._turn = (key, time.monotonic(), threading.get_ident())

    def end(self) -> None:
        self._turn = None

    def look(self) -> str | None:
        """Report a turn that takes too long, once; called from another thread."""
        turn = self._turn
        if turn is None or turn is self._reported:
            return None
        key, since, thread = turn
        if time.monotonic() - since < self.limit_seconds:
            return None
        self._reported = turn
        frame = sys._current_frames().get(thread)
        where = "".join(traceback.format_stack(frame)[-3:]) if frame is not None else ""
        message = (
            f"workflow run {key.run} of tenant {key.tenant} has blocked the event loop for more than "
            f"{self.limit_seconds:g} s. Move the work into a step. It is here:\n{where}"
        )
        log.error(message)
        return message
