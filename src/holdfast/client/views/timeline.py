"""A journal folded into what a person wants to read: one item per step, child, timer and signal, in order of beginning.

Pure: entries in, items out. What only replay needs (random values, recorded times, awaits, join sets) is left out; the
journal itself shows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from holdfast.client.views.times import clock, iso, span
from holdfast.journal import events as e
from holdfast.journal.payload import Err, Failure, Payload
from holdfast.journal.promise import PromiseId
from holdfast.journal.render import arguments, cut, outcome, payload
from holdfast.journal.secrecy import visible
from holdfast.kernel.commands import PATCH
from holdfast.runs.kinds.table import is_gated, readable_kind


class Mark(NamedTuple):
    """What the gate has on an action: a task or a receipt."""

    kind: str
    id: str
    state: str


class Item(msgspec.Struct):
    """One thing that happened, or is under way."""

    kind: str  # started, step, action, workflow, detached, signal, timer, delivery, patch, cancel, ended
    name: str
    at: int
    state: str = "note"
    detail: str = ""
    until: int | None = None
    attempts: int = 0
    position: int | None = None
    troubles: list[tuple[int, str]] = []
    repeats: list[tuple[int, int]] = []  # attempts that whoever took the run over began again, and when
    marks: list[Mark] = []
    label: str = ""  # what it is called in a list, where that is not its name alone

    @property
    def duration(self) -> int | None:
        return None if self.until is None else max(0, self.until - self.at)


def fold(entries: Iterable[e.Entry], marks: Mapping[int, list[Mark]] | None = None) -> list[Item]:
    """The items of a journal; ``marks`` are what the gate has on the actions, by position."""
    folding = _Folding()
    for entry in entries:
        folding.take(entry)
    for item in folding.items:
        if item.position is not None and is_gated(item.kind):
            item.marks = (marks or {}).get(item.position, [])
    return folding.items


class _Folding:
    def __init__(self) -> None:
        self.items: list[Item] = []
        self._open: dict[PromiseId, Item] = {}
        self._delivered: dict[tuple[str, int], Item] = {}

    def take(self, entry: e.Entry) -> None:
        at = entry.timestamp
        event = visible(entry.event)
        match event:
            case e.ExecutionStarted(input=input):
                self._add(Item("started", "started", at, detail=f"({arguments(input)})"))
            case e.InvokeScheduled(promise_id=promise, kind=kind, function_name=name):
                shown = readable_kind(kind).show(event)
                item = Item(kind, name, at, "open", shown.detail, position=promise.path[-1], label=shown.label)
                self._open[promise] = self._add(item)
            case e.InvokeStarted(promise_id=promise, attempt=attempt, begun_before=before):
                self._attempt(promise, attempt, at if before else None)
            case e.InvokeRetrying(promise_id=promise, error=error, failed_attempt=attempt, retry_at=retry_at):
                self._retry(promise, attempt, error, retry_at)
            case e.InvokeCompleted(promise_id=promise, result=result, attempt=attempt):
                self._complete(promise, result, attempt, at)
            case e.TimerScheduled(promise_id=promise, duration=duration, fire_at=fire_at):
                item = Item("timer", f"timer of {span(duration)}", at, "open", f"fires at {clock(fire_at)}")
                item.position = promise.path[-1]
                self._open[promise] = self._add(item)
            case e.TimerFired(promise_id=promise) if promise in self._open:
                timer = self._open.pop(promise)
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

    def _attempt(self, promise: PromiseId, attempt: int, again_at: int | None) -> None:
        if (item := self._open.get(promise)) is not None:
            item.attempts, item.state = attempt, "open"
            if again_at is not None:
                item.repeats = [*item.repeats, (attempt, again_at)]

    def _retry(self, promise: PromiseId, attempt: int, error: Failure, retry_at: int) -> None:
        if promise in self._open:
            item = self._open[promise]
            item.state = "retrying"
            item.troubles = [*item.troubles, (attempt, f"{cut(str(error))}; next not before {clock(retry_at)}")]

    def _complete(self, promise: PromiseId, result: Any, attempt: int, at: int) -> None:
        if promise in self._open:
            item = self._open.pop(promise)
            item.state = "failed" if isinstance(result, Err) else "done"
            item.attempts, item.until = attempt, at
            item.detail = f"{item.detail} {outcome(result)}"

    def _signal(self, event: e.SignalDelivered | e.SignalReceived, at: int) -> None:
        key = event.signal_name, event.delivery_id
        if isinstance(event, e.SignalDelivered):
            detail = f"{payload(event.payload)}, not received yet"
            item = Item("delivery", f"signal {event.signal_name!r}", at, "open", detail)
            self._delivered[key] = self._add(item)
        elif key in self._delivered:
            item = self._delivered.pop(key)
            item.state, item.until, item.detail = "done", at, payload(event.payload)

    def _end(self, event: e.Event, at: int) -> None:
        for item in self._open.values():
            item.state = "dropped"
            item.detail = f"{item.detail} (given up)" if item.kind != "timer" else "not needed any more"
        self._open.clear()
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
        "at": iso(item.at),
        "until": iso(item.until),
        "duration_seconds": None if item.duration is None else item.duration / 1e6,
        "attempts": item.attempts,
        "position": item.position,
        "detail": item.detail,
        "failed_attempts": [{"attempt": number, "error": why} for number, why in item.troubles],
        "begun_again": [{"attempt": number, "at": iso(at)} for number, at in item.repeats],
        "gate": [{"kind": mark.kind, "id": mark.id, "state": mark.state} for mark in item.marks],
    }
