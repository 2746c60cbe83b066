"""The requests of a turn to the worker, which carries them out once the turn is durable and not before."""

from __future__ import annotations

import msgspec

from holdfast.journal.payload import ONCE, Payload, RetryPolicy
from holdfast.journal.promise import PromiseId


def name_of(promise: PromiseId, mark: str) -> str:
    """The name of a call for the other side. Its mark begins with ``@`` and a position where it keeps the name of an
    earlier try at that position."""
    if mark.startswith("@"):
        place, _, mark = mark[1:].partition(":")
        promise = PromiseId(promise.root, (*promise.path[:-1], int(place)))
    return f"{promise}:{mark}" if mark else str(promise)


class Invoke(msgspec.Struct, frozen=True, gc=False):
    """Run this attempt of an invocation. With a ``queue`` any worker that serves it may, not before ``not_before``.

    ``mark`` distinguishes the call from others at the same position: a call that undoes another, and a call that was
    undone and is done again. ``place`` is the position that its name has, if that is another. ``retry`` is what the
    call itself says of its attempts. A ``stopped`` one must not begin unless it may have begun before. One that
    ``undoes`` a call begins only if the act of that is this run's to undo.
    """

    promise_id: PromiseId
    kind: str
    function_name: str
    input: Payload
    attempt: int
    queue: str | None = None
    not_before: int = 0
    mark: str = ""
    retry: RetryPolicy = ONCE
    stopped: bool = False
    undoes: PromiseId | None = None
    place: int | None = None

    @property
    def name(self) -> str:
        """The name of the call for the other side: the same at every attempt, and different for every other call."""
        return name_of(self.promise_id, self.mark)


class Abandon(msgspec.Struct, frozen=True, gc=False):
    """Nobody waits for this invocation any more: stop it if possible."""

    promise_id: PromiseId
    kind: str
    queue: str | None
    place: int | None = None


class Stop(msgspec.Struct, frozen=True, gc=False):
    """The run wants this invocation to end, and waits for that.

    What has not begun does not begin, and a child is cancelled. What has begun ends by itself, and its outcome counts.
    """

    promise_id: PromiseId
    kind: str
    queue: str | None
    attempt: int = 1
    place: int | None = None


class Carry(msgspec.Struct, frozen=True, gc=False):
    """Commit this freight with the turn. What it is, its kind knows."""

    promise_id: PromiseId
    kind: str
    freight: object
    queue: str | None = None


Request = Invoke | Abandon | Stop | Carry
