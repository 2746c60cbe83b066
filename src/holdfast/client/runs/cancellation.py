"""The messages that ask a run to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import InvalidRequest
from holdfast.runs import journals, messages
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast


async def cancellation(
    app: Holdfast, key: p.Key, reason: str, *, leave_children: bool
) -> tuple[p.Deliver | p.Unpause, ...]:
    """Ask the run to stop, even where it is paused; with ``leave_children`` without waiting for its children.

    Raises InvalidRequest for the lane of a machine, which has no children, and RunNotFound.
    """
    now = app.clock.now()
    stop = (p.Deliver(key, messages.cancel(reason, now)), p.Unpause(key, now))
    if not leave_children:
        return stop
    row = await journals.row_of(app.store, key)
    if row.program_kind == p.MACHINE:
        raise InvalidRequest(f"run {key.run!r} is a lane of a machine, which has no children: cancel it without this.")
    return (p.Deliver(key, messages.leave_children(now)), *stop)
