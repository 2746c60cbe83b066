"""A window of a run's timeline: some events of its journal, folded, with the decoded values of each call.

It reads the events of the window and no others, so it is as quick at the end of a long journal as in a short one. What
began before the window is shown where something of it happens in the window.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.client.views.journal import JournalEntry, journal_entry
from holdfast.client.views.mask import masked_entries
from holdfast.client.views.overview import marks_of
from holdfast.client.views.timeline import Fold, Item, Mark
from holdfast.client.views.times import moment
from holdfast.journal import events as e
from holdfast.journal.promise import PromiseId
from holdfast.runs.kinds.table import is_gated
from holdfast.store.protocol import Run, Store

_SEGMENTS: Final = 25

MOST_MARKED: Final = 2000
"""Of a longer journal the tasks and receipts are not read for each row: they have lists of their own."""


class TimelineRow(msgspec.Struct, frozen=True):
    """An item of the timeline, the entries of the journal that it was made of, and what it was given and gave."""

    item: Item
    entries: list[JournalEntry]
    began_before: bool  # whether it began before the window

    @property
    def sequence(self) -> int:
        """Where it stands in the journal."""
        return self.entries[0].sequence

    @property
    def given(self) -> Any:
        """The arguments of the call, or the signal's value; None where the window does not have them."""
        found = [entry.fields[name] for entry in self.entries for name in ("input", "payload") if name in entry.fields]
        return found[0] if found else None

    @property
    def result(self) -> Any:
        """``{"ok": value}`` or ``{"error": …}``; None before its end."""
        for entry in reversed(self.entries):
            if entry.event == "InvokeCompleted":
                return entry.fields["result"]
            if entry.event == "ExecutionCompleted":
                return {"ok": entry.fields["result"]}
            if entry.event == "ExecutionFailed":
                return {"error": entry.fields["error"]}
        return None


class TimelinePart(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of the events from ``first`` up to ``end``, of ``events`` that the journal has."""

    first: int
    end: int
    events: int
    rows: list[TimelineRow]


async def window_of(store: Store, run: Run, first: int | None, limit: int) -> TimelinePart:
    """A window of the run's present journal; without ``first`` its end."""
    at = max(0, run.version - limit) if first is None else min(max(0, first), max(0, run.version - 1))
    fold = _WindowFold()
    entries: list[e.Entry] = []
    async for entry in masked_entries(store, run, at, page_size=_SEGMENTS):
        entries.append(entry)
        fold.take(entry)
        if len(entries) >= limit:
            break
    marks = await marks_of(store, run) if run.governed and run.version <= MOST_MARKED else {}
    return TimelinePart(first=at, end=at + len(entries), events=run.version, rows=_rows(fold, marks))


def _rows(fold: _WindowFold, marks: dict[int, list[Mark]]) -> list[TimelineRow]:
    for item in fold.items:
        if item.position is not None and is_gated(item.kind):
            item.marks = marks.get(item.position, [])
    return [
        TimelineRow(item, [journal_entry(entry) for entry in fold.entries[id(item)]], id(item) in fold.began_before)
        for item in fold.items
    ]


_OF_CALLS: Final = (e.InvokeScheduled, e.InvokeStarted, e.InvokeRetrying, e.InvokeCompleted)
_OF_TIMERS: Final = (e.TimerScheduled, e.TimerFired)
_OF_SIGNALS: Final = (e.SignalDelivered, e.SignalReceived)


class _WindowFold(Fold):
    """A fold that may begin anywhere. It knows the entries of each item, by the item's identity."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[int, list[e.Entry]] = {}
        self.began_before: set[int] = set()
        self._items: dict[object, Item] = {}

    def take(self, entry: e.Entry) -> None:
        """Take an entry. What it is about may have begun before the first entry: then it gets an item here."""
        event, count = entry.event, len(self.items)
        match event:
            case (
                e.InvokeStarted(promise_id=promise)
                | e.InvokeRetrying(promise_id=promise)
                | e.InvokeCompleted(promise_id=promise)
            ) if promise not in self._items:
                self._earlier(promise, Item("step", f"call {promise.path[-1]}", moment(entry.timestamp), "open"))
            case e.TimerFired(promise_id=promise) if promise not in self._items:
                self._earlier(promise, Item("timer", "timer", moment(entry.timestamp), "open"))
            case e.SignalReceived(signal_name=name) if _subject(event) not in self._items:
                self._earlier(_subject(event), Item("delivery", f"signal {name!r}", moment(entry.timestamp), "open"))
        super().take(entry)
        subject = _subject(event)
        if subject is not None and len(self.items) > count:
            self._items.setdefault(subject, self.items[-1])
        item = self.items[-1] if subject is None and len(self.items) > count else self._items.get(subject)
        if item is not None:
            self.entries.setdefault(id(item), []).append(entry)

    def _earlier(self, subject: object, item: Item) -> None:
        self.items.append(item)
        self._items[subject] = item
        self.began_before.add(id(item))
        if isinstance(subject, PromiseId):
            item.position = subject.path[-1]
            self.open[subject] = item
        elif isinstance(subject, tuple):
            self.delivered[subject] = item


def _subject(event: e.Event) -> PromiseId | tuple[str, int] | None:
    """What an event is about: a call, a timer or a signal; None where it stands for itself."""
    if isinstance(event, (*_OF_CALLS, *_OF_TIMERS)):
        return event.promise_id
    return (event.signal_name, event.delivery_id) if isinstance(event, _OF_SIGNALS) else None
