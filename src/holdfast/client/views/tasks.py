"""A task as people and programs see it, and as ``--json`` writes it. The keys are stable: scripts read them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from holdfast.client.views.times import iso, moment
from holdfast.client.views.values import data_value, plain
from holdfast.journal.promise import PromiseId
from holdfast.store.protocol import TaskAnswer, TaskKind, TaskRow, TaskStatus
from holdfast.tasks.answers import COMPLETED, standing_of
from holdfast.tasks.eligibility import describe_people, holder_of, is_unanswerable


class AnswerInfo(msgspec.Struct, frozen=True):
    """What a person said to a task. ``value`` is the answer to a form, or what an act of unknown outcome gave."""

    who: str
    verdict: str
    reason: str
    at: datetime
    value: Any = None


class TaskInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Work for a person: to approve an action, to say what became of one, or to fill a form in.

    ``details`` are what the person must see, ``form`` is the JSON Schema of the answer. ``proposal`` is the hash of
    what is asked: an answer is over exactly this.
    """

    id: str
    tenant: str
    run: str
    reference: str | None  # the run's business reference
    kind: TaskKind
    status: TaskStatus
    standing: str  # its status; of an outcome that was answered, what became of the act
    version: int
    summary: str
    details: dict[str, Any]
    form: dict[str, Any] | None
    tier: str
    two_person: bool
    candidates: tuple[str, ...]
    groups: tuple[str, ...]
    excluded: tuple[str, ...]
    owner: str | None
    delegated_to: str | None
    holder: str | None  # the one person who may answer, where the task is somebody's
    who_may: str  # who may answer, in words
    starter: str | None  # who started the run
    rule: str | None
    policy: str
    proposal: str
    promise_id: str
    generation: int
    created_at: datetime
    due_at: datetime | None
    reminders: tuple[datetime, ...]
    reminded_at: datetime | None
    escalation: dict[str, Any] | None  # the candidates and groups who may answer as well once it is overdue
    escalated_at: datetime | None
    expires_at: datetime | None
    closed_at: datetime | None
    answers: tuple[AnswerInfo, ...]

    @property
    def shown(self) -> dict[str, Any]:
        """The values that a form shows to whoever answers it."""
        values = self.details.get("shown")
        return values if isinstance(values, dict) else {}

    @property
    def answer(self) -> Any:
        """What the form was filled in with; None before that."""
        return next((said.value for said in reversed(self.answers) if said.verdict == COMPLETED), None)

    def is_expired(self, now: datetime) -> bool:
        """Whether its time is over, though no worker may have noted that yet."""
        return self.status == "requested" and self.expires_at is not None and self.expires_at <= now


def task_info(task: TaskRow) -> TaskInfo:
    """A task's row as a view."""
    return TaskInfo(
        id=task.id,
        tenant=task.tenant,
        run=task.run,
        reference=task.reference,
        kind=task.kind,
        status=task.status,
        standing=standing_of(task),
        version=task.version,
        summary=task.summary,
        details=_object(task.details) or {},
        form=_object(task.form),
        tier=task.tier,
        two_person=task.two_person,
        candidates=task.candidates,
        groups=task.groups,
        excluded=task.excluded,
        owner=task.owner,
        delegated_to=task.delegated_to,
        holder=holder_of(task),
        who_may=_who_may(task),
        starter=task.starter,
        rule=task.rule,
        policy=task.policy,
        proposal=task.proposal.hex(),
        promise_id=str(PromiseId(task.root).child(task.position)),
        generation=task.generation,
        created_at=moment(task.created_at),
        due_at=moment(task.due_at),
        reminders=tuple(moment(time) for time in task.reminders),
        reminded_at=moment(task.reminded_at),
        escalation=None if task.escalation is None else msgspec.to_builtins(task.escalation),
        escalated_at=moment(task.escalated_at),
        expires_at=moment(task.expires_at),
        closed_at=moment(task.closed_at),
        answers=tuple(_answer_info(answer) for answer in task.answers),
    )


def _object(data: bytes) -> dict[str, Any] | None:
    """What canonical CBOR holds, where that is an object that can be read."""
    value = data_value(data) if data else None
    return value if isinstance(value, dict) else None


def _answer_info(answer: TaskAnswer) -> AnswerInfo:
    value = None if answer.value is None else data_value(answer.value)
    return AnswerInfo(answer.who, answer.verdict, answer.reason, moment(answer.at), value)


def _who_may(task: TaskRow) -> str:
    if (holder := holder_of(task)) is not None:
        return f"{holder} ({'delegated' if task.delegated_to else 'owner'})"
    if is_unanswerable(task):
        return f"nobody ({describe_people(task) or 'all'} may not)"
    return describe_people(task) or "anyone"


def task_record(task: TaskInfo) -> dict[str, Any]:
    """A task as ``--json`` writes it."""
    return {
        "id": task.id,
        "tenant": task.tenant,
        "run": task.run,
        "reference": task.reference,
        "kind": task.kind,
        "status": task.status,
        "version": task.version,
        "summary": task.summary,
        "details": plain(task.details),
        "tier": task.tier,
        "two_person": task.two_person,
        "candidates": list(task.candidates),
        "groups": list(task.groups),
        "excluded": list(task.excluded),
        "owner": task.owner,
        "delegated_to": task.delegated_to,
        "starter": task.starter,
        "rule": task.rule,
        "policy": task.policy,
        "proposal": task.proposal,
        "promise_id": task.promise_id,
        "generation": task.generation,
        "created_at": iso(task.created_at),
        "due_at": iso(task.due_at),
        "reminders": [iso(time) for time in task.reminders],
        "reminded_at": iso(task.reminded_at),
        "escalation": task.escalation,
        "escalated_at": iso(task.escalated_at),
        "expires_at": iso(task.expires_at),
        "closed_at": iso(task.closed_at),
        "answers": [_answer_record(answer) for answer in task.answers],
        "form": plain(task.form),
    }


def _answer_record(answer: AnswerInfo) -> dict[str, Any]:
    return {
        "who": answer.who,
        "verdict": answer.verdict,
        "reason": answer.reason,
        "at": iso(answer.at),
        "value": plain(answer.value),
    }
