"""What the author of a workflow asks people with a form: as it is recorded, and as the task that it becomes.

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


class Question(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The terms of a form. ``problem`` says what was wrong with the answer to the same question before."""

    form: dict[str, Any]
    candidates: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    due: int | None = None
    remind: tuple[int, ...] = ()
    escalate: Escalation | None = None
    expire: int | None = None
    problem: str = ""


class AskingRun(msgspec.Struct, frozen=True, gc=False):
    """The call that asks: which run, which of its promises, for whom, and the name of the lease that makes the task."""

    tenant: str
    run: str
    generation: int
    root: bytes
    position: int
    promise: str
    workflow: str
    starter: str | None
    lease: str


def write(shown: Any, question: Question) -> Payload:
    """The question as the journal keeps it. ``shown`` is plain data."""
    return Payload(canonical([[shown], msgspec.to_builtins(question)]))


def read(payload: Payload) -> tuple[Any, Question]:
    """What is shown, and the question. Raises StoreCorrupt."""
    try:
        (shown,), terms = cbor2.loads(payload.data)
        return shown, msgspec.convert(terms, Question)
    except (cbor2.CBORError, msgspec.ValidationError, ValueError, TypeError) as error:
        raise StoreCorrupt(f"what a form asks cannot be read ({error}): a newer Holdfast wrote it.") from error


def task_of(asker: AskingRun, title: str, payload: Payload, now: int) -> TaskRow:
    """The task that asks people. Raises StoreCorrupt."""
    shown, question = read(payload)
    form = canonical(question.form)
    asked = digest(title, form, canonical(shown))
    details = {"workflow": asker.workflow, "shown": shown}
    if question.problem:
        details["problem"] = question.problem
    return TaskRow(
        tenant=asker.tenant,
        id=task_id(asker.promise, asker.generation, "form", asked, asker.lease),
        run=asker.run,
        generation=asker.generation,
        root=asker.root,
        position=asker.position,
        kind="form",
        status="requested",
        version=1,
        proposal=asked,
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
    )
