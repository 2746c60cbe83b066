"""What a turn asks the worker to do, once the turn is durable and not before."""

from __future__ import annotations

import msgspec

from holdfast.journal.payload import Payload
from holdfast.journal.promise import PromiseId


class Invoke(msgspec.Struct, frozen=True, gc=False):
    """Run this attempt of an invocation. With a ``queue`` any worker that serves it may, not before ``not_before``.

    ``mark`` tells the call from others that had its place: one that undoes, and one that was undone and is done again.
    """

    promise_id: PromiseId
    kind: str
    function_name: str
    input: Payload
    attempt: int
    queue: str | None = None
    not_before: int = 0
    mark: str = ""

    @property
    def name(self) -> str:
        """What the other side knows the call by: the same at every attempt, and at no other call."""
        return f"{self.promise_id}:{self.mark}" if self.mark else str(self.promise_id)


class Abandon(msgspec.Struct, frozen=True, gc=False):
    """Nobody waits for this invocation any more: stop it where that is possible."""

    promise_id: PromiseId
    kind: str
    queue: str | None


Request = Invoke | Abandon
