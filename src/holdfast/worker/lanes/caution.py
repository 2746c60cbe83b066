"""Caution: how a lane goes on whose last worker died over it.

What killed that worker is not known, and must come first with each next worker: only then are deaths counted that
follow one another, and the right cell is parked at the limit. A message waits at the head of the inbox until it is
handled. A receipt or a report of a step that ran in the worker died with it. The step is done again, and other turns
may be committed until it ends. So a cautious lane takes one thing in a turn; and what is in nobody's inbox it records
first, in a turn of its own, and handles in the next. If that one kills, the journal has what did it, and it comes
first.

It is over when all that the dead worker may have handled is handled: a busy lane is never at rest, and one thing in a
turn is slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import Arrival, AttemptFailed, Begun, CallSettled

if TYPE_CHECKING:
    from holdfast.worker.held import Held


class Caution:
    """Which of the arrivals of a lane its next turn takes. ``has_message`` is set where the first of them came from the
    inbox; ``has_recorded`` where the last turn only recorded, and the next one is to follow at once."""

    def __init__(self) -> None:
        self.has_message = False
        self.has_recorded = False
        self._suspects: set[PromiseId] | None = None  # steps that the dead worker may have had, once they run here

    def records(self, held: Held) -> bool:
        """Whether the next turn only records."""
        return not self.has_message and not held.live.has_news and _first(held.arrivals) < len(held.arrivals)

    def take(self, held: Held) -> tuple[list[Arrival], list[Arrival]]:
        """The arrivals of the next turn, and those that are left. What was recorded is handled alone; a lane that is
        paused records all."""
        arrivals = held.arrivals
        self.has_recorded = held.pause is None and self.records(held)
        end = _first(arrivals) + (self.has_message or self.has_recorded)
        self.has_message = False
        return (arrivals, []) if held.pause is not None else (arrivals[:end], arrivals[end:])

    def is_over(self, held: Held, now: int) -> bool:
        """Whether a turn that is durable was the last that had to be cautious."""
        if held.fresh or held.live.has_news or held.consumed < held.row.arrived:
            return False
        if held.gate is not None and (held.gate.is_moving or held.gate.wants_turn):
            return False
        settled = {each.promise_id for each in held.arrivals if isinstance(each, CallSettled | AttemptFailed)}
        under_way = settled.union(held.steps)
        self._suspects = under_way if self._suspects is None else self._suspects & under_way
        due = held.live.next_due()
        return not self._suspects and (due is None or due > now)


def _first(arrivals: Sequence[Arrival]) -> int:
    """The place of the first arrival that a program gets: that steps were begun by the worker before is no news."""
    return next((at for at, each in enumerate(arrivals) if type(each) is not Begun), len(arrivals))
