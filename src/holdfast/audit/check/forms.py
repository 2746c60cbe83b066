"""Whether what people answered to forms is what the run went on with.

An entry of a completed form has the hashes of the form, of what was shown and of the answer. So what a person saw and
said can be proved to whoever has these; here the answer is held against the journal, and the question against itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.audit import records
from holdfast.audit.check.claims import Findings
from holdfast.audit.facts import RunLine
from holdfast.audit.outline import EventLine, JournalLine
from holdfast.journal.forms import FORM


def check_forms(
    facts: RunLine,
    journals: Sequence[JournalLine],
    told: Sequence[tuple[int, records.Record]],
    findings: Findings,
) -> None:
    """Find out, for all forms of a run. Of a run without any nothing is said."""
    entries: dict[str, list[records.Asked]] = {}
    for _, record in told:
        if isinstance(record, records.Asked) and record.subject == FORM:
            entries.setdefault(record.promise, []).append(record)
    answered = inherited = 0
    problems: dict[str, str] = {}
    for journal in journals:
        names = {event.promise: event.name for event in journal.events if event.kind == FORM}
        for event in journal.events:
            if event.event != "InvokeCompleted" or event.promise not in names:
                continue
            answered += 1
            problem = _problem(event, entries.get(event.promise or "", ()))
            if problem is not None and facts.forked_from is not None and event.at < facts.created_at:
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
        findings.proved("forms", f"all forms ({answered - inherited}) gave what a person answered, or expired.")


def _problem(event: EventLine, entries: Sequence[records.Asked]) -> str | None:
    """What the entries of a form do not confirm of its end in the journal."""
    if not event.ok:
        return None if any(each.verdict == "expired" for each in entries) else "expired, and no entry says so"
    given = event.payload.sha256 if event.payload is not None else None
    for each in entries:
        if each.verdict == "completed" and each.answer is not None and each.answer.sha256 == given:
            asked = {(one.form, one.shown, one.proposal) for one in entries if one.task == each.task and one.form}
            if len(asked) == 1:
                return None
            return f"was answered in task {each.task}, which did not ask and show the same all the time"
    return "gave what no entry says that a person answered"
