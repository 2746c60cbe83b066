"""Attached changes: what is committed together with a turn, each with what to do when the store has answered it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from holdfast.store import protocol as p


class Attached(msgspec.Struct, gc=False):
    """A change and its continuation. Without a change, the continuation waits for the turn to be durable."""

    change: p.Gating | None
    then: Callable[[p.Answer | None], None] | None = None
