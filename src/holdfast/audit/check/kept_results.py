"""Results that a retried run has taken over from an earlier generation: its entries are about the call that gave them.

A retried run may come to such a call at another position, under another promise. In a fork the call may have been made
by the run that was forked: its entries are in the evidence of that run, and so are those of whatever kept its result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.audit.facts import RunLine
from holdfast.audit.outline import EventLine, JournalLine

_Result = tuple[str | None, str | None, bool | None, str]


class KeptResults:
    """Where the results of the calls in these journals come from."""

    def __init__(self, facts: RunLine, journals: Sequence[JournalLine]) -> None:
        self._originals: dict[str, list[str]] = {}
        self._inherited: set[tuple[int, int]] = set()
        earlier: dict[_Result, list[str]] = {}
        inherited: set[_Result] = set()
        for journal in sorted(journals, key=lambda each: each.generation):
            results = list(_results(journal))
            before = [(event, each) for event, each in results if _is_before_fork(facts, event) or each in inherited]
            self._inherited.update((journal.generation, event.sequence) for event, _ in before)
            inherited.update(result for _, result in before)
            for event, result in results:
                self._originals.setdefault(event.promise or "", []).extend(earlier.get(result, ()))
            for event, result in results:
                earlier.setdefault(result, []).append(event.promise or "")

    def calls(self, event: EventLine) -> Sequence[str]:
        """The promise of the call that this event settles, and those of calls of equal kind, name and result in earlier
        generations."""
        promise = event.promise or ""
        return (promise, *self._originals.get(promise, ()))

    def is_inherited(self, generation: int, event: EventLine) -> bool:
        """Whether this result, or signal, came to the run that was forked: this one has no entries about it."""
        return (generation, event.sequence) in self._inherited


def _is_before_fork(facts: RunLine, event: EventLine) -> bool:
    return facts.forked_from is not None and event.at < facts.created_at


def _results(journal: JournalLine) -> Iterator[tuple[EventLine, _Result]]:
    """The results of calls, and the signals, which a retried run keeps, too."""
    calls = {event.promise: event for event in journal.events if event.kind is not None}
    for event in journal.events:
        if event.event == "InvokeCompleted" and event.promise in calls:
            call = calls[event.promise]
            yield event, (call.kind, call.name, event.ok, str(event.payload or event.error))
        elif event.event == "SignalDelivered":
            yield event, (None, event.name, None, f"{event.payload} {event.by}")
