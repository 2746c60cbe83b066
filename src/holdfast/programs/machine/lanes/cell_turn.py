"""One turn of a lane in memory: events for cells in, changed cells and what they ask for out.

Ready cells take turns, one event each, in the order in which they became ready; the events of one cell are handled in
the order in which they came. A handler that fails parks its cell: the event, and what comes after it, is held for it
until a person lets it go on. The lane is never stopped by it.

A released cell catches up: it handles what is held for it, as much as was brought to the turn, and then asks its lane
for another turn. What comes for it meanwhile is held behind that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.cells.cell import (
    TERMINAL,
    CellIntent,
    CellRecord,
    CellTimer,
    HeldChain,
    decode_cell,
    timers_in_order,
    without_timer,
)
from holdfast.errors import HoldfastError, InvalidFunction
from holdfast.journal.cbor import canonical
from holdfast.journal.payload import Err, Ok, Payload
from holdfast.journal.promise import PromiseId
from holdfast.journal.receipt_signatures import signature_of, unsigned
from holdfast.programs.function.decorators import Step
from holdfast.programs.function.values import decode
from holdfast.programs.machine.executors import is_rejected
from holdfast.programs.machine.handle import TurnContext
from holdfast.programs.machine.lanes.code_fit import undeclared
from holdfast.programs.machine.lanes.envelopes import (
    HOPS_LIMIT,
    Adoption,
    Continuation,
    Envelope,
    HandOver,
    HeldPart,
    Release,
)
from holdfast.programs.machine.lanes.held_events import (
    Due,
    Happening,
    Occurrence,
    ProgressArrived,
    ReceiptArrived,
    adopted_elsewhere,
    chained,
    event_hash,
    file,
    hold,
    next_held,
    parking_cause,
    read_held,
    received,
    reported,
    write_held,
)
from holdfast.programs.machine.lanes.held_rows import HeldRows, Rows
from holdfast.programs.machine.machine import EffectRequest, Machine, Transition
from holdfast.programs.machine.occurrences import Progress, Rejected, Settled
from holdfast.programs.machine.switchboard import Switchboard
from holdfast.runs.lanes import LaneMessage, place_of
from holdfast.store.protocol import DeadLetter

UNHEARD: Final = "nobody hears it"
CIRCLE: Final = f"{HOPS_LIMIT:,} emits led to it, one to the other"
"""Why an emitted event is a dead letter. All others were meant for the cell that they name."""

HELD_BEFORE: Final = 1000
"""By earlier rules so many events were held for a parked cell, and later ones were dead letters. What was acknowledged
has its place in line now, however much it is; from outside no more is taken in for a while (``sender``)."""


class CellCall(msgspec.Struct, gc=False):
    """An effect to be invoked, with its written arguments, and for which cell. It is not ``awaited`` where that cell is
    deleted, or fails, later in the same turn: another cell of the key must not get its receipt."""

    key: bytes
    effect: EffectRequest
    payload: Payload
    awaited: bool = True


RULES: Final = 1
"""What is acknowledged is held without limit, and a fork has the receipts that are held."""

CHAINED: Final = 2
"""The rules of now: each event that is held for a cell is a row of its own, in the cell's chain."""


class KnownTurn(msgspec.Struct, frozen=True):
    """What is known before a turn: why an event, by its number, parks its cell unhandled; by which rules it goes; and
    the first rows of chains, for those cells that may catch up."""

    failure_of: Callable[[int], str | None] = lambda _: None
    goes_by_earlier_rules: bool = False
    holds_in_chains: bool = False
    rows: Mapping[bytes, Rows] = {}


NOTHING_KNOWN: Final = KnownTurn()


