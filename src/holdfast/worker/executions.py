"""Executions in this worker: how they are made from births and journals, and advanced under the watchdog's eye."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from holdfast.errors import StoreCorrupt
from holdfast.journal import events as e
from holdfast.journal.payload import Err
from holdfast.kernel.arrivals import Arrival, AttemptFailed, CallSettled
from holdfast.kernel.checkpoint import CheckpointUnusable
from holdfast.kernel.execution import Entropy, Execution, Turn
from holdfast.kernel.program import Program
from holdfast.programs.catalogue import Catalogue
from holdfast.programs.machine.kind import Machines
from holdfast.programs.machine.lanes.lane import LaneProgram
from holdfast.runs.birth import Birth
from holdfast.runs.checkpoints import unseal_checkpoint
from holdfast.runs.clock import Clock
from holdfast.runs.log_records import about
from holdfast.runs.segments import unseal
from holdfast.store import protocol as p
from holdfast.worker.held import Held
from holdfast.worker.lifecycle import Lifecycle
from holdfast.worker.turn_plan import Gate, Plan, code_of, plan
from holdfast.worker.watchdog import Watchdog

log = logging.getLogger("holdfast.worker")

HOLD_MICROSECONDS: Final = 1_000_000
"""A run whose next timer is due this soon is not handed back: that would cost two commits more."""


class Executions:
    """Makes and advances the executions of held runs. Its calls step workflow code: only from a plain callback."""

    def __init__(
        self,
        catalogue: Catalogue,
        clock: Clock,
        entropy: Entropy,
        watchdog: Watchdog,
        *,
        checkpoint_events: int = 100,
        lifecycle: Lifecycle | None = None,
    ) -> None:
        self.clock = clock
        self.lifecycle = lifecycle
        self.machines = catalogue.kind(p.MACHINE, Machines)
        self._catalogue = catalogue
        self._entropy = entropy
        self._watchdog = watchdog
        self._checkpoint_events = checkpoint_events
        self._complaints: set[str] = set()

    def begin(self, held: Held, birth: Birth) -> Turn:
        """A new run's first turn."""
        program = self._program(held, birth.pin.digest)
        held.run_as(Execution.begin(held.id, program, birth.started, self.clock.now(), self._entropy))
        return self.advance(held, [])

    def resume(self, held: Held, loaded: p.Loaded) -> None:
        """A run from what was loaded of it. Raises CheckpointUnusable, and then its whole journal is to be loaded;
        where that is what was loaded, what ``rebuild`` raises."""
        if loaded.checkpoint is None:
            self.rebuild(held, loaded.segments, loaded.blobs)
            return
        try:
            self._restore(held, loaded, loaded.checkpoint)
        except Exception as error:  # whatever it is: the whole journal decides
            reason = str(error) if isinstance(error, CheckpointUnusable) else f"{type(error).__name__}: {error}"
            level = logging.DEBUG if reason in self._complaints else logging.WARNING
            self._complaints.add(reason)
            message = "the checkpoint of run %s, tenant %s, is not used: %s. The run is rebuilt from its whole journal."
            log.log(level, message, held.key.run, held.key.tenant, reason, extra=about(held.key))
            raise CheckpointUnusable(reason) from error

    def _restore(self, held: Held, loaded: p.Loaded, row: p.CheckpointRow) -> None:
        code = code_of(held, self._catalogue.pin)
        checkpoint = unseal_checkpoint(row, held.id, code)
        tail = unseal(loaded.segments, held.id, loaded.blobs, first=row.version, head=row.head)
        reached = loaded.segments[-1].head if loaded.segments else row.head
        if (row.version + len(tail), reached) != (held.version, held.head):
            raise CheckpointUnusable("with its tail it does not reach where the run stands")
        program = self._program(held, code)
        now = self.clock.now()
        self._watchdog.begin(held.key)
        try:
            held.run_as(Execution.restore(held.id, program, checkpoint, tail, now, self._entropy, loaded.blobs))
        finally:
            self._watchdog.end()
        held.live.checkpoint_bytes = len(row.data)

    def rebuild(self, held: Held, segments: Sequence[p.Segment], blobs: Mapping[bytes, bytes]) -> None:
        """A run from its journal. Raises Nondeterminism, LawBroken, StoreCorrupt, SignalsMissing, or the author's own
        error."""
        entries = unseal(segments, held.id, blobs)
        started = entries[0].event if entries else None
        if not isinstance(started, e.ExecutionStarted):
            raise StoreCorrupt(f"the journal of run {held.key.run!r} has no beginning: restore it from a backup.")
        if started.signals is not None:
            held.learn_signals(started.signals, blobs)
        program = self._program(held, started.component_digest)
        self._watchdog.begin(held.key)
        try:
            held.run_as(Execution.rebuild(held.id, program, entries, self.clock.now(), self._entropy, held.signals))
        finally:
            self._watchdog.end()

    def _program(self, held: Held, digest: str) -> Program:
        row = held.row
        return self._catalogue.program(row.program_kind, row.workflow, digest, row.key.tenant, row.code_digest)

    def advance(self, held: Held, arrivals: Sequence[Arrival], *, resume: bool = True) -> Turn:
        """One turn. Raises AuthorError where the workflow's code is at fault, SignalsMissing where more of what the run
        carries must be read for it.

        What came of effects of cells is looked at first: what its executor did not sign is recorded as rejected.
        """
        if held.gate is not None:
            held.stop_clocks(held.gate)
        if held.is_lane and isinstance(program := held.live.program, LaneProgram):
            arrivals = [_judged(program, each) for each in arrivals]
        self._watchdog.begin(held.key)
        try:
            turn = held.live.advance(arrivals, self.clock.now(), resume=resume, cancel_first=held.cancel_first)
        finally:
            self._watchdog.end()
        if not turn.events:  # nothing of what arrived is recorded, so no commit would end its stay
            held.free_room()
        return turn

    def plan(self, held: Held, turn: Turn, gate: Gate | None) -> Plan:
        """What to commit of a turn, and what to do then. Without a ``gate`` nothing is judged, and no effect begins."""
        now = self.clock.now()
        return plan(
            held,
            held.live,
            turn,
            now,
            hold_until=now + HOLD_MICROSECONDS,
            pins=self._catalogue.pin,
            gate=gate,
            checkpoint_events=self._checkpoint_events,
            lifecycle=self.lifecycle,
        )

    def is_due_soon(self, held: Held) -> bool:
        """Whether a timer here will move the run before it is worth handing back."""
        due = held.next_due()
        return due is not None and due <= self.clock.now() + HOLD_MICROSECONDS


def _judged(program: LaneProgram, arrival: Arrival) -> Arrival:
    if type(arrival) is CallSettled:
        judged = program.judge(arrival.promise_id, arrival.outcome)
        return arrival if judged is arrival.outcome else msgspec.structs.replace(arrival, outcome=judged)
    if type(arrival) is AttemptFailed:
        failed = Err(arrival.failure)
        judged = program.judge(arrival.promise_id, failed)
        if judged is not failed and isinstance(judged, Err):
            return msgspec.structs.replace(arrival, failure=judged.failure)
    return arrival
