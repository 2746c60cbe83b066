"""Faults: what becomes of a run whose turn fails. Nothing of such a turn is kept but what arrived.

==========================================  ==================================================================
the turn failed                             then
==========================================  ==================================================================
with a name that may be published           the store is asked, and the turn is taken again with the answer
and needs signals that were not read        more of what the run carries is read, and the turn is taken again
and brought a cancellation                  it is taken again, the cancellation first
and its code needs a step that is not here  what arrived is recorded, and the run is offered to another worker
in another way                              what arrived is recorded, and the run is parked with the reason
==========================================  ==================================================================
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from holdfast.errors import AuthorError
from holdfast.kernel.arrivals import Arrival
from holdfast.kernel.carried_signals import SignalsMissing
from holdfast.programs.function.named_workflows import UnresolvedName
from holdfast.runs.log_records import about
from holdfast.worker.handovers import Handovers
from holdfast.worker.held import Held
from holdfast.worker.parker import Parker, describe
from holdfast.worker.rebuilder import Rebuilder

log = logging.getLogger("holdfast.worker")


class Faults:
    """``relinquish`` lets a run go that has a commit under way, ``background`` lets work run beside."""

    def __init__(
        self,
        parker: Parker,
        handovers: Handovers,
        rebuilder: Rebuilder,
        relinquish: Callable[[Held], None],
        background: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._parker = parker
        self._handovers = handovers
        self._rebuilder = rebuilder
        self._relinquish = relinquish
        self._background = background

    def failed(self, held: Held, arrivals: Sequence[Arrival], error: Exception) -> None:
        """A turn with these arrivals failed: the code is at fault, or the engine."""
        if isinstance(error, UnresolvedName):
            self._parker.forget_turn(held, arrivals)
            self._background(self._rebuilder.resolve(held, error.reference))
        elif isinstance(error, SignalsMissing):
            self._read_signals(held, arrivals, error)
        elif isinstance(error, AuthorError):
            self._give_up_turn(held, arrivals, describe(error))
        else:
            self.engine_failed(held, "cannot be advanced", error, arrivals)

    def unplanned(self, held: Held, arrivals: Sequence[Arrival], error: Exception) -> None:
        """A turn with these arrivals was taken, and cannot be committed."""
        if isinstance(error, SignalsMissing):
            self._read_signals(held, arrivals, error)
        else:
            self.engine_failed(held, "cannot be planned", error, arrivals)

    def unbuilt(self, held: Held, error: Exception) -> None:
        """The next generation of a run cannot be made."""
        if isinstance(error, SignalsMissing):
            self._read_signals(held, (), error)
        else:
            self._parker.unbuilt(held, error)

    def _read_signals(self, held: Held, arrivals: Sequence[Arrival], missing: SignalsMissing) -> None:
        self._parker.forget_turn(held, arrivals)
        self._background(self._rebuilder.read_signals(held, missing))

    def engine_failed(self, held: Held, what: str, error: Exception, arrivals: Sequence[Arrival] = ()) -> None:
        """Something of the engine's own went wrong with one run: it is parked, and the others go on."""
        key = held.key
        log.error("run %s of tenant %s %s", key.run, key.tenant, what, exc_info=error, extra=about(key))
        if held.dropped:
            return
        if held.committing:  # a commit is under way: the next holder of the run finds the same fault, and parks it
            self._relinquish(held)
        else:
            self._give_up_turn(held, arrivals, describe(error, "engine"))

    def turn_away(self, held: Held, reason: str) -> None:
        """Another worker should run this: its code is not the one here. Parked where there is none."""
        self._background(self._handovers.offer(held, reason, partial(self._parker.park, held, reason)))

    def decline_turn(self, held: Held, reason: str) -> None:
        """Another worker should take the next turn, or this one where there is none. What has arrived is recorded."""
        self._parker.forget_turn(held, ())
        self._background(self._parker.record(held, reason, partial(self._offer_turn, held, reason)))

    def _give_up_turn(self, held: Held, arrivals: Sequence[Arrival], reason: str) -> None:
        lack = None if held.execution is None else self._handovers.unserved(held)  # it may have moved in this turn
        self._parker.forget_turn(held, arrivals)
        if not held.cancel_first and held.pause is None and held.must_hear_cancel():
            self._background(self._rebuilder.cancel_first(held))
            return
        instead = None if lack is None else partial(self._hand_over, held, lack, reason)
        self._background(self._parker.record(held, reason, instead))

    def _offer_turn(self, held: Held, reason: str) -> None:
        self._background(self._handovers.offer(held, reason, partial(self._rebuilder.go_on, held)))

    def _hand_over(self, held: Held, lack: str, reason: str) -> None:
        self._background(self._handovers.offer(held, lack, partial(self._parker.park, held, reason)))
