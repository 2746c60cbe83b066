"""What a call at the gate asks people, as tasks."""

from __future__ import annotations

import datetime
from typing import Any, Literal

from holdfast.audit.task_changes import cancelled
from holdfast.gate.policy.policy import Ruling
from holdfast.journal.cbor import canonical
from holdfast.journal.promise import PromiseId
from holdfast.store import protocol as p
from holdfast.tasks import answers as tasks
from holdfast.worker.gate.calls import Case, Gatehouse


def approval(case: Case, ruling: Ruling, before: p.TaskRow | None) -> p.TaskRow:
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
    case: Case, receipt: p.ReceiptRow, before: p.TaskRow | None, approval: p.TaskRow | None, known: str | None
) -> p.TaskRow:
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


def _younger(case: Case, before: p.TaskRow | None) -> int:
    """Of a call's tasks the youngest counts, so it is younger than the last one, whatever this worker's clock says."""
    return case.now if before is None else max(case.now, before.created_at + 1)


def _moment(microseconds: int) -> str:
    return datetime.datetime.fromtimestamp(microseconds / 1e6, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _holder(receipt: p.ReceiptRow) -> str:
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
) -> p.TaskRow:
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
    return p.TaskRow(
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


def open_tasks(gate: Gatehouse, promise: PromiseId) -> list[p.TaskRow]:
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
