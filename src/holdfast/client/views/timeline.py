"""A run's timeline: a journal folded into one item per step, child, timer and signal, in the order they began.

Pure: entries in, items out. Events that only replay needs (random values, recorded times, awaits, join sets) are left
out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from holdfast.client.views.states import STEP_STATES
from holdfast.client.views.times import clock, iso, length, moment, span
from holdfast.journal import events as e
from holdfast.journal.payload import Err, Failure, Payload
from holdfast.journal.promise import PromiseId
from holdfast.journal.render import arguments, carried, cut, outcome, payload, revision
from holdfast.journal.secrecy import visible
from holdfast.kernel.commands import PATCH
from holdfast.runs.kinds.table import is_gated, readable_kind


class Mark(NamedTuple):
    """A task or a receipt of an action."""

    kind: str
    id: str
    state: str


class Item(msgspec.Struct):
    """One thing that happened, or is under way."""

    kind: str  # started, step, action, workflow, detached, signal, timer, delivery, patch, cancel, ended
    name: str
    at: datetime
    state: str = "note"
    detail: str = ""
    until: datetime | None = None
    attempts: int = 0
    position: int | None = None
    troubles: list[tuple[int, str]] = []
    repeats: list[tuple[int, datetime]] = []  # attempts begun again after a worker was lost, and when
    marks: list[Mark] = []
    label: str = ""  # its name in a table, where that is more than ``name``

    @property
    def duration(self) -> timedelta | None:
        return None if self.until is None else max(timedelta(), self.until - self.at)


def fold(entries: Iterable[e.Entry], marks: Mapping[int, list[Mark]] | None = None) -> list[Item]:
    """The items of a journal; ``marks`` are the tasks and receipts of its actions, by position."""
    folded = Fold()
    for entry in entries:
        folded.take(entry)
    for item in folded.items:
        if item.position is not None and is_gated(item.kind):
            item.marks = (marks or {}).get(item.position, [])
    return folded.items


class Fold:
    """Takes the entries of a journal one by one. ``items`` are what they tell so far."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.open: dict[PromiseId, Item] = {}
        self.delivered: dict[tuple[str, int], Item] = {}

    def take(self, entry: e.Entry) -> None:
        at = moment(entry.timestamp)
        event = visible(entry.event)
        match event:
            case e.ExecutionStarted(input=input, signals=signals):
                self._add(Item("started", "started", at, detail=f"({arguments(input)}){carried(signals)}"))
            case e.InvokeScheduled(promise_id=promise, kind=kind, function_name=name):
                line = readable_kind(kind).show(event)
                item = Item(kind, name, at, "open", line.detail, position=promise.path[-1], label=line.label)
                self.open[promise] = self._add(item)
            case e.InvokeStarted(promise_id=promise, attempt=attempt, begun_before=before):
                self._attempt(promise, attempt, at if before else None)
            case e.InvokeRetrying(promise_id=promise, error=error, failed_attempt=attempt, retry_at=retry_at):
                self._retry(promise, attempt, error, retry_at)
            case e.InvokeCompleted(promise_id=promise, result=result, attempt=attempt):
                self._complete(promise, result, attempt, at)
            case e.TimerScheduled(promise_id=promise, duration=duration, fire_at=fire_at):
                item = Item("timer", f"timer of {span(length(duration))}", at, "open")
                item.detail = f"fires at {clock(moment(fire_at))}"
                item.position = promise.path[-1]
                self.open[promise] = self._add(item)
            case e.TimerFired(promise_id=promise) if promise in self.open:
                timer = self.open.pop(promise)
                timer.state, timer.until, timer.detail = "done", at, "fired"
            case e.RandomGenerated(value=value) if value.startswith(PATCH):
                name = value.removeprefix(PATCH).decode(errors="replace")
                self._add(Item("patch", f"patched({name!r})", at, detail="took the new path of this code change"))
            case e.SignalDelivered() | e.SignalReceived():
                self._signal(event, at)
            case e.CancelRequested(reason=reason):
                self._add(Item("cancel", "cancel requested", at, detail=reason))
            case e.ExecutionCompleted() | e.ExecutionFailed() | e.ExecutionCancelled():
                self._end(event, at)
            case _:
                return

    def _add(self, item: Item) -> Item:
        self.items.append(item)
        return item

    def _attempt(self, promise: PromiseId, attempt: int, again_at: datetime | None) -> None:
        if (item := self.open.get(promise)) is not None:
            item.attempts, item.state = attempt, "open"
            if again_at is not None:
                item.repeats = [*item.repeats, (attempt, again_at)]

    def _retry(self, promise: PromiseId, attempt: int, error: Failure, retry_at: int) -> None:
        if promise in self.open:
            item = self.open[promise]
            item.state = "retrying"
            item.troubles = [*item.troubles, (attempt, f"{cut(str(error))}; next not before {clock(moment(retry_at))}")]

    def _complete(self, promise: PromiseId, result: Any, attempt: int, at: datetime) -> None:
        if promise in self.open:
            item = self.open.pop(promise)
            item.state = "failed" if isinstance(result, Err) else "done"
            item.attempts, item.until = attempt, at
            item.detail = f"{item.detail} {outcome(result)}"

    def _signal(self, event: e.SignalDelivered | e.SignalReceived, at: datetime) -> None:
        key, is_revision = (event.signal_name, event.delivery_id), event.signal_name == e.REVISION
        name = revision(event.payload) if is_revision else f"signal {event.signal_name!r}"
        value = "of the definition" if is_revision else payload(event.payload)
        if isinstance(event, e.SignalDelivered):
            kind = "revision" if is_revision else "delivery"
            self.delivered[key] = self._add(Item(kind, name, at, "open", f"{value}, not received yet"))
            return
        item = self.delivered.pop(key, None) or self._add(Item("delivery", name, at))  # it came to a generation before
        item.state, item.until, item.detail = "done", at, value

    def _end(self, event: e.Event, at: datetime) -> None:
        for item in self.open.values():
            item.state = "dropped"
            item.detail = f"{item.detail} (given up)" if item.kind != "timer" else "not needed any more"
        self.open.clear()
        match event:
            case e.ExecutionCompleted(result=Payload() as result):
                self._add(Item("ended", "completed", at, "done", f"→ {payload(result)}"))
            case e.ExecutionFailed(error=error):
                self._add(Item("ended", "failed", at, "failed", str(error)))
            case e.ExecutionCancelled(reason=reason):
                self._add(Item("ended", "cancelled", at, "note", reason))


def item_record(item: Item) -> dict[str, Any]:
    """An item as ``--json`` writes it."""
    return {
        "kind": item.kind,
        "name": item.name,
        "state": item.state,
        "step_state": STEP_STATES.get(item.state),
        "at": iso(item.at),
        "until": iso(item.until),
        "duration_seconds": None if item.duration is None else item.duration.total_seconds(),
        "attempts": item.attempts,
        "position": item.position,
        "detail": item.detail,
        "failed_attempts": [{"attempt": number, "error": why} for number, why in item.troubles],
        "begun_again": [{"attempt": number, "at": iso(at)} for number, at in item.repeats],
        "gate": [{"kind": mark.kind, "id": mark.id, "state": mark.state} for mark in item.marks],
    }
