"""What people are asked, as tasks, and the audit's notes of them."""

from __future__ import annotations

import datetime
from typing import Any, Literal

import msgspec

from holdfast.gate import records as r
from holdfast.gate import tasks
from holdfast.gate.policy import Ruling
from holdfast.gate.task_accounts import REQUESTED, terms
from holdfast.journal.cbor import canonical
from holdfast.journal.promise import PromiseId
from holdfast.store import protocol as p
from holdfast.worker.gatehouse import Case, Gatehouse
from holdfast.worker.recording import note


def approval(case: Case, ruling: Ruling, before: p.Task | None) -> p.Task:
    """The task that asks people to approve a proposal; ``before`` is the last that this call asked for."""
    wanted = ruling.approval
    assert wanted is not None
    expires_in = wanted.expires_in_seconds
    proposal = case.proposal
    return _task(
        case,
        "approval",
        tasks.task_id(case.name, case.held.generation, "approval", case.digest, f"{case.held.epoch}.{case.now}"),
        f"{proposal.name}: {proposal.connector} {proposal.operation} on {proposal.target or 'no target'}",
        {"why": ruling.reason},
        tier=wanted.tier,
        two_person=wanted.two_person,
        candidates=wanted.candidates,
        policy=ruling.policy,
        rule=ruling.rule,
        expires_at=None if expires_in is None else case.now + expires_in * 1_000_000,
        created_at=_younger(case, before),
    )


def outcome_task(
    case: Case, receipt: p.Receipt, before: p.Task | None, approval: p.Task | None, known: str | None
) -> p.Task:
    """The task that asks people what became of an attempt: both facts are in view, what was begun and what is known.

    Their word may let it be done once more. So where it needed an ``approval``, it is for the same people to say.
    """
    return _task(
        case,
        "outcome",
        tasks.task_id(case.name, case.held.generation, "outcome", case.digest, f"{case.held.epoch}.{case.now}"),
        f"did {receipt.connector} {receipt.operation} on {receipt.target or 'no target'} happen? ({receipt.action})",
        {
            "begun": f"attempt {receipt.attempt} was begun at {_moment(receipt.opened_at)} by {_holder(receipt)}",
            "known": known or receipt.error or "its worker stopped before the outcome was recorded",
            "receipt": receipt.id,
            "token": receipt.token,
        },
        tier="med" if approval is None else approval.tier,
        candidates=() if approval is None else approval.candidates,
        created_at=_younger(case, before),
    )


def _younger(case: Case, before: p.Task | None) -> int:
    """Of a call's tasks the youngest counts, so it is younger than the last one, whatever this worker's clock says."""
    return case.now if before is None else max(case.now, before.created_at + 1)


def _moment(microseconds: int) -> str:
    return datetime.datetime.fromtimestamp(microseconds / 1e6, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _holder(receipt: p.Receipt) -> str:
    return receipt.token.split("~")[0]


def _task(
    case: Case,
    kind: Literal["approval", "outcome"],
    id: str,
    summary: str,
    more: dict[str, Any],
    *,
    tier: str = "med",
    two_person: bool = False,
    candidates: tuple[str, ...] = (),
    policy: str = "",
    rule: str | None = None,
    expires_at: int | None = None,
    created_at: int | None = None,
) -> p.Task:
    proposal, row = case.proposal, case.held.row
    details = {
        "action": proposal.name,
        "connector": proposal.connector,
        "operation": proposal.operation,
        "target": proposal.target,
        "fields": dict(proposal.fields),
        "risk": proposal.risk,
        "writes": proposal.writes,
        "reverse": proposal.reverse,
        "workflow": row.workflow,
        **more,
    }
    return p.Task(
        tenant=row.key.tenant,
        id=id,
        run=row.key.run,
        generation=case.held.generation,
        root=case.promise.root,
        position=case.promise.path[-1],
        kind=kind,
        status="requested",
        version=1,
        proposal=case.digest,
        summary=summary,
        details=canonical(details),
        tier=tier,
        two_person=two_person,
        candidates=candidates,
        starter=row.actor,
        policy=policy,
        rule=rule,
        created_at=case.now if created_at is None else created_at,
        expires_at=expires_at,
    )


def put(task: p.Task, verdict: str, now: int, who: str | None = None, reason: str = "") -> p.PutTask:
    """A task made or changed, with its note."""
    return p.PutTask(task, (_told(task, verdict, now, who, reason),))


def expired(task: p.Task, now: int, refused: p.Note) -> p.PutTask:
    """A task whose time is over, closed from the version that is known here: an answer at the last moment wins.

    Only where it is closed is the action ``refused``.
    """
    closed = put(tasks.close(task, "expired", now), "expired", now)
    return msgspec.structs.replace(closed, also=(*closed.also, refused))


def cancelled(task: p.Task, now: int) -> p.CancelTask:
    """A task that nobody needs to answer any more, closed whatever was said to it meanwhile without deciding it."""
    return p.CancelTask(task.tenant, task.id, now, (_told(tasks.close(task, "cancelled", now), "cancelled", now),))


def open_tasks(gate: Gatehouse, promise: PromiseId) -> list[p.Task]:
    """All that a call asks people, of either kind."""
    asked = (gate.outcomes.get(promise), gate.approvals.get(promise))
    return [task for task in asked if task is not None and task.status == "requested"]


def withdrawn(gate: Gatehouse, promise: PromiseId, now: int) -> tuple[p.CancelTask, ...]:
    """What closes all that a call asks, because it needs no answer any more: nobody must be asked in vain.

    It is closed here, too: the call may be judged again, and would wait for an answer that nobody can give any more.
    """
    asked = open_tasks(gate, promise)
    if not asked:
        return ()
    gate.learn([], [tasks.close(task, "cancelled", now) for task in asked])
    return tuple(cancelled(task, now) for task in asked)


def _told(task: p.Task, verdict: str, now: int, who: str | None = None, reason: str = "") -> p.Note:
    record = r.Asked(
        now,
        task.run,
        str(PromiseId(task.root).child(task.position)),
        task.id,
        task.kind,
        task.status,
        verdict,
        task.proposal.hex(),
        task.tier,
        task.two_person,
        who,
        reason,
        task.delegated_to,
        task.expires_at,
        terms(task) if verdict == REQUESTED else "",
        _given(task) if verdict == tasks.HAPPENED else None,
    )
    return note(task.tenant, task.run, record)


def _given(task: p.Task) -> r.Metadata | None:
    """What the last answer says that the act gave."""
    value = task.answers[-1].value
    return None if value is None else r.of_bytes("result", value)
