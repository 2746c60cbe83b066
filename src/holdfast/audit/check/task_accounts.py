"""Whether the store's tasks and the audit's entries tell one story.

An act is done because of what a task says, but a task is a row, and only the entries are sealed. Each change of a task
is told by one entry, in the same commit. So an answer that no entry tells is no answer: nothing is done because of it,
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
    DELEGATED,
    ESCALATED,
    RELEASED,
    REMINDED,
)

REQUESTED: Final = "requested"

_ANSWERS: Final = frozenset(word for words in ANSWERS.values() for word in words)
_SAID: Final = _ANSWERS | {CLAIMED, RELEASED, ASSIGNED, DELEGATED}


def terms(task: TaskRow) -> str:
    """The hash of all that stays as it was when the task was made: what is asked, of whom, and by which rule."""
    asked = (task.kind, task.proposal, task.summary, task.details, task.tier, task.two_person, list(task.candidates))
    place = (task.tenant, task.id, task.run, task.generation, task.root, task.position)
    rest = (task.starter, task.policy, task.rule, task.created_at, task.expires_at)
    more = (task.form, list(task.groups), list(task.excluded), task.due_at, list(task.reminders), _escalation(task))
    added = [list(more)] if any(more) else []  # what earlier versions did not know must not change their hash
    return hashlib.sha256(canonical(["holdfast.audit.task.1", *place, *asked, *rest, *added])).hexdigest()


def _escalation(task: TaskRow) -> list[list[str]] | None:
    wider = task.escalation
    return None if wider is None else [list(wider.candidates), list(wider.groups)]


def form_of(task: TaskRow) -> r.Metadata:
    """What is told of the form that a person was asked to fill in."""
    return r.of_bytes("form", task.form)


def shown_of(task: TaskRow) -> r.Metadata:
    """What is told of what a person was shown."""
    try:
        return r.of_bytes("shown", canonical(cbor2.loads(task.details)["shown"]))
    except (cbor2.CBORError, ValueError, TypeError, LookupError):
        return r.Metadata("unreadable")


def task_problem(task: TaskRow, told: Sequence[r.Asked]) -> str | None:
    """What of a task the entries about it, in their order, do not confirm, in a sentence; None where they do."""
    if not told:
        return f"task {task.id}: nothing in the audit tells of it."
    words = [word for word, one, other in _compared(task, told) if one != other]
    return f"task {task.id} differs from what the audit says of it in its {', '.join(words)}." if words else None


def missing(id: str) -> str:
    """The problem of a task that is told of and not there."""
    return f"task {id}: the audit tells of it, and it is gone."


def _compared(task: TaskRow, told: Sequence[r.Asked]) -> Iterator[tuple[str, object, object]]:
    first, last = told[0], told[-1]
    yield "request", first.verdict, REQUESTED
    if first.terms:  # earlier versions did not tell them
        yield "terms", terms(task), first.terms
    same = (task.run, str(PromiseId(task.root).child(task.position)), task.kind, task.proposal.hex())
    rules = (task.tier, task.two_person, task.expires_at)
    said = {(e.run, e.promise, e.subject, e.proposal, e.tier, e.two_person, e.expires_at) for e in told}
    yield "call, proposal or rules", {(*same, *rules)}, said
    yield "status", task.status, last.status
    yield "number of changes", task.version, len(told)
    yield "answers", [(s.who, s.verdict, s.reason, s.at) for s in task.answers], list(map(_said, _answers(told)))
    yield "given results", *_results(task, told)
    # Whoever cancels a task may not know what was said to it meanwhile.
    heard = [entry for entry in told if entry.verdict != CANCELLED]
    yield "delegation", task.delegated_to, heard[-1].delegated_to if heard else task.delegated_to
    yield "owner", task.owner, heard[-1].owner if heard else task.owner
    yield "reminders", (task.reminded, task.reminded_at), _reminders(task, told)
    yield "escalation", task.escalated_at, _last(told, ESCALATED)
    for entry in told:
        if entry.form is not None or entry.shown is not None:
            yield "form or what was shown", (form_of(task), shown_of(task)), (entry.form, entry.shown)
    yield "time of closing", task.closed_at, None if last.status == REQUESTED else last.at


def _answers(told: Sequence[r.Asked]) -> list[r.Asked]:
    return [entry for entry in told if entry.verdict in _SAID]


def _said(entry: r.Asked) -> tuple[str | None, str, str, int]:
    receivers = {DELEGATED: entry.delegated_to, ASSIGNED: entry.owner}
    verdict = f"{entry.verdict} to {receivers[entry.verdict]}" if entry.verdict in receivers else entry.verdict
    return (entry.who, verdict, entry.reason, entry.at)


def _last(told: Sequence[r.Asked], verdict: str) -> int | None:
    return next((entry.at for entry in reversed(told) if entry.verdict == verdict), None)


def _reminders(task: TaskRow, told: Sequence[r.Asked]) -> tuple[int, int | None]:
    """How many reminders are over and when the last was given, as the entries have it."""
    last = _last(told, REMINDED)
    return (0 if last is None else sum(time <= last for time in task.reminders)), last


def _results(task: TaskRow, told: Sequence[r.Asked]) -> tuple[object, object]:
    """What people said that an act gave, as the task and the entries have it, where these tell it."""
    heard = _answers(told)
    if len(heard) != len(task.answers):
        return None, None
    pairs = [(said, entry.answer) for said, entry in zip(task.answers, heard, strict=True) if entry.answer is not None]
    given = [None if said.value is None else r.of_bytes("result", said.value) for said, _ in pairs]
    return given, [answer for _, answer in pairs]