class CellTurn:
    """Handles what has occurred. ``cells`` are the present records by key; None for a cell that does not exist."""

    def __init__(
        self,
        machine: Machine[Any],
        cells: Mapping[bytes, CellRecord | None],
        where: TurnContext,
        board: Switchboard,
        run: PromiseId,
        secrets: set[str | bytes | int | float],
        known: KnownTurn = NOTHING_KNOWN,
    ) -> None:
        self.rules = 0  # by which it goes, where earlier ones would have done something else
        self.changed: dict[bytes, CellRecord | None] = {}
        self.calls: list[CellCall] = []
        self.emitted: list[LaneMessage] = []
        self.secrets = secrets
        self.dead: list[DeadLetter] = []
        self.failures: list[tuple[int, str, bytes]] = []  # events by number within the turn, why they parked, whom
        self.annotations: list[tuple[bytes, bytes]] = []  # by cell, canonical CBOR
        self.sent: list[tuple[bytes, str]] = []  # what cells emitted, by its schema
        self.held = HeldRows(known.rows)
        self.unfinished: dict[bytes, None] = {}  # cells that catch up, and for which more is held than is here
        self._machine = machine
        self._cells = cells
        self._where = where
        self._machine_hash = bytes.fromhex(where.machine_hash)
        self._board = board
        self._cause = str(run)
        self._root = run.root
        self._known = known
        self._handled = 0
        self._caught: HeldChain | None = None  # the chain of which the first event is being handled

    def handle(self, occurrences: list[tuple[bytes, Occurrence]]) -> None:
        """Handle all of them, each cell in turn."""
        mailboxes: dict[bytes, deque[Occurrence]] = {}
        for key, each in occurrences:
            file(mailboxes.setdefault(key, deque()), each)
        ready = deque(mailboxes)
        while ready:
            key = ready.popleft()
            mailbox = mailboxes[key]
            self._one(key, mailbox.popleft(), mailbox)
            if mailbox:
                ready.append(key)

    def record(self, key: bytes) -> CellRecord | None:
        """The cell as it is now."""
        return self.changed[key] if key in self.changed else self._cells.get(key)

    def _one(self, key: bytes, occurrence: Occurrence, mailbox: deque[Occurrence]) -> None:
        record = self.record(key) or CellRecord(key=key, machine_hash=self._machine_hash)
        if isinstance(occurrence, Release):
            self._release(record, occurrence, mailbox)
        elif isinstance(occurrence, Continuation):
            self._catch_up(record, mailbox)
        elif isinstance(occurrence, HeldPart):
            self._take_in(occurrence)
        elif isinstance(occurrence, Adoption):
            self._adopt(key, occurrence)
        elif isinstance(occurrence, HandOver):
            self.changed[key] = decode_cell(occurrence.record)
        elif record.status == "parked" or record.is_catching_up:
            self._hold(record, occurrence)
        elif record.status in TERMINAL:
            self._refuse(record, occurrence)
        else:
            self._advance(record, occurrence)

    # -- a cell that goes on -------------------------------------------------------------------------------------------

    def _advance(self, record: CellRecord, occurrence: Happening) -> None:
        self._handled += 1
        if not self._is_open(record, occurrence):
            return
        if (reason := self._known.failure_of(self._handled)) is not None:
            self._park(record, occurrence, reason)
            return
        try:
            event = self._event(record, occurrence)
            if event is not None:
                self._take(record, occurrence, self._stepped(record, event))
        except UnreadableReceipt as error:
            self._await_nothing(record.key)
            ended = self._without(record, occurrence)
            self._changed(replace(ended, status="failed", reason=str(error), intents=(), timers=()))
        except Exception as error:  # an author's handler may raise anything
            self._park(record, occurrence, f"{type(error).__name__}: {error}")

    def _stepped(self, record: CellRecord, event: Any) -> Transition[Any]:
        machine, mark = self._machine, self._handled.to_bytes(4)
        state = None if record.state is None else machine.read_state(record.state, record.machine_version)
        return machine.step(state, event, key=self._key(record.key), where=self._where, first=record.asked, mark=mark)

    def _key(self, key: bytes) -> Any:
        return self._machine.read_key(key)

    def _event(self, record: CellRecord, occurrence: Happening) -> Any:
        """The occurrence as the handler gets it; None where it hears nothing of it."""
        match occurrence:
            case Envelope(schema=schema, value=value):
                return self._machine.events[schema].decode(value)
            case Due(timer=timer):
                return self._machine.events[timer.schema].decode(timer.value)
            case ReceiptArrived():
                return self._receipt(record, occurrence)
            case ProgressArrived():
                return self._progress(record, occurrence)

    def _progress(self, record: CellRecord, occurrence: ProgressArrived) -> Progress | None:
        intent = self._intent_of(record, occurrence)
        assert intent is not None, "it is open"
        if not self._machine.accepts(Progress):
            return None
        return Progress(
            details=decode(Payload(occurrence.details)),
            effect=intent.effect,
            intent=str(occurrence.promise),
            sequence=intent.sequence,
            attempt=occurrence.attempt,
        )

    def _receipt(self, record: CellRecord, occurrence: ReceiptArrived) -> Settled | Rejected | None:
        intent = self._intent_of(record, occurrence)
        assert intent is not None, "it is open"
        outcome = self._outcome(intent, occurrence)
        if isinstance(outcome, str):
            if self._machine.accepts(Rejected):
                return Rejected(
                    reason=outcome, effect=intent.effect, intent=str(occurrence.promise), sequence=intent.sequence
                )
            raise UnreadableReceipt(f"what came of {intent.effect} cannot be read: {outcome}")
        if not self._machine.accepts(Settled):
            self._changed(self._without(record, occurrence))
            return None
        return Settled(
            outcome=outcome,
            effect=intent.effect,
            intent=str(occurrence.promise),
            sequence=intent.sequence,
            machine=self._machine.name,
            key=self._key(record.key),
            issuer=intent.issuer,
            executor=None if (signature := signature_of(occurrence.outcome)) is None else signature.executor,
        )

    def _outcome(self, intent: CellIntent, occurrence: ReceiptArrived) -> Ok[Any] | Err | str:
        """What came of an effect, as its declared type; why it cannot be read as that."""
        if is_rejected(occurrence.outcome):
            return occurrence.outcome.failure.message if isinstance(occurrence.outcome, Err) else ""
        if isinstance(occurrence.outcome, Err):
            return Err(unsigned(occurrence.outcome.failure))
        effect = self._machine.effects.get(intent.effect)
        if effect is None:
            raise InvalidFunction(undeclared(self._machine.name, intent.effect))
        try:
            return Ok(effect.read_result(occurrence.outcome.value))
        except HoldfastError as error:
            return str(error)

    def _is_open(self, record: CellRecord, occurrence: Happening) -> bool:
        """Whether a receipt, a report or a timer is one of this cell: an earlier cell of its key may have asked for it,
        or an event of the same turn may have deleted the cell."""
        if isinstance(occurrence, ReceiptArrived | ProgressArrived):
            return self._intent_of(record, occurrence) is not None
        return isinstance(occurrence, Envelope) or occurrence.timer in record.timers

    def _intent_of(self, record: CellRecord, occurrence: ReceiptArrived | ProgressArrived) -> CellIntent | None:
        """What the cell waits for, if it waits for this."""
        return next((each for each in record.intents if self._is(each, occurrence.promise)), None)

    def _is(self, intent: CellIntent, promise: PromiseId) -> bool:
        """Whether an intent is this call: of this lane, or of the one that had the cell before."""
        return (intent.origin or self._root, intent.position) == (promise.root, promise.path[-1])

    def _without(self, record: CellRecord, occurrence: Occurrence) -> CellRecord:
        """The cell, with what has occurred no longer open."""
        sequence = record.last_sequence + 1
        if isinstance(occurrence, ReceiptArrived):
            left = tuple(each for each in record.intents if not self._is(each, occurrence.promise))
            return replace(record, intents=left, last_sequence=sequence)
        if isinstance(occurrence, Due):
            return replace(record, timers=without_timer(record, occurrence.timer), last_sequence=sequence)
        return replace(record, last_sequence=sequence)

    def _take(self, record: CellRecord, occurrence: Occurrence, made: Transition[Any]) -> None:
        """Keep what a handler gave. Nothing is kept where a part of it cannot be written."""
        machine, base = self._machine, self._without(record, occurrence)
        state = None if made.state is None else machine.state.encode(made.state)
        emitted: list[LaneMessage] = []
        dead: list[DeadLetter] = []
        for event in made.events:
            self._address(event, occurrence, emitted, dead)
        timers = [
            CellTimer(timer.wake_at, base.last_sequence, schema.name, schema.encode(timer.event))
            for timer in made.timers
            for schema in (machine.by_type[type(timer.event)],)
        ]
        calls = [CellCall(record.key, each, self._written_call(each)) for each in made.effects]
        annotation = None if made.annotation is None else canonical(msgspec.to_builtins(made.annotation))
        size = len(state or b"") + len(annotation or b"") + sum(len(letter.envelope) for letter in emitted)
        size += sum(len(call.payload.data) for call in calls)
        if size > machine.limits.output_bytes:
            raise ValueError(f"it gives {size:,} bytes, and the limit is {machine.limits.output_bytes:,}")
        self.emitted.extend(emitted)
        self.dead.extend(dead)
        self.calls.extend(calls)
        self.sent.extend((record.key, machine.by_type[type(event)].name) for event in made.events)
        if annotation is not None:
            self.annotations.append((record.key, annotation))
        if state is None and made.status == "running":
            self.changed[record.key] = None
            self._await_nothing(record.key)
            return
        self.changed[record.key] = replace(
            base,
            state=record.state if state is None else state,
            status=made.status,
            reason=made.reason or ("it gave no reason" if made.status == "failed" else ""),
            timers=() if made.status in TERMINAL else timers_in_order((*base.timers, *timers)),
            asked=record.asked + len(made.effects),
            machine_version=machine.version,
            machine_hash=self._machine_hash,
            last_active=self._where.now,
        )

    def _written_call(self, call: EffectRequest) -> Payload:
        """The arguments in their one form: however they are given, equal values are equal bytes. Raises where they do
        not fit what the effect declares, and where the manifest in force does not allow it."""
        effect, signature = call.effect, call.effect.signature
        if not self._board.allows(self._machine.name, effect.name):
            raise InvalidFunction(
                f"machine {self._machine.name} asks for {effect.name}, which the manifest in force does not allow it: "
                "apply one that does, then release the cell."
            )
        args, kwargs = signature.in_order(call.args, call.kwargs)
        payload = effect.write_call(args, kwargs, self) if isinstance(effect, Step) else signature.write(args, kwargs)
        signature.accept(payload)
        return payload

    def _address(self, event: Any, occurrence: Occurrence, emitted: list[LaneMessage], dead: list[DeadLetter]) -> None:
        """Address an emitted event to the lanes of whoever hears it; a dead letter where nobody does."""
        schema = self._machine.by_type[type(event)]
        value = schema.encode(event)
        hops = occurrence.hops + 1 if isinstance(occurrence, Envelope) else 1
        targets = self._board.targets(schema.name, value)
        if not targets or hops > HOPS_LIMIT:
            why = CIRCLE if targets else UNHEARD
            dead.append(DeadLetter(self._machine.name, schema.name, value, b"", why, self._where.now))
            return
        for machine, lane, key in targets:
            envelope = Envelope(key, schema.name, value, hops, None, self._cause)
            emitted.append(LaneMessage(machine, lane, envelope.write(), place=place_of(key)))

    def _await_nothing(self, key: bytes) -> None:
        """Nobody waits any more for what this cell has asked for in this turn."""
        for call in self.calls:
            if call.key == key:
                call.awaited = False

    def _changed(self, record: CellRecord) -> None:
        self.changed[record.key] = replace(record, last_active=self._where.now)

    def _adopt(self, key: bytes, adoption: Adoption) -> None:
        """A cell comes from elsewhere. One that exists here already stays as it is. No receipt of what it had asked for
        there will come here: it is parked if it waits for one. Those that are held for it have come."""
        if self.record(key) is not None:
            return
        adopted = decode_cell(adoption.record)
        came = () if self._known.goes_by_earlier_rules else received(adopted)
        self.rules = max(self.rules, RULES if came else 0)
        self.changed[key] = record = adopted_elsewhere(adopted, adoption.source, came)
        if record.is_catching_up:
            self.unfinished[key] = None

    # -- a cell that does not ------------------------------------------------------------------------------------------

    def _park(self, record: CellRecord, occurrence: Happening, reason: str) -> None:
        self.failures.append((self._handled, reason, record.key))
        parked = replace(record, status="parked", reason=reason)
        if isinstance(occurrence, Due):  # held like an event, so that it is what a person drops
            parked = replace(parked, timers=without_timer(record, occurrence.timer))
        if self._caught is None:
            self._changed(self._holding(parked, occurrence))
        else:  # it is held already, first in line
            chain = replace(self._caught, cause=event_hash(write_held(occurrence)))
            self._changed(replace(parked, chain=chain))

    def _hold(self, record: CellRecord, occurrence: Happening) -> None:
        if isinstance(occurrence, Due):
            self._changed(record)  # its timer stays, and comes again when the cell goes on
            return
        if len(record.held) >= HELD_BEFORE and isinstance(occurrence, Envelope):  # receipts are as many as its effects
            if self._known.goes_by_earlier_rules:
                self._refuse(record, occurrence, f"{HELD_BEFORE:,} events are held for its parked cell already")
                return
            self.rules = max(self.rules, RULES)
        self._changed(self._holding(record, occurrence))

    def _holding(self, record: CellRecord, occurrence: Happening) -> CellRecord:
        """The cell, with one more event that is held for it."""
        chain = record.chain
        if chain is None:
            if not self._known.holds_in_chains:
                return replace(record, held=hold(record.held, occurrence))
            chain = HeldChain()
            for event in record.held:
                chain = self._chained(record.key, chain, read_held(event), event)
        self.rules = CHAINED
        if isinstance(occurrence, ProgressArrived) and chain:
            chain = reported(chain, occurrence)
        else:
            chain = self._chained(record.key, chain, occurrence, write_held(occurrence))
        return replace(record, held=(), chain=chain)

    def _chained(self, key: bytes, chain: HeldChain, occurrence: Happening, event: bytes) -> HeldChain:
        self.held.put(key, chain.end, event)
        return chained(chain, occurrence, event)

    def _take_in(self, part: HeldPart) -> None:
        """Keep a part of what is held for a cell that is on its way here."""
        if self.record(part.key) is None:
            for number, event in enumerate(part.events, part.first):
                self.held.put(part.key, number, event)

    def _refuse(self, record: CellRecord, occurrence: Happening, why: str = "") -> None:
        """What comes for a cell that has ended. A receipt settles its intent; a timer is over; progress is dropped."""
        if isinstance(occurrence, Envelope):
            reason = why or f"its cell is {record.status}"
            name, now = self._machine.name, self._where.now
            letter = DeadLetter(name, occurrence.schema, occurrence.value, record.key, reason, now, occurrence.id)
            self.dead.append(letter)
        elif not isinstance(occurrence, ProgressArrived):
            self._changed(self._without(record, occurrence))

    # -- a cell that is released ---------------------------------------------------------------------------------------

    def _release(self, record: CellRecord, release: Release, mailbox: deque[Occurrence]) -> None:
        if record.status != "parked" or release.cause not in (None, parking_cause(record)):
            return
        released = replace(record, status="running", reason="")
        if record.chain is None:
            self._release_held(released, mailbox, drop=release.drop)
            return
        if release.drop:
            caught = self._next(released)
            if caught is None:
                return  # no part of it was brought: it is not what this release was sent for
            occurrence, released, number = caught
            released = self._without(released, occurrence)  # a receipt settles its intent, heard or not
            self._let_go(record.key, number)
        self._changed(released)
        self._neaten(released.key)
        mailbox.appendleft(Continuation(record.key))

    def _release_held(self, record: CellRecord, mailbox: deque[Occurrence], *, drop: bool = False) -> None:
        """Release a cell whose record has all that is held for it."""
        held = [read_held(each) for each in record.held]
        timers = timers_in_order((*record.timers, *(each.timer for each in held if isinstance(each, Due))))
        released = replace(record, timers=timers, held=())
        if drop and held:
            released = self._without(released, held.pop(0))
        mailbox.extendleft(reversed(held))
        self._changed(released)
        self._neaten(released.key)

    def _catch_up(self, record: CellRecord, mailbox: deque[Occurrence]) -> None:
        """Handle the first event that is held for a released cell, and then the next, if it is here."""
        if not record.is_catching_up:
            return
        if record.chain is None:
            self._release_held(record, mailbox)
            return
        caught = self._next(record)
        if caught is None:
            self.unfinished[record.key] = None
            return
        occurrence, released, number = caught
        self._changed(released)
        self._caught = record.chain
        if released.status in TERMINAL:
            self._refuse(released, occurrence)
        else:
            self._advance(released, occurrence)
        self._caught = None
        left = self.record(record.key)
        if left is not None and left.status == "parked":
            return
        self._let_go(record.key, number)
        if left is None and released.chain is not None:  # it was deleted: another one goes on
            self._changed(self._new(record.key, released.chain))
        self._neaten(record.key)
        mailbox.appendleft(Continuation(record.key))

    def _next(self, record: CellRecord) -> tuple[Happening, CellRecord, int | None] | None:
        """The first event that is held for a cell, the cell for which it is held no more, and the number of its row,
        where it has one; None where the row was not brought."""
        chain = record.chain
        assert chain is not None
        found = next_held(chain, self.held.get(record.key, chain.first))
        if found is None:
            return None
        event, rest, is_row = found
        occurrence, timers = read_held(event), record.timers
        if isinstance(occurrence, Due):
            timers = timers_in_order((*timers, occurrence.timer))
        return occurrence, replace(record, chain=rest, timers=timers), chain.first if is_row else None

    def _let_go(self, key: bytes, number: int | None) -> None:
        if number is not None:
            self.held.drop(key, number)

    def _new(self, key: bytes, chain: HeldChain) -> CellRecord:
        return CellRecord(key=key, machine_hash=self._machine_hash, last_active=self._where.now, chain=chain)

    def _neaten(self, key: bytes) -> None:
        """A cell that was parked by its first event, and is not parked any more, is none yet."""
        record = self.record(key)
        if record is not None and record.state is None and record.status == "running":
            self.changed[key] = None if record.chain is None else self._new(key, record.chain)


class UnreadableReceipt(Exception):
    """What came of an effect is not of its declared type, and the machine accepts no ``Rejected``."""
