"""Trouble with a driver: it is logged when it begins and when it is over, and seldom where it comes and goes."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

log = logging.getLogger("holdfast.wakeups")

QUIET_SECONDS: Final = 60.0
"""Trouble that comes again so soon after it was logged is not logged again."""


class Trouble:
    """The trouble of one direction. ``doing`` is what fails, as in "send hints by redis://…"."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._logged_at = float("-inf")
        self._is_logged = False
        self.present = False

    def failed(self, error: BaseException) -> None:
        if self.present:
            return
        self.present = True
        now = asyncio.get_running_loop().time()
        if now - self._logged_at < QUIET_SECONDS:
            return
        self._logged_at, self._is_logged = now, True
        reason = str(error).strip() or type(error).__name__
        log.warning("cannot %s (%s); it is tried again, and runs go on by the store's own hints", self._doing, reason)

    def over(self) -> None:
        if self.present and self._is_logged:
            log.warning("can %s again", self._doing)
        self.present = self._is_logged = False
