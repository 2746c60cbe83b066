"""The watchdog: it notices a workflow body that blocks the event loop, and reports the place.

Two guards. An audit hook refuses well-known blocking calls inside a workflow body or a machine's handler as they are
made. And a turn that takes longer than the limit is reported, with the frame that blocks, by the heart's thread, which
runs when the loop does not.
"""

from __future__ import annotations

import functools
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, Final

from holdfast.programs.function.loop import durable_loop
from holdfast.programs.machine import guard as handlers
from holdfast.store.protocol import Key

log = logging.getLogger("holdfast.watchdog")

BLOCKING: Final = frozenset(
    {
        "ftplib.connect",
        "http.client.connect",
        "os.system",
        "smtplib.connect",
        "socket.bind",
        "socket.connect",
        "socket.getaddrinfo",
        "socket.gethostbyname",
        "sqlite3.connect",
        "subprocess.Popen",
        "time.sleep",
        "urllib.Request",
    }
)

_installed = threading.Lock()


def _refuse_blocking(event: str, _args: object) -> None:
    if event in BLOCKING:
        loop = durable_loop()
        if loop is not None:
            loop.refuse(event)
        if handlers.is_handling():
            handlers.refuse(event)


def guard() -> None:
    """Refuse blocking calls in workflow bodies and handlers from now on. Hooks cannot be removed, so one serves all."""
    if _installed.acquire(blocking=False):
        sys.addaudithook(_refuse_blocking)
        if not _announces_sleep():
            time.sleep = _announced(time.sleep)


def _announces_sleep() -> bool:
    """Whether this Python itself notifies audit hooks of ``time.sleep``; older ones do not."""
    return sys.version_info >= (3, 13)


def _announced(sleep: Callable[[Any], None]) -> Callable[[Any], None]:
    @functools.wraps(sleep)
    def announced(seconds: float, /) -> None:
        sys.audit("time.sleep", seconds)
        sleep(seconds)

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
