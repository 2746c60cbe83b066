"""Checks the people whom a journal names: each is recorded by an entry as the one who answered, approved or sent."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.audit import records
from holdfast.audit.check.claims import Findings
from holdfast.audit.check.kept_results import KeptResults
from holdfast.audit.facts import RunLine
from holdfast.audit.outline import EventLine, JournalLine
from holdfast.journal.forms import FORM
from holdfast.journal.secrecy import ACTION
from holdfast.tasks.answers import ANSWERS

_DECISIONS = frozenset(answer for answers in ANSWERS.values() for answer in answers)
_SENT = "SignalDelivered"
_SETTLED = "InvokeCompleted"


def check_people(
    facts: RunLine,
    journals: Sequence[JournalLine],
    recorded: Sequence[tuple[int, records.Record]],
    findings: Findings,
) -> None:
    """Check all names of people in the journals. Journals that name nobody get no claim."""
    answered, sent = set[tuple[str, str]](), set[tuple[str, str]]()
    for _, record in recorded:
        if isinstance(record, records.Asked) and record.who is not None and record.verdict in _DECISIONS:
            answered.add((record.promise, record.who))
        elif isinstance(record, records.Operated) and record.act == "signal":
            sent.add((record.details.get("signal", ""), record.who))
    kept = KeptResults(facts, journals)
    named = [event for journal in journals for event in _naming(journal, kept)]
    problems = []
    for event in named:
        by = event.by or ""
        if event.event == _SENT and (event.name or "", by) not in sent:
            problems.append(f"signal {event.name!r} came from {by} by the journal, and no entry records that.")
        elif event.event == _SETTLED and answered.isdisjoint((promise, by) for promise in kept.calls(event)):
            problems.append(f"call {event.promise} was decided by {by} by the journal, and no entry records that.")
    for problem in dict.fromkeys(problems):
        findings.broken("people", problem)
    if named and not problems:
        findings.proved("people", f"all people whom the journal names ({len(named)} times) are those of the entries.")


def _naming(journal: JournalLine, kept: KeptResults) -> list[EventLine]:
    """The events that name a person who answered or sent to this very run.

    What happened before a fork is in another run's audit, and so is a refusal that comes from a child.
    """
    asking = {event.promise for event in journal.events if event.kind in (FORM, ACTION)}
    return [
        event
        for event in journal.events
        if event.by is not None
        and (event.event == _SENT or (event.event == _SETTLED and event.promise in asking))
        and not kept.is_inherited(journal.generation, event)
    ]
