"""What one advance of a run gives to its worker."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import CancelArrived, SignalArrived
from holdfast.kernel.pen import Stamped
from holdfast.kernel.requests import Request


class Turn(msgspec.Struct, gc=False):
    """The result of one advance: events to append, then requests to carry out.

    ``unheard`` is a cancellation that came too late for this generation of the run; the next one must get it. ``stale``
    are signals for an earlier version of the run: they change nothing. ``undone`` are the undos that have ended, by
    promise and name, with whether they succeeded; ``kept`` are calls whose acts are declared done, ``former`` those
    that got the result of an earlier generation's call at another position.
    """

    events: list[Stamped]
    requests: list[Request]
    unheard: CancelArrived | None = None
    stale: Sequence[SignalArrived] = ()
    undone: Sequence[tuple[PromiseId, str, bool]] = ()
    kept: Sequence[PromiseId] = ()
    former: Sequence[tuple[PromiseId, int]] = ()
