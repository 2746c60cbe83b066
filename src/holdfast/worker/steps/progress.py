"""What an effect of a cell reports while it is under way, on its way to the cell.

An attempt sends at most one frame in a tenth of a second, and none while the one before it has not been taken up: of
several reports the newest counts. The last one is sent when the attempt ends, in front of what came of it. So a million
reports cost a few frames, and a cell always learns the last. A frame says which attempt, begun by which lease, made it
and as which one of its kind; by that the lane drops what is old or comes twice.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Final

from holdfast.errors import PayloadTooLarge
from holdfast.programs.function.values import encode
from holdfast.runs.lanes import ProgressFrame

FRAME_SECONDS: Final = 0.1
FRAME_LIMIT_BYTES: Final = 64 * 1024

Taken = Callable[[], bool]
"""Whether a frame that was sent has been taken up, so that the next one does not pile up behind it."""


class ProgressReports:
    """The reports of one attempt. ``send`` sends a frame towards the cell. Any thread may ``add`` one."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        position: int,
        attempt: int,
        epoch: int,
        send: Callable[[ProgressFrame], Taken],
    ) -> None:
        self._loop = loop
        self._place = (position, attempt, epoch)
        self._send = send
        self._number = 0
        self._newest: bytes | None = None
        self._scheduled = False
        self._closed = False
        self._sent_at: float | None = None
        self._taken: Taken = lambda: True
        self._timer: asyncio.TimerHandle | None = None

    def add(self, details: object) -> None:
        """Report something. Raises PayloadTooLarge, and Unencodable where it is no data."""
        data = encode(details, "what a step reports").data
        if len(data) > FRAME_LIMIT_BYTES:
            raise PayloadTooLarge(
                f"what a step reports is {len(data):,} bytes and the limit is {FRAME_LIMIT_BYTES:,}: report how far it "
                "is, and give the rest with the result."
            )
        self._newest = data  # before the look at ``_scheduled``: whoever sends clears that first
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon_threadsafe(self._look, context=contextvars.Context())  # the engine's, not the step's

    def finish(self) -> None:
        """The attempt has ended: send what is left of it. What is reported from now on is dropped."""
        if not self._closed and self._newest is not None:
            self._send_newest(self._newest)
        self.close()

    def close(self) -> None:
        """Send nothing more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._scheduled, self._timer = False, None
        if self._closed or self._newest is None:
            return
        since = FRAME_SECONDS if self._sent_at is None else self._loop.time() - self._sent_at
        if since >= FRAME_SECONDS and self._taken():
            self._send_newest(self._newest)
        else:
            self._scheduled = True
            self._timer = self._loop.call_later(max(FRAME_SECONDS / 4, FRAME_SECONDS - since), self._look)

    def _send_newest(self, details: bytes) -> None:
        self._newest = None
        self._number += 1
        self._sent_at = self._loop.time()
        self._taken = self._send(ProgressFrame(*self._place, self._number, details))
