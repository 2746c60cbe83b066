"""Executions in this worker: how they are made from births and journals, and advanced under the watchdog's eye."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.errors import StoreCorrupt
from holdfast.journal import events as e
from holdfast.kernel.arrivals import Arrival
from holdfast.kernel.execution import Entropy, Execution, Turn
from holdfast.kernel.program import Program
from holdfast.programs.catalogue import Catalogue
from holdfast.runs.birth import Birth
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

    def __init__(self, catalogue: Catalogue, clock: Clock, entropy: Entropy, watchdog: Watchdog) -> None:
        self.clock = clock
        self._catalogue = catalogue
        self._entropy = entropy
        self._watchdog = watchdog
        self.gate: Gate | None = None

    def begin(self, held: Held, birth: Birth) -> Turn:
        """A new run's first turn."""
        program = self._program(held, birth.pin.digest)
        held.run_as(Execution.begin(held.id, program, birth.started, self.clock.now(), self._entropy))
        return self.advance(held, [])

    def rebuild(self, held: Held, segments: Sequence[p.Segment], blobs: Mapping[bytes, bytes]) -> None:
        """A run from its journal. Raises Nondeterminism, LawBroken, StoreCorrupt, or the author's own error."""
        entries = unseal(segments, held.id, blobs)
        started = entries[0].event if entries else None
        if not isinstance(started, e.ExecutionStarted):
            raise StoreCorrupt(f"the journal of run {held.key.run!r} has no beginning: restore it from a backup.")
        program = self._program(held, started.component_digest)
        self._watchdog.begin(held.key)
        try:
            held.run_as(Execution.rebuild(held.id, program, entries, self.clock.now(), self._entropy))
        finally:
            self._watchdog.end()

    def _program(self, held: Held, digest: str) -> Program:
        row = held.row
        return self._catalogue.program(row.program_kind, row.workflow, digest, row.key.tenant, row.code_digest)

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
        return plan(held, held.live, turn, now, hold_until=now + HOLD_MICROSECONDS, pins=self._catalogue.pin, gate=gate)

    def is_due_soon(self, held: Held) -> bool:
        """Whether a timer here will move the run before it is worth handing back."""
        due = held.next_due()
        return due is not None and due <= self.clock.now() + HOLD_MICROSECONDS
