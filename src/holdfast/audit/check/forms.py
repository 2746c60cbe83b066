"""Checks that a run continued with the answers that people gave to its forms.

The entry of a completed form has the hashes of the form, of the shown values and of the answer. Somebody who has these
can prove with it what the person saw and answered. Two things are checked here. The answer must be the value in the
journal. The form and the shown values must be the same when the task was made and when it was answered.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.audit import records
from holdfast.audit.check.claims import Findings
from holdfast.audit.check.kept_results import KeptResults
from holdfast.audit.check.task_accounts import REQUESTED
from holdfast.audit.facts import RunLine
from holdfast.audit.outline import EventLine, JournalLine
from holdfast.journal.forms import FORM
from holdfast.tasks.answers import COMPLETED, EXPIRED


def check_forms(
    facts: RunLine,
    journals: Sequence[JournalLine],
    recorded: Sequence[tuple[int, records.Record]],
    findings: Findings,
) -> None:
    """Check all forms of a run. A run without forms gets no claim."""
    entries: dict[str, list[records.Asked]] = {}
    for _, record in recorded:
        if isinstance(record, records.Asked) and record.subject == FORM:
            entries.setdefault(record.promise, []).append(record)
    answered = inherited = 0
    kept = KeptResults(facts, journals)
    problems: dict[str, str] = {}
    for journal in journals:
        names = {event.promise: event.name for event in journal.events if event.kind == FORM}
        for event in journal.events:
            if event.event != "InvokeCompleted" or event.promise not in names:
                continue
            answered += 1
            found = [_problem(event, entries.get(promise, ())) for promise in kept.calls(event)]
            problem = None if None in found else found[0]
            if problem is not None and kept.is_inherited(journal.generation, event):
                inherited += 1
            elif problem is not None:
                problems[event.promise or ""] = f"form {names[event.promise]!r} ({event.promise}) {problem}."
    for problem in problems.values():
        findings.broken("forms", problem)
    if inherited:
        findings.not_proved(
            "forms", f"{inherited} forms were answered in run {facts.forked_from} before the fork: see its evidence."
        )
    if answered and not problems:
        findings.proved("forms", f"all forms ({answered - inherited}) gave the answer of a person, or expired.")


def _problem(event: EventLine, entries: Sequence[records.Asked]) -> str | None:
    """Why the entries of a form do not confirm the end that the journal has; None where they do."""
    if not event.ok:
        return None if any(each.verdict == EXPIRED for each in entries) else "expired, and no entry records that"
    value = event.payload.sha256 if event.payload is not None else None
    for each in entries:
        if each.verdict == COMPLETED and each.answer is not None and each.answer.sha256 == value:
            if _is_one_question([entry for entry in entries if entry.task == each.task]):
                return None
            return (
                f"was answered in task {each.task}, and its entries do not show that the person who answered saw the "
                "form and the values that were asked"
            )
    return "gave a value, and no entry records it as a person's answer"


def _is_one_question(entries: Sequence[records.Asked]) -> bool:
    """Whether a task asked and showed the same when it was made and when it was answered, by all hashes of both."""
    ends = [entry for entry in entries if entry.verdict in (REQUESTED, COMPLETED)]
    questions = {(_hash(entry.form), _hash(entry.shown), entry.proposal) for entry in ends}
    is_whole = {entry.verdict for entry in ends} == {REQUESTED, COMPLETED}
    return is_whole and len(questions) == 1 and None not in questions.pop()


def _hash(value: records.Metadata | None) -> str | None:
    return None if value is None else value.sha256
