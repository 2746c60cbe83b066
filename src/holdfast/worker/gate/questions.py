"""What a call at the gate asks people, as tasks."""

from __future__ import annotations

import datetime
from typing import Any, Literal

import cbor2

from holdfast.audit.task_changes import cancelled
from holdfast.gate.call import Call
from holdfast.gate.policy.policy import Ruling
from holdfast.journal.cbor import canonical
from holdfast.store import protocol as p
from holdfast.tasks import answers as tasks
from holdfast.worker.held import Held


def approval(held: Held, call: Call, ruling: Ruling, before: p.TaskRow | None, now: int) -> p.TaskRow:
    """The task that asks people to approve a proposal; ``before`` is the last that this call asked for."""
    wanted = ruling.approval
    assert wanted is not None
    expires_in = wanted.expires_in_seconds
    proposal = call.proposal
    return _task(
        held,
        call,
        "approval",
        _task_id(held, call, "approval", now),
        f"{proposal.name}: {proposal.connector} {proposal.operation} on {proposal.target or 'no target'}",
        {"why": ruling.reason, **_earlier(call)},
        tier=wanted.tier,
        two_person=wanted.two_person,
        candidates=wanted.candidates,
        policy=ruling.policy,
        rule=ruling.rule,
        expires_at=None if expires_in is None else now + expires_in * 1_000_000,
        created_at=_younger(before, now),
    )


def _earlier(call: Call) -> dict[str, Any]:
    """What was asked for under the key before, beside what is asked for now."""
    found = None if call.found is None else call.found.receipt
    if found is None:
        return {}
    asked = {"receipt": found.id, "run": found.run, "state": found.state, "fields": cbor2.loads(found.request)}
    return {"earlier": asked}


def outcome_task(
    held: Held, call: Call, receipt: p.ReceiptRow, before: p.TaskRow | None, known: str | None, now: int
) -> p.TaskRow:
    """The task that asks people what became of an attempt: both facts are in view, what was begun and what is known.

    Their answer may let it be done once more. So where it needed an approval, the same people are asked.
    """
    approval = call.approval
    return _task(
        held,
        call,
        "outcome",
        _task_id(held, call, "outcome", now),
        _outcome_summary(receipt),
        _facts(receipt, known),
        tier="med" if approval is None else approval.tier,
        candidates=() if approval is None else approval.candidates,
        created_at=_younger(before, now),
    )


def orphan_task(receipt: p.ReceiptRow, run: p.Run | None, approval: p.TaskRow | None, now: int) -> p.TaskRow:
    """The task that asks what became of an attempt that no run waits for. The run itself may be gone."""
    assert receipt.asked is not None
    details = {
        "action": receipt.action,
        "connector": receipt.connector,
        "operation": receipt.operation,
        "target": receipt.target,
        "fields": cbor2.loads(receipt.request),
        "risk": receipt.risk,
        "writes": receipt.writes,
        "reverse": receipt.reverse,
        "workflow": "" if run is None else run.workflow,
        **_facts(receipt, None),
    }
    return p.TaskRow(
        tenant=receipt.tenant,
        id=receipt.asked,
        run=receipt.run,
        generation=0 if run is None else run.generation,
        root=receipt.root,
        position=receipt.position,
        kind="outcome",
        status="requested",
        version=1,
        proposal=receipt.proposal,
        summary=_outcome_summary(receipt),
        details=canonical(details),
        tier="med" if approval is None else approval.tier,
        two_person=False,
        candidates=() if approval is None else approval.candidates,
        starter=receipt.actor,
        policy="",
        rule=None,
        created_at=now,
        expires_at=None,
        reference=None if run is None else run.reference,
    )


def _outcome_summary(receipt: p.ReceiptRow) -> str:
    target = receipt.target or "no target"
    return f"did {receipt.connector} {receipt.operation} on {target} happen? ({receipt.action})"


def _facts(receipt: p.ReceiptRow, known: str | None) -> dict[str, Any]:
    """Both facts that the person must see: what was begun, and what is known."""
    return {
        "begun": f"attempt {receipt.attempt} was begun at {_moment(receipt.opened_at)} by {_holder(receipt)}",
        "known": known or receipt.error or "its worker stopped before the outcome was recorded",
        "receipt": receipt.id,
        "token": receipt.token,
    }


def _task_id(held: Held, call: Call, kind: Literal["approval", "outcome"], now: int) -> str:
    return tasks.task_id(call.name, held.generation, kind, call.digest, f"{held.epoch}.{now}")


def _younger(before: p.TaskRow | None, now: int) -> int:
    """Of a call's tasks the youngest counts, so it is younger than the last one, even by a clock that is behind."""
    return now if before is None else max(now, before.created_at + 1)


def _moment(microseconds: int) -> str:
    return datetime.datetime.fromtimestamp(microseconds / 1e6, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _holder(receipt: p.ReceiptRow) -> str:
    return receipt.token.split("~")[0]


def _task(
    held: Held,
    call: Call,
    kind: Literal["approval", "outcome"],
    id: str,
    summary: str,
    more: dict[str, Any],
    *,
    created_at: int,
    tier: str = "med",
    two_person: bool = False,
    candidates: tuple[str, ...] = (),
    policy: str = "",
    rule: str | None = None,
    expires_at: int | None = None,
) -> p.TaskRow:
    proposal, row = call.proposal, held.row
    details = {
        "action": proposal.name,
        "connector": proposal.connector,
        "operation": proposal.operation,
        "target": proposal.target,
        "fields": dict(proposal.fields),
        "risk": proposal.risk,
        "writes": proposal.writes,
        "reverse": proposal.reverse,
        "key": proposal.key,
        "workflow": row.workflow,
        **more,
    }
    return p.TaskRow(
        tenant=row.key.tenant,
        id=id,
        run=row.key.run,
        generation=held.generation,
        root=call.promise.root,
        position=call.promise.path[-1],
        kind=kind,
        status="requested",
        version=1,
        proposal=call.digest,
        summary=summary,
        details=canonical(details),
        tier=tier,
        two_person=two_person,
        candidates=candidates,
        starter=row.actor,
        policy=policy,
        rule=rule,
        created_at=created_at,
        expires_at=expires_at,
        reference=held.present_reference,
    )


def withdrawn(call: Call, now: int) -> tuple[p.CancelTask, ...]:
    """The changes that close the open tasks of a call that needs no answer any more.

    They are closed here, too: the call may be judged again, and would wait for an answer that nobody can give any more.
    """
    asked = call.open_tasks
    for task in asked:
        call.learn_task(tasks.close(task, "cancelled", now))
    return tuple(cancelled(task, now) for task in asked)
