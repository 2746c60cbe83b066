"""The rules by which the store's tasks and the audit's entries must agree.

A task's answer lets an act be done. But a task is a row, and only the entries are sealed. Each change of a task is
recorded by one entry, in the same commit. So an answer without an entry is no answer: nothing is done because of it,
and ``audit verify`` names it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

import cbor2

from holdfast.audit import records as r
from holdfast.journal.cbor import canonical
from holdfast.journal.promise import PromiseId
from holdfast.store.governance import TaskRow
from holdfast.tasks.answers import (
    ANSWERS,
    ASSIGNED,
    CANCELLED,
    CLAIMED,
    COMPLETED,
    DELEGATED,
    ESCALATED,
    RELEASED,
    REMINDED,
)
from holdfast.tasks.files import files_in

REQUESTED: Final = "requested"

_ANSWERS: Final = frozenset(answer for answers in ANSWERS.values() for answer in answers)
_BY_PEOPLE: Final = _ANSWERS | {CLAIMED, RELEASED, ASSIGNED, DELEGATED}


def terms(task: TaskRow) -> str:
    """The hash of the fields that never change: the question, the people who are asked, and the rule that asks."""
    asked = (task.kind, task.proposal, task.summary, task.details, task.tier, task.two_person, list(task.candidates))
    place = (task.tenant, task.id, task.run, task.generation, task.root, task.position)
    rest = (task.starter, task.policy, task.rule, task.created_at, task.expires_at)
    more = (task.form, list(task.groups), list(task.excluded), task.due_at, list(task.reminders), _escalation(task))
    added = [list(more)] if any(more) else []  # fields that earlier versions did not have must not change their hash
    return hashlib.sha256(canonical(["holdfast.audit.task.1", *place, *asked, *rest, *added])).hexdigest()


def _escalation(task: TaskRow) -> list[list[str]] | None:
    wider = task.escalation
    return None if wider is None else [list(wider.candidates), list(wider.groups)]


def form_of(task: TaskRow) -> r.Metadata:
    """The metadata of the form that a person was asked to fill in."""
    return r.of_bytes("form", task.form)


def shown_of(task: TaskRow) -> r.Metadata:
    """The metadata of the values that a person was shown."""
    try:
        return r.of_bytes("shown", canonical(cbor2.loads(task.details)["shown"]))
    except (cbor2.CBORError, ValueError, TypeError, LookupError):
        return r.Metadata("unreadable")


def attached_files(task: TaskRow) -> tuple[r.Metadata, ...]:
    """The metadata of the files that came with the last answer."""
    value = task.answers[-1].value if task.answers else None
    try:
        return () if value is None else named_files(value)
    except (cbor2.CBORError, ValueError, TypeError):
        return ()


def named_files(value: bytes) -> tuple[r.Metadata, ...]:
    """The metadata of the files that an answer names. Raises where it cannot be read."""
    return tuple(r.Metadata(file.type, file.size, file.sha256) for _, file in files_in(cbor2.loads(value)))


def task_problem(task: TaskRow, entries: Sequence[r.Asked]) -> str | None:
    """What the entries of a task, in their order, do not confirm of it, in a sentence; None where they confirm all."""
    if not entries:
        return f"task {task.id}: the audit has no entry of it."
    fields = [field for field, one, other in _compared(task, entries) if one != other]
    return f"task {task.id} differs from what the audit says of it in its {', '.join(fields)}." if fields else None


def missing(id: str) -> str:
    """The problem of a task that has entries and is not stored."""
    return f"task {id}: the audit has entries of it, and it is gone."


def _compared(task: TaskRow, entries: Sequence[r.Asked]) -> Iterator[tuple[str, object, object]]:
    first, last = entries[0], entries[-1]
    yield "request", first.verdict, REQUESTED
    if first.terms:  # earlier versions did not record them
        yield "terms", terms(task), first.terms
    same = (task.run, str(PromiseId(task.root).child(task.position)), task.kind, task.proposal.hex())
    rules = (task.tier, task.two_person, task.expires_at)
    recorded = {(e.run, e.promise, e.subject, e.proposal, e.tier, e.two_person, e.expires_at) for e in entries}
    yield "call, proposal or rules", {(*same, *rules)}, recorded
    yield "status", task.status, last.status
    yield "number of changes", task.version, len(entries)
    yield "answers", [(a.who, a.verdict, a.reason, a.at) for a in task.answers], list(map(_answer, _answers(entries)))
    yield "given results", *_results(task, entries)
    # A task may be cancelled by somebody who does not know its last changes.
    others = [entry for entry in entries if entry.verdict != CANCELLED]
    yield "delegation", task.delegated_to, others[-1].delegated_to if others else task.delegated_to
    yield "owner", task.owner, others[-1].owner if others else task.owner
    yield "reminders", (task.reminded, task.reminded_at), _reminders(task, entries)
    yield "escalation", task.escalated_at, _last(entries, ESCALATED)
    for entry in entries:
        if entry.form is not None or entry.shown is not None:
            yield "form or shown values", (form_of(task), shown_of(task)), (entry.form, entry.shown)
    if last.verdict == COMPLETED:
        yield "files", attached_files(task), last.files
    yield "time of closing", task.closed_at, None if last.status == REQUESTED else last.at


def _answers(entries: Sequence[r.Asked]) -> list[r.Asked]:
    return [entry for entry in entries if entry.verdict in _BY_PEOPLE]


def _answer(entry: r.Asked) -> tuple[str | None, str, str, int]:
    receivers = {DELEGATED: entry.delegated_to, ASSIGNED: entry.owner}
    verdict = f"{entry.verdict} to {receivers[entry.verdict]}" if entry.verdict in receivers else entry.verdict
    return (entry.who, verdict, entry.reason, entry.at)


def _last(entries: Sequence[r.Asked], verdict: str) -> int | None:
    return next((entry.at for entry in reversed(entries) if entry.verdict == verdict), None)


def _reminders(task: TaskRow, entries: Sequence[r.Asked]) -> tuple[int, int | None]:
    """How many reminders are over and when the last was given, by the entries."""
    last = _last(entries, REMINDED)
    return (0 if last is None else sum(time <= last for time in task.reminders)), last


def _results(task: TaskRow, entries: Sequence[r.Asked]) -> tuple[object, object]:
    """The values in people's answers, by the task and by the entries, as far as the entries have them."""
    answers = _answers(entries)
    if len(answers) != len(task.answers):
        return None, None
    pairs = [(one, entry.answer) for one, entry in zip(task.answers, answers, strict=True) if entry.answer is not None]
    values = [None if one.value is None else r.of_bytes("result", one.value) for one, _ in pairs]
    return values, [answer for _, answer in pairs]
