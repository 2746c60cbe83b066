"""Checks that a run's journal, decisions, approvals and receipts agree.

- The entry of the run's end names the last hash of its journal.
- An action that gave a value has a receipt. An action that gave an error has at least been judged.
- A form that gave a value was completed by a person with that value. A form that gave an error has expired.
- A person whom the journal names as the giver of a value is the one of an entry.
- A receipt is for a proposal that was allowed, or approved by a person, before it, for the same promise.
- A decision that names an approval comes after it: enough people had approved that proposal for that promise.
- Where two people must approve, two did. Where the tier is high, the person who started the run did not approve.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.audit import records
from holdfast.audit.check.claims import Findings
from holdfast.audit.check.forms import check_forms
from holdfast.audit.check.kept_results import KeptResults
from holdfast.audit.check.people import check_people
from holdfast.audit.facts import RunLine
from holdfast.audit.outline import JournalLine
from holdfast.journal.secrecy import ACTION
from holdfast.people.names import person

Recorded = Sequence[tuple[int, records.Record]]


def reconcile(facts: RunLine, journals: Sequence[JournalLine], recorded: Recorded, findings: Findings) -> None:
    """Check each of these, and add a claim for each."""
    if facts.generation not in {journal.generation for journal in journals}:
        findings.broken("journal", f"the journal of generation {facts.generation}, which this is about, is missing.")
    for journal in journals:
        _end(facts, journal, recorded, findings)
    _actions(facts, journals, recorded, findings)
    check_forms(facts, journals, recorded, findings)
    check_people(facts, journals, recorded, findings)
    permissions = _permissions(recorded)
    _receipts(permissions, recorded, findings)
    _approvals(facts, permissions, recorded, findings)


class _Permissions(NamedTuple):
    """The first entry that permits each promise and proposal, and the problems of entries that only seem to."""

    first: dict[tuple[str, str], int]
    problems: list[str]


def _end(facts: RunLine, journal: JournalLine, recorded: Recorded, findings: Findings) -> None:
    number = journal.generation
    ends = [(at, r) for at, r in recorded if isinstance(r, records.Ended) and r.generation == number]
    if not ends:
        if number == facts.generation and facts.governed and facts.ended:
            findings.broken(
                "journal", "the run has ended, and the entry of its end is missing: nothing binds its journal."
            )
        else:
            findings.not_proved("journal", f"no entry of the audit binds the journal of generation {number} yet.")
        return
    for at, end in ends:
        standing = facts.standing if number == facts.generation else end.standing
        recorded_end = (end.run, end.workflow, end.standing, end.root, end.version, end.head)
        actual_end = (facts.id, facts.workflow, standing, journal.root, journal.version, journal.head)
        names = ("run", "workflow", "status", "root", "number of events", "last hash")
        differing = [name for name, one, other in zip(names, recorded_end, actual_end, strict=True) if one != other]
        problem = (
            f"the journal of generation {number} is not the one that entry {at} binds: the {', the '.join(differing)} "
            f"{'differs' if len(differing) == 1 else 'differ'}."
        )
        findings.judge(
            "journal",
            problem if differing else None,
            f"the journal of generation {number} ({journal.version} events) is the one that entry {at} binds: the run "
            f"ended with it, {end.standing}.",
        )


def _actions(facts: RunLine, journals: Sequence[JournalLine], recorded: Recorded, findings: Findings) -> None:
    receipted = {
        r.promise for _, r in recorded if isinstance(r, records.Receipted) and r.state in ("succeeded", "reused")
    } | {
        r.details.get("undo", "").partition(":")[0]
        for _, r in recorded
        if isinstance(r, records.Operated) and r.act == records.UNDO and r.reason.startswith(records.NOT_UNDONE)
    }
    judged = {r.promise for _, r in recorded if isinstance(r, (records.Decided, records.Receipted))}
    kept = KeptResults(facts, journals)
    done = inherited = 0
    bad: dict[str, str] = {}
    for journal in journals:
        names = {event.promise: event.name for event in journal.events if event.kind == ACTION}
        for event in journal.events:
            if event.event != "InvokeCompleted" or event.promise not in names:
                continue
            done += 1
            if not (receipted if event.ok else judged).isdisjoint(kept.calls(event)):
                continue
            if kept.is_inherited(journal.generation, event):
                inherited += 1
                continue
            lacks = "has no receipt of a success" if event.ok else "was never judged"
            bad[event.promise or ""] = (
                f"action {names[event.promise]} ({event.promise}) is completed in the journal at sequence "
                f"{event.sequence}, and it {lacks}."
            )
    for problem in bad.values():
        findings.broken("actions", problem)
    if inherited:
        findings.not_proved(
            "actions", f"{inherited} actions were done by run {facts.forked_from} before the fork: see its evidence."
        )
    if not bad:
        findings.proved("actions", f"all completed actions ({done - inherited}) have their receipt or their refusal.")


def _permissions(recorded: Recorded) -> _Permissions:
    """A decision that names an approval counts only by the answers that its task had before it."""
    first: dict[tuple[str, str], int] = {}
    problems: list[str] = []
    asked: dict[str | None, list[records.Asked]] = {}
    for at, record in recorded:
        match record:
            case records.Asked(subject="approval"):
                asked.setdefault(record.task, []).append(record)
                if record.status != "approved":
                    continue
            case records.Decided(effect="allow", stage="approval"):
                what = (record.promise, record.proposal)
                answers = [each for each in asked.get(record.task, ()) if (each.promise, each.proposal) == what]
                if (lacks := _lacking(answers)) is not None:
                    problems.append(
                        f"entry {at} allows {record.action} by task {record.task}, which {lacks} before it."
                    )
                    continue
            case records.Decided(effect="allow"):
                pass
            case _:
                continue
        first.setdefault((record.promise, record.proposal), at)
    return _Permissions(first, problems)


def _lacking(answers: Sequence[records.Asked]) -> str | None:
    """Why the answers to a task do not approve it; None where they do."""
    people = _people(answers)
    if not people:
        return "nobody approved"
    if len(people) < _needed(answers):
        return f"only {', '.join(sorted(people))} approved"
    return None if any(each.status == "approved" for each in answers) else "was not approved"


def _people(answers: Sequence[records.Asked]) -> set[str]:
    """The people who approved, each once, in whatever spelling."""
    people = {person(each.who): each.who for each in answers if each.verdict == "approved" and each.who}
    return set(people.values())


def _needed(answers: Sequence[records.Asked]) -> int:
    return 2 if any(each.two_person for each in answers) else 1


def _receipts(permissions: _Permissions, recorded: Recorded, findings: Findings) -> None:
    count = 0
    bad = False
    for at, record in recorded:
        if not isinstance(record, records.Receipted):
            continue
        count += 1
        decided_at = permissions.first.get((record.promise, record.proposal))
        if decided_at is None or decided_at > at:
            bad = True
            why = "nothing allowed or approved" if decided_at is None else f"only entry {decided_at}, after it, allowed"
            findings.broken(
                "receipts", f"entry {at}, receipt {record.receipt} of {record.action}: {why} this proposal."
            )
    if not bad:
        findings.proved("receipts", f"all receipts ({count}) are for a proposal that was allowed or approved before.")


def _approvals(facts: RunLine, permissions: _Permissions, recorded: Recorded, findings: Findings) -> None:
    tasks: dict[str, list[records.Asked]] = {}
    for _, record in recorded:
        if isinstance(record, records.Asked) and record.subject == "approval":
            tasks.setdefault(record.task, []).append(record)
    approved = {task: asked for task, asked in tasks.items() if any(each.status == "approved" for each in asked)}
    doubts = [doubt for task, asked in sorted(approved.items()) if (doubt := _doubt(facts, task, asked))]
    problems = [*permissions.problems, *doubts]
    for problem in problems:
        findings.broken("approvals", problem)
    if not problems:
        findings.proved("approvals", f"all approvals ({len(approved)}) were given by as many people as they needed.")


def _doubt(facts: RunLine, task: str, asked: Sequence[records.Asked]) -> str | None:
    """The problem of an approval: too few people, or a tier high and the person who started the run."""
    people = _people(asked)
    if len(people) < _needed(asked):
        needed = "two different people" if _needed(asked) == 2 else "a person"
        return f"task {task} is approved, and the audit does not show that {needed} approved it."
    starter = person(facts.actor or "")
    if any(person(who) == starter for who in people) and any(each.tier == "high" for each in asked):
        return f"task {task} is of tier high, and {facts.actor}, who started the run, approved it."
    return None
