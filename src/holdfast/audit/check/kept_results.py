"""Results that a retried run has taken over from an earlier generation: its entries are about the call that gave them.

A retried run may come to such a call at another position, under another promise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.audit.outline import EventLine, JournalLine

_Result = tuple[str | None, str | None, bool | None, str]


def original_calls(journals: Sequence[JournalLine]) -> Mapping[str, Sequence[str]]:
    """For the promise of each call, those of calls of equal kind, name and result in earlier generations."""
    found: dict[str, list[str]] = {}
    earlier: dict[_Result, list[str]] = {}
    for journal in sorted(journals, key=lambda each: each.generation):
        calls = {event.promise: event for event in journal.events if event.kind is not None}
        settled = [event for event in journal.events if event.event == "InvokeCompleted" and event.promise in calls]
        results = {event.promise or "": _result(calls[event.promise], event) for event in settled}
        for promise, result in results.items():
            found.setdefault(promise, []).extend(earlier.get(result, ()))
        for promise, result in results.items():
            earlier.setdefault(result, []).append(promise)
    return found


def _result(call: EventLine, end: EventLine) -> _Result:
    return call.kind, call.name, end.ok, str(end.payload or end.error)
