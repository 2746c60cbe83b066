"""A lane replayed with its handlers, from the beginning of its journal: the check that the journal tells what they do.

Every note is compared with what the handlers make of the recorded events, hash by hash. What only the world could
decide is taken from the journal: which timers had come, and which handlers failed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from holdfast.cells.cell import CellRecord
from holdfast.journal import events as e
from holdfast.journal.payload import Outcome
from holdfast.journal.promise import PromiseId
from holdfast.journal.receipt_signatures import signature_of
from holdfast.kernel.execution import Entropy, Execution
from holdfast.kernel.pen import Halt
from holdfast.kernel.program import Scribe, Yielded
from holdfast.programs.machine.lanes.cell_turn import CHAINED, CellTurn, KnownTurn
from holdfast.programs.machine.lanes.held_rows import KeptRows
from holdfast.programs.machine.lanes.hot_cells import HotCells
from holdfast.programs.machine.lanes.lane import OPEN, LaneProgram
from holdfast.programs.machine.lanes.notes import TurnNote, read_note
from holdfast.programs.machine.machine import Machine
from holdfast.programs.machine.switchboard import Switchboard
from holdfast.runs.kinds.cells import CELLS


class CheckedLane(LaneProgram):
    """``notes`` are those of the journal that it replays, in order."""

    def __init__(self, machine: Machine[Any], board: Switchboard, notes: Sequence[TurnNote]) -> None:
        super().__init__(machine, board, HotCells())
        self._notes = deque(notes)
        self.kept = KeptRows()
        self._note = TurnNote((), ())

    @property
    def cells(self) -> dict[bytes, CellRecord]:
        """The cells as they are now."""
        return {key: record for key, record in self._cells.items() if record is not None}

    def settle(self, promise_id: PromiseId, outcome: Outcome | None) -> None:
        """As it was recorded. A signature is checked once more, by the key that stands beside it."""
        intent = self._intents.get(promise_id)
        if outcome is not None and intent is not None and (signature := signature_of(outcome)) is not None:
            outcome = self._checked(promise_id, intent, outcome, signature.executor, None)
        super().settle(promise_id, outcome)

    def run(self) -> Yielded:
        with suppress(Halt):  # the kernel says what does not fit
            self._take_turn(self._running())
        self._intents.end_turn()
        return OPEN

    def _take_turn(self, scribe: Scribe) -> None:
        self._receive_all(scribe)
        acts = self._succession.acts
        if scribe.upcoming() is None or not (self._arrived or self._rang or acts):
            self._succession.end_turn()
            return
        self._note = self._notes.popleft() if self._notes else self._note
        known = self._cells
        self._due = [record for key in self._note.due if (record := known.get(key)) is not None]
        for key, _ in self._arrived:
            known.setdefault(key, None)
        batch = {*self._note.moved, *(key for key, _ in self._note.brought)}  # some cells move in several turns
        self._succession.batch = [record for key in sorted(batch) if (record := known.get(key)) is not None]
        self._succession.more = self._note.more
        for key, count in self._note.brought:
            record = known.get(key)
            if record is not None and record.chain is not None:
                self._rows[key] = self.kept.first(key, record.chain.first, count)
        self._handle(scribe)
        self._rang, self._due = False, None
        self._rows.clear()
        self._succession.end_turn()

    def _changed_code(self) -> bytes | None:
        """As it was recorded: other code may do the same."""
        return self._note.code

    def _known(self) -> KnownTurn:
        """As it was recorded. A turn that went by rules that differ from earlier ones says so."""
        note = self._note
        failures = {number: reason for number, reason, _ in note.failures}
        return KnownTurn(failures.get, not note.rules, note.rules >= CHAINED, self._rows)

    def _commit(self, scribe: Scribe, turn: CellTurn) -> None:
        super()._commit(scribe, turn)
        self.kept.apply(turn.held.changes())

    def _wind(self, scribe: Scribe, turn: CellTurn, now: int) -> None:
        """Alarms are hints: what the journal has is repeated."""
        event = scribe.upcoming()
        if isinstance(event, e.TimerScheduled):
            self._set_alarm(scribe, event.duration, event.fire_at)


def codes_of(entries: Sequence[e.Entry]) -> set[bytes]:
    """What the turns of a lane ran by, as its journal records it."""
    return {note.code for note in _notes_of(entries) if note.code is not None}


def _notes_of(entries: Sequence[e.Entry]) -> list[TurnNote]:
    return [
        read_note(entry.event.input)
        for entry in entries
        if isinstance(entry.event, e.InvokeScheduled) and entry.event.kind == CELLS
    ]


class CheckedCells(NamedTuple):
    """The cells of a lane, and what is held for them."""

    cells: dict[bytes, CellRecord]
    held: dict[bytes, dict[int, bytes]]


def check_lane(
    run: PromiseId,
    entries: Sequence[e.Entry],
    machine: Machine[Any],
    board: Switchboard,
    now: int,
    entropy: Entropy,
) -> CheckedCells:
    """The cells that a lane's handlers make of its journal. Raises Nondeterminism where the journal has others."""
    program = CheckedLane(machine, board, _notes_of(entries))
    Execution.rebuild(run, program, entries, now, entropy)
    return CheckedCells(program.cells, program.kept.rows)
