"""A bound client for code without an event loop."""

from __future__ import annotations

from holdfast.client.engine import Holdfast
from holdfast.client.loop_thread import LoopThread
from holdfast.client.sync.engine import SyncHoldfast


class ActingSync(SyncHoldfast):
    """A client that acts for a user. It shares its engine and its thread, and neither opens nor closes them."""

    def __init__(self, loop: LoopThread, engine: Holdfast) -> None:
        self._loop = loop
        self._engine = engine

    def open(self, *, migrate: bool = True) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""
