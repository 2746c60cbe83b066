"""What a lane does when it is split, and as the heir of one that was.

A lane that was split hears no more events: its heirs get them (see ``store.splits``). It handles what it has, then
hands its cells over, some in each turn, and tells its heirs when that was all. After that it only forwards what comes
of the effects that its cells had asked for. A heir takes its cells in first, and then, some in each turn, what has come
for it meanwhile::

    phase        it hears
    inherits     what it inherits; until ``Handed``
    catches_up   its events; until it has none
    open         its events, as any lane does
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from msgspec.structs import replace

from holdfast.cells.cell import CellRecord, HeldChain, encode_cell, intents_in_order, next_link
from holdfast.errors import EngineError
from holdfast.journal import events as e
from holdfast.journal.promise import PromiseId
from holdfast.programs.machine.lanes.cell_turn import CellTurn
from holdfast.programs.machine.lanes.envelopes import (
    Continuation,
    ForwardedReceipt,
    GoOn,
    Handed,
    HandOver,
    HeldPart,
    Order,
    SplitOrder,
    is_order,
    read_envelope,
)
from holdfast.programs.machine.lanes.held_events import Occurrence, ProgressArrived, ReceiptArrived, write_held
from holdfast.runs.lanes import LANE_EVENT, LANE_GO_ON, LANE_HEIR, LaneMessage, lane_id, place_of, read_start

AT_ONCE: Final = 500
"""So many cells are handed over in one turn, and so many events does a heir handle that catches up."""
BYTES_AT_ONCE: Final = 1 << 20

Phase = Literal["inherits", "catches_up", "open"]


class Succession:
    """The part of a lane that has to do with splits. ``machine`` is the name of its machine."""

    def __init__(self, machine: str) -> None:
        self._machine = machine
        self._index = 0
        self._phase: Phase = "open"
        self.order: SplitOrder | None = None
        self._heard = 0  # in this turn
        self._orders: list[Order] = []  # of this turn
        self._goes_on = False
        self.opens = False
        self.batch: Sequence[CellRecord] | None = None  # what the worker brought for this turn
        self.more = False
        self.moved: list[bytes] = []

    def begin(self, started: e.ExecutionStarted, kept: Sequence[Any] | None = None) -> None:
        """Begin as the lane's start says, or go on as a checkpoint has it."""
        self._index, is_heir = read_start(started.input)
        self._phase = "inherits" if is_heir else "open"
        if kept is not None:
            self._phase, order = kept
            self.order = None if order is None else SplitOrder(*order)

    def kept(self) -> list[Any] | None:
        """What a checkpoint keeps; None for a lane that has nothing to do with splits any more."""
        order = self.order
        if self._phase == "open" and order is None:
            return None
        return [self._phase, None if order is None else [order.first, order.lanes, order.heirs, order.end]]

    @property
    def is_open(self) -> bool:
        """Whether the lane hears its events, as any lane does."""
        return self._phase == "open"

    # -- what is heard -------------------------------------------------------------------------------------------------

    @property
    def signal(self) -> str | None:
        """The signal that the lane receives next; None where it has received enough for a turn."""
        if self._phase != "open" and self._heard >= AT_ONCE:
            return None
        return LANE_HEIR if self._phase == "inherits" else LANE_EVENT

    def go_on(self) -> str:
        """There is more than this turn takes: the signal with which it goes on."""
        self._goes_on = True
        return LANE_GO_ON

    def notice(self, data: bytes) -> bool:
        """Count what was received; True where it is an order, which is taken."""
        self._heard += 1
        if not is_order(data):
            return False
        match read_envelope(data):
            case SplitOrder() as order:
                self.order = order
                self._orders.append(order)
            case Handed():
                self._phase = "catches_up"
            case _:
                pass
        return True

    def emptied(self) -> None:
        """Nothing is left of what the lane receives: one that catches up has caught up."""
        if self._phase == "catches_up":
            self._phase, self.opens = "open", True

    def wanted(self, heard: Sequence[tuple[str, bytes]]) -> tuple[list[bytes], bool]:
        """What of this the next turn receives; and whether it hands cells over that are not here."""
        if self._phase == "open":
            taken = [data for _, data in heard]
        else:
            inherited = [data for name, data in heard if name == LANE_HEIR]
            is_handed = self._phase == "catches_up" or any(map(is_order, inherited))
            others = [data for name, data in heard if name == LANE_EVENT] if is_handed else []
            taken = [*inherited, *others][:AT_ONCE]
        orders = [read_envelope(data) for data in taken if is_order(data)]
        is_moving = any(isinstance(each, SplitOrder) and each.round for each in orders)
        return [data for data in taken if not is_order(data)], is_moving and self.batch is None

    # -- a turn --------------------------------------------------------------------------------------------------------

    @property
    def acts(self) -> bool:
        """Whether the lane itself has something to do in this turn."""
        return bool(self._orders) or self.opens or self._goes_on

    @property
    def hands_over(self) -> bool:
        """Whether cells are handed over in this turn."""
        return any(isinstance(each, SplitOrder) and each.round for each in self._orders)

    def forwarded(
        self, arrived: Sequence[tuple[bytes, Occurrence]], cells: Any
    ) -> tuple[list[tuple[bytes, Occurrence]], list[LaneMessage]]:
        """What this lane handles itself, and what it forwards: receipts and reports for cells that it no longer has. A
        report stands in front of the receipt of its effect, although a lane gets receipts first."""
        if self.order is None:
            return list(arrived), []
        own: list[tuple[bytes, Occurrence]] = []
        reports: list[LaneMessage] = []
        receipts: list[LaneMessage] = []
        for key, each in arrived:
            if isinstance(each, ReceiptArrived | ProgressArrived) and cells.get(key) is None:
                forwarded = ForwardedReceipt(key, write_held(each)).write()
                letter = LaneMessage(self._machine, self._index, forwarded, place=place_of(key))
                (receipts if isinstance(each, ReceiptArrived) else reports).append(letter)
            else:
                own.append((key, each))
        return own, [*reports, *receipts]

    def act(self, turn: CellTurn, run: PromiseId) -> None:
        """Do as the orders say, when the turn's events are handled. Cells that catch up go on in another turn, in the
        lane that has them then."""
        for key in turn.unfinished:
            again = Continuation(key).write()
            turn.emitted.append(LaneMessage(self._machine, self._index, again, place=place_of(key)))
        for order in self._orders:
            if isinstance(order, SplitOrder):
                if order.round:
                    self._hand_over(turn, run, order)
                else:
                    turn.emitted.append(self._own(replace(order, round=1)))
        if self._goes_on:
            turn.emitted.append(LaneMessage(self._machine, self._index, GoOn().write(), signal=LANE_GO_ON))

    def end_turn(self) -> None:
        """What was heard and brought for a turn is over with it."""
        self._heard = 0
        if self._orders:  # else the order for which cells were brought may follow in the same turn, behind receipts
            self.batch, self.more = None, False
        self._orders = []
        self._goes_on = self.opens = False
        self.moved = []

    def _own(self, order: SplitOrder) -> LaneMessage:
        return LaneMessage(self._machine, self._index, order.write())

    def _hand_over(self, turn: CellTurn, run: PromiseId, order: SplitOrder) -> None:
        if self.batch is None:
            raise EngineError("the cells that are to be handed over were not brought to their turn")
        asking = {call.key for call in turn.calls}  # their intents are not in their records before the turn's end
        source, size, begun = lane_id(self._machine, self._index), 0, order.begun
        for each in self.batch:
            record = turn.record(each.key)
            if record is None:
                continue
            if each.key in asking or size >= BYTES_AT_ONCE:
                self.more = True
                continue
            heir = order.heir_of(place_of(each.key))
            if record.chain is not None:
                if not _is_next(turn, record.key, record.chain, begun):
                    self.more = True
                    continue
                begun = begun or (each.key, record.chain.first, record.chain.base)
                size += self._hand_over_held(turn, record, record.chain, heir)
                record = turn.record(each.key)
                assert record is not None
                assert record.chain is not None
                if record.chain.first < record.chain.end:
                    self.more = True
                    continue
                record = replace(record, chain=replace(record.chain, first=begun[1], base=begun[2]))
                begun = None
            data = encode_cell(with_origin(record, run.root))
            size += len(data)
            turn.emitted.append(_inherited(self._machine, heir, HandOver(each.key, data, source)))
            turn.changed[each.key] = None
            self.moved.append(each.key)
        if self.more:
            turn.emitted.append(self._own(replace(order, round=order.round + 1, begun=begun)))
        else:
            turn.emitted.extend(_inherited(self._machine, heir, Handed()) for heir in range(order.heirs, order.end))

    def _hand_over_held(self, turn: CellTurn, record: CellRecord, chain: HeldChain, heir: int) -> int:
        """Hand over as much of what is held for a cell as is here; gives how many bytes that was. The cell keeps the
        rest, and follows when there is none."""
        events: list[bytes] = []
        base = chain.base
        for number in range(chain.first, chain.end):
            event = turn.held.get(record.key, number)
            if event is None:
                break
            events.append(event)
            base = next_link(base, event)
            turn.held.drop(record.key, number)
        if events:
            part = HeldPart(record.key, chain.first, events)
            turn.emitted.append(_inherited(self._machine, heir, part))
            left = replace(chain, first=chain.first + len(events), base=base)
            turn.changed[record.key] = replace(record, chain=left)
        return sum(map(len, events))


def _is_next(turn: CellTurn, key: bytes, chain: HeldChain, begun: tuple[bytes, int, bytes] | None) -> bool:
    """Whether a cell with a chain is handed over now: one after the other, and where some of the chain is here."""
    if begun is not None and begun[0] != key:
        return False
    return chain.first == chain.end or turn.held.get(key, chain.first) is not None


def _inherited(machine: str, lane: int, what: HandOver | HeldPart | Handed) -> LaneMessage:
    return LaneMessage(machine, lane, what.write(), signal=LANE_HEIR)


def with_origin(record: CellRecord, root: bytes) -> CellRecord:
    """The record with what it is to wait for of this lane as that of another one."""
    if not record.intents:
        return record
    intents = [replace(each, origin=each.origin or root) for each in record.intents]
    return replace(record, intents=tuple(intents_in_order(intents)))
