"""The timeline of one cell, read off the journal of its lane: what it heard, asked for, got and emitted, in order."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from holdfast.cells.cell import CellRecord, decode_cell
from holdfast.client.views.cells import TraceItem
from holdfast.client.views.mask import JournalMask
from holdfast.client.views.times import moment
from holdfast.client.views.values import call_value, payload_value
from holdfast.journal import events as e
from holdfast.journal.payload import Ok, Outcome, Payload
from holdfast.journal.promise import PromiseId
from holdfast.programs.machine.lanes.envelopes import (
    Addressed,
    Adoption,
    Continuation,
    ForwardedReceipt,
    HandOver,
    HeldPart,
    Release,
    read_envelope,
)
from holdfast.programs.machine.lanes.held_events import ProgressArrived, ReceiptArrived, read_held
from holdfast.programs.machine.lanes.notes import read_note
from holdfast.runs.kinds.cells import CELLS
from holdfast.runs.lanes import LANE_EVENT, LANE_HEIR, ProgressFrame


class TraceReader:
    """Reads the entries of a lane's journal, in order, and gives what concerns one cell.

    It may begin in the middle: ``record`` is the cell as it stands, whose open effects are known from the start.
    """

    def __init__(self, key: bytes, root: bytes, record: CellRecord | None, mask: JournalMask) -> None:
        self._key = key
        self._mask = mask
        self._run = PromiseId(root)
        open_ = () if record is None else record.intents
        self._effects: dict[PromiseId, str] = {
            (self._run if each.origin is None else PromiseId(each.origin)).child(each.position): each.effect
            for each in open_
        }
        self._ended: dict[PromiseId, str] = {}  # in the present turn, which may hear a last report after the receipt
        self.has_moved = False
        self._opened: list[tuple[e.Entry, e.InvokeScheduled]] = []  # of the present turn, until its note

    def read(self, entry: e.Entry) -> Iterator[TraceItem]:
        """What an entry says of the cell."""
        match entry.event:
            case e.SignalReceived(signal_name=name, payload=payload) if name in (LANE_EVENT, LANE_HEIR):
                yield from self._heard(entry, payload)
            case e.InvokeScheduled(kind=kind, input=input) if kind == CELLS:
                yield from self._noted(entry, input)
            case e.InvokeScheduled() as call:
                self._opened.append((entry, call))
            case e.InvokeRetrying(promise_id=promise, error=error, retry_at=at) if promise in self._effects:
                yield self._item(
                    entry, "retry", self._effects[promise], value=moment(at), intent=promise, reason=str(error)
                )
            case e.InvokeCompleted(promise_id=promise, result=result) if promise in self._effects:
                yield self._receipt(entry, promise, result)

    def _heard(self, entry: e.Entry, payload: Payload) -> Iterator[TraceItem]:
        envelope = read_envelope(payload.data)
        if isinstance(envelope, ProgressFrame):
            yield from self._reported(entry, self._run.child(envelope.position), envelope.details)
            return
        if not isinstance(envelope, Addressed) or envelope.key != self._key:
            return
        if isinstance(envelope, HandOver):
            for each in decode_cell(envelope.record).intents:
                if each.origin is not None:
                    self._effects[PromiseId(each.origin).child(each.position)] = each.effect
            yield self._item(entry, "moved", "moved", value=envelope.source)
            return
        if isinstance(envelope, ForwardedReceipt):
            yield from self._forwarded(entry, envelope)
            return
        if isinstance(envelope, Continuation | HeldPart):
            return  # the cell itself comes behind what is held for it
        if isinstance(envelope, Release):
            yield self._item(entry, "released", "drop" if envelope.drop else "release")
            return
        if isinstance(envelope, Adoption):
            yield self._item(entry, "adopted", "adopted", value=envelope.source)
            return
        value = payload_value(self._mask.payload(Payload(envelope.value)))
        yield self._item(entry, "event", envelope.schema, value=value, id=envelope.id, actor=envelope.actor)

    def _reported(self, entry: e.Entry, promise: PromiseId, details: bytes) -> Iterator[TraceItem]:
        effect = self._effects.get(promise) or self._ended.get(promise)
        if effect is not None:
            value = payload_value(self._mask.payload(Payload(details)))
            yield self._item(entry, "progress", effect, value=value, intent=promise)

    def _forwarded(self, entry: e.Entry, envelope: ForwardedReceipt) -> Iterator[TraceItem]:
        forwarded = read_held(envelope.receipt)
        if isinstance(forwarded, ProgressArrived):
            yield from self._reported(entry, forwarded.promise, forwarded.details)
        elif isinstance(forwarded, ReceiptArrived) and forwarded.promise in self._effects:
            outcome = forwarded.outcome
            if isinstance(outcome, Ok):
                outcome = Ok(self._mask.payload(outcome.value))
            yield self._receipt(entry, forwarded.promise, outcome)

    def _noted(self, entry: e.Entry, input: Payload) -> Iterator[TraceItem]:
        """The note of a turn: whose the calls in front of it are, and what became of the cell."""
        note, own = read_note(input), self._key
        self._ended.clear()
        if own in note.due:
            yield self._item(entry, "timer", "timer")
        opened, self._opened = self._opened, []
        count = min(len(opened), len(note.intents))
        for (at, call), intent in zip(
            opened[len(opened) - count :], note.intents[len(note.intents) - count :], strict=True
        ):
            if intent.key == own:
                self._effects[call.promise_id] = intent.effect
                yield self._item(at, "effect", intent.effect, value=call_value(call.input), intent=call.promise_id)
        for key, schema in note.sent:
            if key == own:
                yield self._item(entry, "emitted", schema)
        for key, data in note.annotations:
            if key == own:
                value = payload_value(self._mask.payload(Payload(data)))
                yield self._item(entry, "annotation", "annotation", value=value)
        for _, reason, key in note.failures:
            if key == own:
                yield self._item(entry, "parked", "parked", reason=self._mask.text(reason))
        for cell in note.cells:
            if cell.key == own and own in note.moved:
                self.has_moved = True
                self._effects.clear()  # what comes of them is in the journal of its heir
            elif cell.key == own and cell.record_hash is None:
                yield self._item(entry, "deleted", "deleted")
            elif cell.key == own and cell.record_hash is not None:
                yield self._item(entry, "changed", "changed", value=cell.record_hash.hex())

    def _receipt(self, entry: e.Entry, promise: PromiseId, result: Outcome) -> TraceItem:
        effect = self._ended[promise] = self._effects.pop(promise)
        if isinstance(result, Ok):
            return self._item(entry, "receipt", effect, value=payload_value(result.value), intent=promise, status="ok")
        return self._item(entry, "receipt", effect, intent=promise, status="error", reason=str(result.failure))

    def _item(
        self,
        entry: e.Entry,
        kind: str,
        name: str,
        *,
        value: Any = None,
        intent: PromiseId | None = None,
        status: str = "",
        reason: str = "",
        id: str | None = None,
        actor: str | None = None,
    ) -> TraceItem:
        time: datetime = moment(entry.timestamp)
        return TraceItem(
            position=entry.sequence,
            time=time,
            kind=kind,
            name=name,
            value=value,
            intent=None if intent is None else str(intent),
            status=status,
            reason=reason,
            id=id,
            actor=actor,
        )
