"""Executions in this worker: how they are made from births and journals, and advanced under the watchdog's eye."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.kernel.arrivals import Arrival
from holdfast.kernel.execution import Entropy, Execution, Turn
from holdfast.programs.function.decorators import Workflow
from holdfast.runs.birth import Birth, Pin
from holdfast.runs.clock import Clock
from holdfast.runs.segments import unseal
from holdfast.store import protocol as p
from holdfast.worker.held import Held
from holdfast.worker.turn_plan import Gate, Plan, plan
from holdfast.worker.watchdog import Watchdog

HOLD_MICROSECONDS: Final = 1_000_000
"""A run whose next timer is due this soon is not handed back: that would cost two commits more."""


class Executions:
    """Makes and advances the executions of held runs. Its calls step workflow code: only from a plain callback."""

    def __init__(
        self, workflows: Mapping[str, Workflow[..., Any]], clock: Clock, entropy: Entropy, watchdog: Watchdog
    ) -> None:
        self.clock = clock
        self._workflows = workflows
        self._entropy = entropy
        self._watchdog = watchdog
        self.gate: Gate | None = None
        self._pins = {name: Pin(digest=workflow.digest) for name, workflow in workflows.items()}

    def begin(self, held: Held, birth: Birth) -> Turn:
        """A new run's first turn."""
        program = self._workflows[birth.workflow].program()
        held.run_as(Execution.begin(held.id, program, birth.started, self.clock.now(), self._entropy))
        return self.advance(held, [])

    def rebuild(self, held: Held, segments: Sequence[p.Segment], blobs: Mapping[bytes, bytes]) -> None:
        """A run from its journal. Raises Nondeterminism, LawBroken, StoreCorrupt, or the author's own error."""
        entries = unseal(segments, held.id, blobs)
        program = self._workflows[held.workflow].program()
        self._watchdog.begin(held.key)
        try:
            held.run_as(Execution.rebuild(held.id, program, entries, self.clock.now(), self._entropy))
        finally:
            self._watchdog.end()

    def advance(self, held: Held, arrivals: Sequence[Arrival], *, resume: bool = True) -> Turn:
        """One turn. Raises AuthorError where the workflow's code is at fault."""
        self._watchdog.begin(held.key)
        try:
            return held.live.advance(arrivals, self.clock.now(), resume=resume)
        finally:
            self._watchdog.end()

    def plan(self, held: Held, turn: Turn, *, judged: bool = True) -> Plan:
        """What to commit of a turn, and what to do then. Where it is not ``judged``, no action is begun by it."""
        now = self.clock.now()
        gate = self.gate if judged else None
        return plan(held, held.live, turn, now, hold_until=now + HOLD_MICROSECONDS, pins=self._pin, gate=gate)

    def _pin(self, name: str) -> Pin:
        return self._pins.get(name, Pin())

    def is_due_soon(self, held: Held) -> bool:
        """Whether a timer here will move the run before it is worth handing back."""
        due = held.next_due()
        return due is not None and due <= self.clock.now() + HOLD_MICROSECONDS
