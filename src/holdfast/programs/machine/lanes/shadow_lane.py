"""A lane replayed beside its journal: the recorded commands are repeated, and other code handles the recorded events.

What the world decided is taken from the journal: times, seeds, receipts, and when timers came. A call of the shadow is
taken to be a recorded one where the same cell had asked for the same effect by then and nothing else is it: then its
recorded receipt is the shadow's. A call that nobody recorded has no receipt, so its cell waits. What cells emit goes
nowhere: the events that they led to are recorded where they came to.

Where a lane was split, the shadow's own cells go on in the lanes that got the recorded ones. So lanes are replayed in
the order of their numbers: those that were split have lower ones than their heirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import msgspec

from holdfast.cells.cell import CellIntent, CellRecord, decode_cell, encode_cell, intents_in_order
from holdfast.journal import events as e
from holdfast.journal.payload import Payload
from holdfast.journal.promise import PromiseId
from holdfast.kernel.execution import Entropy, Execution
from holdfast.kernel.program import Scribe, Yielded
from holdfast.programs.machine.handle import TurnContext
from holdfast.programs.machine.lanes.cell_turn import CellCall, CellTurn
from holdfast.programs.machine.lanes.envelopes import Adoption, Envelope, HandOver, HeldPart
from holdfast.programs.machine.lanes.held_events import Due, Occurrence, ReceiptArrived, unchained
from holdfast.programs.machine.lanes.hot_cells import HotCells
from holdfast.programs.machine.lanes.lane import OPEN, LaneProgram
from holdfast.programs.machine.lanes.notes import TurnNote, read_note
from holdfast.programs.machine.lanes.succession import with_origin
from holdfast.programs.machine.machine import Machine
from holdfast.programs.machine.switchboard import Switchboard

_UNRECORDED: Final = 1 << 40
"""The first position of calls that no journal has."""


class _Listener:
    """A scribe that remembers what a repeated turn recorded."""

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe
        self.now_at = 0
        self.seed = b""
        self.note_of_turn: TurnNote | None = None
        self.opened: list[PromiseId] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scribe, name)

    def now(self) -> int:
        self.now_at = self._scribe.now()
        return self.now_at

    def random(self, size: int) -> bytes:
        self.seed = self._scribe.random(size)
        return self.seed

    def invoke(self, *args: Any, **kwargs: Any) -> PromiseId:
        promise = self._scribe.invoke(*args, **kwargs)
        self.opened.append(promise)
        return promise

    def note(self, kind: str, function_name: str, input: Payload, freight: object) -> None:
        self._scribe.note(kind, function_name, input, freight)
        self.note_of_turn = read_note(input)


class HandedShadow(NamedTuple):
    """A cell as the shadow has it when its lane was split: None where it has none, or deleted it. ``calls`` are
    recorded ones that the shadow has not made, by effect. ``is_recorded``: the recorded lane handed one over, too."""

    record: CellRecord | None
    calls: dict[str, list[PromiseId]]
    is_recorded: bool


class ShadowTallies:
    """What was seen so far: calls by effect, events, failures. ``handed`` are the cells that are between two lanes."""

    def __init__(self) -> None:
        self.handed: dict[bytes, HandedShadow] = {}
        self.recorded: dict[str, int] = {}
        self.asked: dict[str, int] = {}
        self.same: dict[str, int] = {}
        self.unanswered: dict[str, int] = {}
        self.failures: dict[str, int] = {}
        self.events = 0
        self.emitted = 0


def _count(tally: dict[str, int], name: str) -> None:
    tally[name] = tally.get(name, 0) + 1


class ShadowLane(LaneProgram):
    """``machine`` is the code that handles the events. ``tallies`` may be those of several lanes."""

    def __init__(self, machine: Machine[Any], board: Switchboard, tallies: ShadowTallies) -> None:
        super().__init__(machine, board, HotCells())
        self._tallies = tallies
        self._shadows: dict[bytes, CellRecord | None] = {}
        self._open: dict[bytes, dict[str, list[PromiseId]]] = {}  # recorded calls that the shadow has not made
        self._next = _UNRECORDED
        self._parts: dict[bytes, list[bytes]] = {}  # what is held for cells that are on their way here
        self.handed: dict[bytes, HandedShadow] = {}

    @property
    def shadows(self) -> Mapping[bytes, CellRecord]:
        """The cells as the shadow has them."""
        return {key: record for key, record in self._shadows.items() if record is not None}

    def run(self) -> Yielded:
        scribe = self._running()
        if scribe.upcoming() is not None:  # beyond the journal there is nothing
            self._repeat(scribe)
        self._intents.end_turn()
        return OPEN

    def _repeat(self, scribe: Scribe) -> None:
        self._receive_all(scribe)
        arrived, rang, self._arrived = self._arrived, self._rang, []
        version, listener, is_split = scribe.version, _Listener(scribe), self._succession.hands_over
        super()._repeat(cast("Scribe", listener))  # it gives what a scribe gives
        note = listener.note_of_turn
        if note is None:
            return
        arrived = self._taken_in(arrived)
        for promise, intent in zip(listener.opened, note.intents, strict=True):
            self._open.setdefault(intent.key, {}).setdefault(intent.effect, []).append(promise)
            _count(self._tallies.recorded, intent.effect)
        self._shadow(arrived, note, rang, listener, version)
        if is_split:
            self._hand_over(note, listener.run)

    def _taken_in(self, arrived: Sequence[tuple[bytes, Occurrence]]) -> list[tuple[bytes, Occurrence]]:
        """What is left to be handled when the shadow has its own cells where recorded ones were handed over. Where it
        has not seen the lane that was split, it takes those as they were recorded. Its cells hold in their records what
        is held for them: they have no rows."""
        left: list[tuple[bytes, Occurrence]] = []
        for key, each in arrived:
            if isinstance(each, HeldPart):
                self._parts.setdefault(key, []).extend(each.events)
                continue
            if isinstance(each, HandOver | Adoption):
                record = unchained(decode_cell(each.record), self._parts.pop(key, []))
                each = msgspec.structs.replace(each, record=encode_cell(record))
            handed = self._tallies.handed.pop(key, None)
            if handed is not None:
                self._shadows[key] = handed.record
                self._open[key] = handed.calls
            if handed is None or not isinstance(each, HandOver):
                left.append((key, each))
        return left

    def _hand_over(self, note: TurnNote, run: PromiseId) -> None:
        """Give away what the recorded lane gave away; with the last of it also what only the shadow has."""
        rest = () if note.more else [key for key, record in self._shadows.items() if record is not None]
        for key in dict.fromkeys((*note.moved, *rest)):
            record = self._shadows.pop(key, None)
            given = None if record is None else with_origin(record, run.root)
            self.handed[key] = HandedShadow(given, self._open.pop(key, {}), key in note.moved)

    def _shadow(
        self, arrived: list[tuple[bytes, Occurrence]], note: TurnNote, rang: bool, heard: _Listener, version: int
    ) -> None:
        if rang:
            for key in note.due:
                record = self._shadows.get(key)
                timers = () if record is None else record.timers
                arrived.extend((key, Due(timer)) for timer in timers if timer.wake_at <= heard.now_at)
        self._tallies.events += sum(isinstance(each, Envelope) for _, each in arrived)
        for key, each in arrived:
            self._shadows.setdefault(key, None)
            if isinstance(each, ReceiptArrived):
                self._close(key, each.promise)
        machine = self.machine
        where = TurnContext(heard.now_at, heard.seed, version, self._board.manifest, machine.name, machine.hash)
        turn = CellTurn(machine, self._shadows, where, self._board, heard.run, set())
        turn.handle(arrived)
        for _, reason, _ in turn.failures:
            _count(self._tallies.failures, reason)
        self._tallies.emitted += len(turn.emitted) + len(turn.dead)
        self._shadows.update(turn.changed)
        for call in turn.calls:
            self._ask(call, heard.run.root)

    def _close(self, key: bytes, promise: PromiseId) -> None:
        """A recorded call was settled: the shadow cannot make it any more."""
        for promises in self._open.get(key, {}).values():
            if promise in promises:
                promises.remove(promise)

    def _ask(self, call: CellCall, root: bytes) -> None:
        key, effect = call.key, call.effect.name
        _count(self._tallies.asked, effect)
        recorded = self._open.get(key, {}).get(effect)
        origin = None
        if recorded:
            promise = recorded.pop(0)
            position, origin = promise.path[-1], None if promise.root == root else promise.root
            _count(self._tallies.same, effect)
        else:
            position, self._next = self._next, self._next + 1
            _count(self._tallies.unanswered, effect)
        record = self._shadows.get(key)
        if record is not None and call.awaited:
            opened = CellIntent(position, effect, call.effect.sequence, call.effect.issuer, origin)
            intents = intents_in_order((*record.intents, opened))
            self._shadows[key] = msgspec.structs.replace(record, intents=tuple(intents))


def shadow_lane(
    run: PromiseId,
    entries: Sequence[e.Entry],
    machine: Machine[Any],
    board: Switchboard,
    now: int,
    entropy: Entropy,
    tallies: ShadowTallies,
) -> Mapping[bytes, CellRecord]:
    """The cells that other code makes of what a lane's journal records. What they hand over is in the tallies then."""
    program = ShadowLane(machine, board, tallies)
    Execution.rebuild(run, program, entries, now, entropy)
    tallies.handed.update(program.handed)
    return program.shadows
