"""A lane as the kernel's program: a run that carries a share of a machine's cells.

It waits for its next event and for whatever is open, in one wait that lists nothing. A turn receives all that has come,
asks for the effects of its cells, and notes what became of them; their records go into the same commit. One recorded
time and one recorded seed serve a whole turn.

A lane that is taken over repeats the commands of its journal without running a handler: the records of its cells are in
the store, as they stand at the journal's end. The order of commands in a turn is fixed, so that they can be repeated:
receives, time and seed, effects, the note, the alarm.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import cbor2
import msgspec

from holdfast.cells.cell import CellIntent, CellRecord, HeldChain
from holdfast.errors import EngineError
from holdfast.journal import events as e
from holdfast.journal.cbor import canonical
from holdfast.journal.payload import ONCE, Ok, Outcome, Payload
from holdfast.journal.promise import PromiseId
from holdfast.kernel.pen import Halt
from holdfast.kernel.program import Scribe, Waiting, Yielded
from holdfast.programs.function.decorators import STEPS, Step
from holdfast.programs.machine.executors import EffectCall, signed_or_rejected
from holdfast.programs.machine.handle import TurnContext
from holdfast.programs.machine.lanes.cell_turn import CHAINED, CellCall, CellTurn, KnownTurn
from holdfast.programs.machine.lanes.changed_cells import encode_changed
from holdfast.programs.machine.lanes.envelopes import (
    Addressed,
    Continuation,
    ForwardedReceipt,
    Release,
    open_envelope,
)
from holdfast.programs.machine.lanes.held_events import Due, Occurrence, ReceiptArrived, read_held
from holdfast.programs.machine.lanes.held_rows import Rows
from holdfast.programs.machine.lanes.hot_cells import HotCells
from holdfast.programs.machine.lanes.notes import CellNote, IntentNote, TurnNote, code_hash, emitted_hash, read_note
from holdfast.programs.machine.lanes.open_intents import OpenIntent, OpenIntents
from holdfast.programs.machine.lanes.succession import Succession
from holdfast.programs.machine.machine import Machine
from holdfast.programs.machine.occurrences import Progress
from holdfast.programs.machine.switchboard import Switchboard
from holdfast.runs.kinds.cells import CELLS, Freight
from holdfast.runs.lanes import LANE_EVENT, CellOrigin, ProgressFrame

SEED_BYTES: Final = 16
OPEN: Final = Waiting((), e.Open())
CHAINS_SINCE: Final = 2
"""A lane of an earlier edition holds events in the records of its cells, until its first checkpoint."""


class WantedCells(msgspec.Struct, frozen=True, gc=False):
    """The cells that a turn needs: by key, those whose timer has come by ``due_by``, and some to hand over. And for
    those that it lets catch up, as much of their chains as one turn handles."""

    keys: tuple[bytes, ...]
    due_by: int | None = None
    moving: bool = False
    chains: tuple[tuple[bytes, HeldChain], ...] = ()


class LaneProgram:
    """One lane of one machine."""

    def __init__(self, machine: Machine[Any], board: Switchboard, hot: HotCells) -> None:
        self.names: Mapping[str, str | None] = {}
        self.secrets: set[str | bytes | int | float] = set()
        self.reference: str | None = None
        self.poison: str | None = None  # why the next turn parks its cells unhandled: it has killed its workers
        self.machine = machine
        self._board = board
        self._hot = hot
        self._lane = object()  # its name there: what another object had of the lane may be old
        self._cells: dict[bytes, CellRecord | None] = {}  # those of the turn under way, as the store has them
        self._rows: dict[bytes, Rows] = {}  # and the first of what is held for some of them
        self._holds_in_chains = False
        self._due: list[CellRecord] | None = None  # None where no alarm was looked after
        self._next_wake: int | None = None
        self._intents = OpenIntents()
        self._receive: PromiseId | None = None
        self._alarm: PromiseId | None = None
        self._alarm_at: int | None = None
        self._rang = False
        self._arrived: list[tuple[bytes, Occurrence]] = []
        self._opened: dict[bytes, Addressed | ProgressFrame] = {}  # what the next turn hears, read for its keys
        self._succession = Succession(machine.name)
        self._code: bytes | None = None  # what the last turn ran by, as the journal has it
        self._scribe: Scribe | None = None

    # -- the kernel's side ---------------------------------------------------------------------------------------------

    @property
    def needs(self) -> Collection[str]:
        return tuple(name for name, each in self.machine.effects.items() if isinstance(each, Step))

    def start(self, scribe: Scribe, started: e.ExecutionStarted) -> None:
        self._scribe = scribe
        self._holds_in_chains = started.edition >= CHAINS_SINCE
        self._succession.begin(started)

    def settle(self, promise_id: PromiseId, outcome: Outcome | None) -> None:
        if promise_id == self._receive:
            assert isinstance(outcome, Ok)
            self._receive = None
            self._hear(outcome.value)
        elif promise_id == self._alarm:
            self._alarm = None
            self._rang = True
        elif outcome is not None and (intent := self._intents.settle(promise_id)) is not None:
            self._arrived.append((intent.key, ReceiptArrived(promise_id, outcome)))

    def cancel(self, reason: str) -> None:
        """A lane has no end: its cells do."""

    def revise(self, payload: Payload) -> None:
        """A manifest: the next turn runs by it."""

    @property
    def hears_progress(self) -> bool:
        """Whether reports of effects are delivered to its cells."""
        return self.machine.accepts(Progress)

    def run(self) -> Yielded:
        scribe = self._running()
        if scribe.upcoming() is not None:
            with suppress(Halt):  # the kernel says what does not fit
                self._repeat(scribe)
            self._intents.end_turn()
            return OPEN
        self._receive_all(scribe)
        if self._arrived or self._rang or self._succession.acts:
            self._handle(scribe)
        self._intents.end_turn()
        self._rang, self._due = False, None  # what was brought for this turn is old in the next
        self._opened.clear()
        self._rows.clear()
        self._succession.end_turn()
        return OPEN

    def waiting_on(self) -> tuple[PromiseId, ...]:
        held = (self._receive, self._alarm)
        return (*self._intents, *(each for each in held if each is not None))

    def clock_of(self, promise_id: PromiseId) -> PromiseId | None:
        return None

    def checkpoint(self) -> bytes | None:
        intents = self._intents.kept()
        receive = None if self._receive is None else self._receive.path[-1]
        alarm = None if self._alarm is None else [self._alarm.path[-1], self._alarm_at]
        self._holds_in_chains = True  # whoever goes on from here does so, too
        return canonical([4, intents, receive, alarm, self._succession.kept(), self._code])

    def restore(self, scribe: Scribe, started: e.ExecutionStarted, checkpoint: bytes) -> None:
        version, intents, receive, alarm, *rest = cbor2.loads(checkpoint)
        if version not in (1, 2, 3, 4):
            raise ValueError(f"it is of format {version}")
        self._scribe, run = scribe, scribe.run
        self._holds_in_chains = version >= 4 or started.edition >= CHAINS_SINCE
        split, self._code = (*rest, None, None)[:2]
        self._succession.begin(started, split or ("open", None))
        self._intents.restore(run, intents)
        self._receive = None if receive is None else run.child(receive)
        if alarm is not None:
            self._alarm, self._alarm_at = run.child(alarm[0]), alarm[1]

    def close(self) -> None:
        self._scribe = None
        self._cells.clear()
        self._rows.clear()
        self._hot.forget(self._lane)
        self._arrived.clear()

    def _running(self) -> Scribe:
        if self._scribe is None:
            raise EngineError("the lane is not running")
        return self._scribe

    # -- what the worker brings ----------------------------------------------------------------------------------------

    def route_by(self, board: Switchboard) -> None:
        """Address what cells emit, and judge what they ask for, by the manifest in force."""
        self._board = board

    def wanted(
        self, heard: Sequence[tuple[str, Payload]], settled: Sequence[PromiseId], now: int
    ) -> WantedCells | None:
        """See ``cell_supplier.Supplied``."""
        taken, is_moving = self._succession.wanted([(name, payload.data) for name, payload in heard])
        for data in taken:
            if data not in self._opened:
                self._opened[data] = open_envelope(data)
        keys = {key for data in taken if (key := self._key_of(self._opened[data])) is not None}
        keys.update(self._intents.keys_of(settled))
        is_due = self._alarm is not None and self._alarm_at is not None and self._alarm_at <= now and self._due is None
        for key in keys:
            if key not in self._cells and self._hot.has(self._lane, key):
                self._cells[key] = self._hot.take(self._lane, key)
        missing = tuple(sorted(key for key in keys if key not in self._cells))
        chains = self._chains(taken)
        is_short = missing or is_due or is_moving or chains
        return WantedCells(missing, now if is_due else None, is_moving, chains) if is_short else None

    def _chains(self, taken: Sequence[bytes]) -> tuple[tuple[bytes, HeldChain], ...]:
        """The chains of the cells that the next turn may let catch up, and of which nothing is here."""
        heard = (self._opened[data] for data in taken)
        keys = {each.key for each in heard if isinstance(each, Release | Continuation)}
        records = [self._cells.get(key) for key in sorted(keys.difference(self._rows))]
        return tuple((each.key, each.chain) for each in records if each is not None and each.chain is not None)

    @property
    def brought(self) -> Collection[CellRecord | None]:
        """The cells of the next turn, where all are here."""
        return self._cells.values()

    def release(self) -> None:
        """See ``cell_supplier.Supplied``."""
        for key, record in self._cells.items():
            self._hot.put(self._lane, key, record)
        self._cells.clear()
        self._rows.clear()
        self._due = self._succession.batch = None  # where it was recorded only, its cells are brought once more

    @property
    def lane_counts(self) -> Mapping[str, int]:
        """See ``cell_supplier.Supplied``."""
        return self._board.lane_counts(self.machine.name)

    def bring(
        self,
        cells: Mapping[bytes, CellRecord | None],
        due: Sequence[CellRecord] | None,
        next_wake: int | None,
        moving: tuple[Sequence[CellRecord], bool] | None = None,
        rows: Mapping[bytes, Rows] | None = None,
    ) -> None:
        """See ``cell_supplier.Supplied``."""
        self._cells.update(cells)
        self._rows.update(rows or {})
        if moving is not None:
            self._succession.batch, self._succession.more = moving
            for each in moving[0]:
                self._cells.setdefault(each.key, each)
        if due is not None:
            for each in due:
                self._cells.setdefault(each.key, each)
            self._due = [record for each in due if (record := self._cells[each.key]) is not None]
            self._next_wake = next_wake

    def origin_of(self, promise: PromiseId) -> CellOrigin | None:
        """Which cell asked for an effect that is open."""
        intent = self._intents.get(promise)
        return None if intent is None else CellOrigin(self.machine.name, intent.key)

    def judge(self, promise: PromiseId, outcome: Outcome) -> Outcome:
        """What came of an effect, as it is to be recorded: as it is, or as rejected where its executor did not sign."""
        intent = self._intents.get(promise)
        executor = None if intent is None else self._board.executor_of(intent.effect)
        if intent is None or executor is None:
            return outcome
        return self._checked(promise, intent, outcome, executor, self._board.keys_of(executor))

    def _checked(
        self, promise: PromiseId, intent: OpenIntent, outcome: Outcome, executor: str, keys: frozenset[bytes] | None
    ) -> Outcome:
        call = EffectCall(CellOrigin(self.machine.name, intent.key), promise, intent.effect, self._queue(intent.effect))
        return signed_or_rejected(call, outcome, executor, keys)

    # -- a turn --------------------------------------------------------------------------------------------------------

    def _key_of(self, heard: Addressed | ProgressFrame) -> bytes | None:
        """Whom something is for; None where its effect is settled."""
        if not isinstance(heard, ProgressFrame):
            return heard.key
        intent = None if self._scribe is None else self._intents.get(self._scribe.run.child(heard.position))
        return None if intent is None else intent.key

    def _hear(self, payload: Payload) -> None:
        if self._succession.notice(payload.data):
            return
        heard = self._opened.pop(payload.data, None) or open_envelope(payload.data)
        if not isinstance(heard, ProgressFrame):
            occurrence = read_held(heard.receipt) if isinstance(heard, ForwardedReceipt) else heard
            self._arrived.append((heard.key, occurrence))
        elif (reported := self._intents.hear(self._running().run.child(heard.position), heard)) is not None:
            self._arrived.append(reported)

    def _receive_all(self, scribe: Scribe) -> None:
        listens = self.hears_progress and self._succession.is_open
        if self._receive is not None and self._intents.must_read_on(scribe, LANE_EVENT, listens=listens):
            scribe.abandon(self._receive)
            self._receive = None
        while self._receive is None:
            signal = self._succession.signal
            promise, payload = scribe.receive(signal or self._succession.go_on())
            if payload is None:
                self._receive = promise
                if signal is not None:
                    self._succession.emptied()
            else:
                self._hear(payload)

    def _handle(self, scribe: Scribe) -> None:
        now, seed = scribe.now(), scribe.random(SEED_BYTES)
        arrived, self._arrived = self._arrived, []
        if self._rang:
            arrived.extend(
                (record.key, Due(timer))
                for record in self._due or ()
                for timer in record.timers
                if timer.wake_at <= now
            )
        arrived, forwarded = self._succession.forwarded(arrived, self._cells)
        missing = [key for key, _ in arrived if key not in self._cells]
        if missing:
            raise EngineError(f"the cell {missing[0]!r:.60} was not brought to its turn")
        if any(record is not None and record.chain is not None for record in self._cells.values()):
            self._holds_in_chains = True
        where = TurnContext(now, seed, scribe.version, self._board.manifest, self.machine.name, self.machine.hash)
        turn = CellTurn(self.machine, self._cells, where, self._board, scribe.run, self.secrets, self._known())
        turn.emitted.extend(forwarded)
        turn.handle(arrived)
        self._succession.act(turn, scribe.run)
        self.poison = None
        self._commit(scribe, turn)
        self._wind(scribe, turn, now)

    def _known(self) -> KnownTurn:
        """A turn that has killed its workers runs no handler: which of its events did it, nobody knows."""
        poison = self.poison
        return KnownTurn(lambda _: poison, holds_in_chains=self._holds_in_chains, rows=self._rows)

    def _commit(self, scribe: Scribe, turn: CellTurn) -> None:
        """Ask for the effects, and note what became of the cells."""
        intents = []
        for call in turn.calls:
            promise = self._invoke(scribe, call)
            effect = call.effect
            intents.append(IntentNote(call.key, effect.name, effect.sequence))
            self._intents.add(promise, intents[-1])
            record = turn.record(call.key)
            if record is not None and call.awaited:
                opened = CellIntent(promise.path[-1], effect.name, effect.sequence, effect.issuer)
                turn.changed[call.key] = msgspec.structs.replace(record, intents=(*record.intents, opened))
        cells = [encode_changed(key, record) for key, record in turn.changed.items()]
        note = TurnNote(
            tuple(CellNote(each.key, each.record_hash) for each in cells),
            tuple(intents),
            emitted_hash(turn.emitted),
            tuple(turn.failures),
            tuple(record.key for record in self._due or ()) if self._rang else (),
            tuple(turn.sent),
            tuple(turn.annotations),
            tuple(self._succession.moved),
            self._succession.more,
            self._changed_code(),
            turn.rules,
            tuple((key, len(rows)) for key, rows in sorted(self._rows.items())),
        )
        changes = tuple(each.change for each in cells)
        opens = self._succession.opens
        held = turn.held.changes()
        freight = Freight(self.machine.name, changes, tuple(turn.emitted), tuple(turn.dead), opens, held)
        scribe.note(CELLS, self.machine.name, note.write(), freight)
        self._cells.update(turn.changed)

    def _changed_code(self) -> bytes | None:
        """What this turn runs by; None where the turn before ran by the same."""
        before, self._code = self._code, code_hash(self.machine.hash, self._board.manifest)
        return None if self._code == before else self._code

    def _invoke(self, scribe: Scribe, call: CellCall) -> PromiseId:
        effect = call.effect.effect
        if isinstance(effect, Step):
            return scribe.invoke(effect.kind, effect.name, call.payload, effect.retry, effect.queue)
        return scribe.invoke(effect.kind, effect.name, call.payload, ONCE)

    def _wind(self, scribe: Scribe, turn: CellTurn, now: int) -> None:
        """Set the alarm to the earliest timer of all cells. One that comes too early finds nothing, and is set anew."""
        wakes = [record.next_wake for record in turn.changed.values() if record is not None]
        others = self._next_wake if self._rang and self._due is not None else self._alarm_at
        earliest = min((each for each in (others, *wakes) if each is not None), default=None)
        if earliest is None:
            self._alarm_at = None
        elif self._alarm is None or self._alarm_at is None or earliest < self._alarm_at:
            self._set_alarm(scribe, max(0, earliest - now), earliest)

    def _set_alarm(self, scribe: Scribe, duration: int, at: int) -> None:
        if self._alarm is not None:
            scribe.abandon(self._alarm)
        self._alarm, self._alarm_at = scribe.timer(duration), at

    # -- a replay ------------------------------------------------------------------------------------------------------

    def _repeat(self, scribe: Scribe) -> None:
        """Issue the commands that the journal has for this turn."""
        self._receive_all(scribe)  # which frames were heard decides which later ones are old
        self._succession.end_turn()
        self._arrived.clear()
        if self._rang:
            self._rang, self._alarm_at = False, None
        opened: list[PromiseId] = []
        while not isinstance(event := scribe.upcoming(), e.ExecutionAwaiting):
            match event:
                case e.TimeRecorded():
                    scribe.now()
                case e.RandomGenerated(value=value):
                    scribe.random(len(value))
                case e.InvokeScheduled(kind=kind, input=input) if kind == CELLS:
                    scribe.note(CELLS, self.machine.name, input, None)
                    note = read_note(input)
                    self._code = note.code or self._code
                    self._holds_in_chains |= note.rules >= CHAINED
                    for promise, each in zip(opened, note.intents, strict=True):
                        self._intents.add(promise, each)
                case e.InvokeScheduled(kind=kind, function_name=name, input=input, retry_policy=policy):
                    opened.append(scribe.invoke(kind, name, input, policy, self._queue(name)))
                case e.TimerScheduled(duration=duration, fire_at=fire_at):
                    self._set_alarm(scribe, duration, fire_at)
                case None:
                    raise EngineError("the journal of a lane ends in the middle of a turn: restore it from a backup.")
                case _:
                    return  # the kernel compares, and says what does not fit

    def _queue(self, name: str) -> str | None:
        effect = self.machine.effects.get(name) or STEPS.get(name)  # it may be other code's: its work is in a queue
        return effect.queue if isinstance(effect, Step) else None
