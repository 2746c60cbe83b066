"""What a turn asks the worker to do, once the turn is durable and not before."""

from __future__ import annotations

import msgspec

from holdfast.journal.payload import Payload
from holdfast.journal.promise import PromiseId


class Invoke(msgspec.Struct, frozen=True, gc=False):
    """Run this attempt of an invocation. With a ``queue`` any worker that serves it may, not before ``not_before``.

    ``again`` counts how often the whole call was undone before.
    """

    promise_id: PromiseId
    kind: str
    function_name: str
    input: Payload
    attempt: int
    queue: str | None = None
    not_before: int = 0
    again: int = 0


class Abandon(msgspec.Struct, frozen=True, gc=False):
    """Nobody waits for this invocation any more: stop it where that is possible."""

    promise_id: PromiseId
    kind: str
    queue: str | None


Request = Invoke | Abandon
