"""Questions that a workflow asks people with a form: their recorded form, and the tasks made of them.

Durations are in microseconds, counted from when the task is made.
"""

from __future__ import annotations

from typing import Any

import cbor2
import msgspec

from holdfast.errors import StoreCorrupt
from holdfast.journal.cbor import canonical
from holdfast.journal.payload import Payload
from holdfast.store.governance import Escalation, TaskRow
from holdfast.tasks.answers import task_id
from holdfast.tasks.forms import digest


class AnswerCheck(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a form cannot say: where ``when`` holds over ``payload`` and the facts, an answer is refused."""

    when: str
    say: str
    at: str = ""


class Question(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The terms of a form. ``problem`` is the problem of the last answer, where the same question is asked again."""

    form: dict[str, Any]
    candidates: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    due: int | None = None
    remind: tuple[int, ...] = ()
    escalate: Escalation | None = None
    expire: int | None = None
    problem: str = ""
    checks: tuple[AnswerCheck, ...] = ()
    facts: dict[str, Any] = {}  # what the checks read beside the answer, as it was when the task was made


class AskingRun(msgspec.Struct, frozen=True, gc=False):
    """The call that asks: its run and promise, the run's starter, and the name of the lease that makes the task."""

    tenant: str
    run: str
    generation: int
    root: bytes
    position: int
    promise: str
    workflow: str
    starter: str | None
    lease: str
    reference: str | None = None


def write(shown: Any, question: Question) -> Payload:
    """The question as the journal keeps it. ``shown`` is plain data."""
    return Payload(canonical([[shown], msgspec.to_builtins(question)]))


def read(payload: Payload) -> tuple[Any, Question]:
    """The shown values, and the question. Raises StoreCorrupt."""
    try:
        (shown,), terms = cbor2.loads(payload.data)
        return shown, msgspec.convert(terms, Question)
    except (cbor2.CBORError, msgspec.ValidationError, ValueError, TypeError) as error:
        raise StoreCorrupt(f"the question of a form cannot be read ({error}): a newer Holdfast wrote it.") from error


def task_of(asker: AskingRun, title: str, payload: Payload, now: int) -> TaskRow:
    """The task that asks people. Raises StoreCorrupt."""
    shown, question = read(payload)
    form = canonical(question.form)
    question_hash = digest(title, form, canonical(shown))
    details = {"workflow": asker.workflow, "shown": shown}
    if question.problem:
        details["problem"] = question.problem
    if question.checks:
        details["checks"] = msgspec.to_builtins(question.checks)
        details["facts"] = question.facts
    return TaskRow(
        tenant=asker.tenant,
        id=task_id(asker.promise, asker.generation, "form", question_hash, asker.lease),
        run=asker.run,
        generation=asker.generation,
        root=asker.root,
        position=asker.position,
        kind="form",
        status="requested",
        version=1,
        proposal=question_hash,
        summary=title,
        details=canonical(details),
        tier="",
        two_person=False,
        candidates=question.candidates,
        starter=asker.starter,
        policy="",
        rule=None,
        created_at=now,
        expires_at=None if question.expire is None else now + question.expire,
        form=form,
        groups=question.groups,
        excluded=question.excluded,
        due_at=None if question.due is None else now + question.due,
        reminders=tuple(now + after for after in sorted(question.remind)),
        escalation=question.escalate,
        reference=asker.reference,
    )
