"""What passes the gate, as rows and records: receipts, tasks, and the audit's notes of them."""

from __future__ import annotations

import math
from typing import Any, Literal, TypeGuard
from zlib import crc32

import msgspec

from holdfast.audit import records as r
from holdfast.audit.notes import named, note
from holdfast.gate.judgement import Refuse
from holdfast.gate.policy.policy import Ruling
from holdfast.journal import events as e
from holdfast.journal.blobs import THRESHOLD_BYTES, digest_of
from holdfast.journal.payload import Err, Ok, Payload
from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import AttemptFailed
from holdfast.kernel.requests import Invoke
from holdfast.programs.function.actions import Action, Cost
from holdfast.programs.function.failures import describe
from holdfast.programs.function.interrupts import is_interrupt
from holdfast.store import protocol as p
from holdfast.worker.gate.calls import Case, Clearance, is_of
from holdfast.worker.held import Held
from holdfast.worker.performer import Outcome

# -- decisions ---------------------------------------------------------------------------------------------------------


def decided(
    case: Case, effect: Literal["allow", "needs_approval"], ruling: Ruling, *, task: p.TaskRow | None = None
) -> p.Note:
    stage = "approval" if task is not None and effect == "allow" else ruling.stage
    return _decision(case, effect, stage, ruling.rule, ruling.policy, ruling.reason, None if task is None else task.id)


def refused(case: Case, verdict: Refuse) -> p.Note:
    return _decision(case, "deny", verdict.stage, verdict.rule, verdict.policy, verdict.reason, None)


def _decision(
    case: Case,
    effect: Literal["allow", "deny", "needs_approval"],
    stage: str,
    rule: str | None,
    policy: str | None,
    reason: str,
    task: str | None,
) -> p.Note:
    proposal, row = case.proposal, case.held.row
    record = r.Decided(
        case.now,
        row.key.run,
        case.name,
        row.workflow,
        proposal.name,
        proposal.connector,
        proposal.operation,
        proposal.target,
        proposal.writes,
        proposal.risk,
        case.told,
        case.fields,
        effect,
        stage,
        rule,
        policy,
        reason,
        row.actor,
        task,
    )
    return note(row.key.tenant, row.key.run, record)


def unread(held: Held, request: Invoke, action: Action[..., Any] | None, reason: str, now: int) -> p.Note:
    """The decision about a call that nothing can be proposed of: its arguments do not fit, or its action is gone.

    It tells no more than the names of its secrets, and with them that its input must not be shown by its hash.
    """
    row = held.row
    record = r.Decided(
        now,
        row.key.run,
        str(request.promise_id),
        row.workflow,
        request.function_name,
        "" if action is None else action.connector,
        "" if action is None else action.operation,
        "",
        True if action is None else action.writes,
        "high" if action is None else action.risk,
        "",
        {} if action is None else dict.fromkeys(sorted(action.secrets.names), "secret"),
        "deny",
        "schema",
        None,
        None,
        reason,
        row.actor,
    )
    return note(row.key.tenant, row.key.run, record)


# -- receipts ----------------------------------------------------------------------------------------------------------


def opened(case: Case, token: str, task: p.TaskRow | None) -> p.ReceiptRow:
    """The receipt of an act that is about to be done."""
    proposal, row, promise = case.proposal, case.held.row, case.promise
    reverses = None
    if case.action.takes_receipt:
        taken = case.arguments.get(case.action.first_argument)
        reverses = taken.get("id") if isinstance(taken, dict) else None
    return p.ReceiptRow(
        tenant=row.key.tenant,
        key=proposal.key,
        # Beside each other for one run, and another where the key's template was changed between two attempts.
        id=f"r-{promise.root.hex()[:12]}-{promise.path[-1]}-{crc32(proposal.key.encode()):08x}",
        run=row.key.run,
        root=promise.root,
        position=promise.path[-1],
        attempt=case.request.attempt,
        token=token,
        state="pending",
        action=proposal.name,
        connector=proposal.connector,
        operation=proposal.operation,
        target=proposal.target,
        writes=proposal.writes,
        risk=proposal.risk,
        proposal=case.digest,
        request=case.proposal.request,
        opened_at=case.now,
        actor=row.actor,
        reverse=proposal.reverse,
        reverses=reverses,
        task=None if task is None else task.id,
    )


def outcome(clearance: Clearance, outcome: Outcome, now: int) -> p.CloseReceipt:
    """The receipt of an attempt that has ended."""
    receipt, case = clearance.receipt, clearance.case
    performance = clearance.performance
    done = not clearance.probing and performance is not None and performance.done
    blobs: dict[bytes, bytes] = {}
    result: bytes | None = None
    blob: bytes | None = None
    cost: dict[str, float | str] | None = None
    error: str | None = None
    state: p.ReceiptState
    if not isinstance(outcome, AttemptFailed) and isinstance(outcome.outcome, Ok):
        state, result = "succeeded", outcome.outcome.value.data
        cost = _cost(case, outcome.outcome.value)
        if len(result) > THRESHOLD_BYTES:
            blob = digest_of(result)
            blobs[blob], result = result, None
    else:
        failure = outcome.failure if isinstance(outcome, AttemptFailed) else _failure(outcome.outcome)
        error = str(failure)
        # Done, and its result cannot be kept: repeating it would do it twice.
        state = "succeeded" if done else "unknown" if performance is not None and performance.unknown else "failed"
    closed = msgspec.structs.replace(
        receipt, state=state, result=result, result_blob=blob, cost=cost, error=error, closed_at=now, abandoned=False
    )
    return close(case, closed, now, blobs)


def unknown(case: Case, receipt: p.ReceiptRow) -> p.CloseReceipt:
    """The receipt of this call's attempt that nothing is known of: whoever had begun it is gone."""
    told = msgspec.structs.replace(receipt, state="unknown", error="nothing is known of its outcome")
    return close(case, told, case.now)


def failed(clearance: Clearance, why: str, now: int) -> p.CloseReceipt:
    """The receipt of an act that was not done."""
    receipt = msgspec.structs.replace(clearance.receipt, state="failed", error=why, closed_at=now, abandoned=False)
    return close(clearance.case, receipt, now)


def _failure(outcome: Ok | Err) -> Any:
    assert isinstance(outcome, Err)
    return outcome.failure


def _cost(case: Case, result: Payload) -> dict[str, float | str] | None:
    """What the act cost, by its own word. Whatever is wrong with that must not lose the receipt of an act."""
    action = case.action
    if action.cost is None:
        return None
    try:
        cost = action.cost(action.read_result(result))
        if not isinstance(cost, Cost):
            raise TypeError(f"it gave {type(cost).__name__} instead of a Cost")
        told: dict[str, float | str] = {
            "provider": _text(cost.provider),
            "model": _text(cost.model),
            "amount": _amount(cost.amount),
            "currency": _text(cost.currency),
        }
    except BaseException as error:
        if is_interrupt(error):
            raise
        why = f"cost= failed: {action.secrets.scrub_text(describe(error).message, case.arguments)}"
        return {"provider": "unknown", "model": "", "amount": 0.0, "currency": "", "error": why}
    return told


def _text(value: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    value.encode()  # a lone surrogate cannot be written
    return value


def _amount(value: float) -> float:
    amount = float(value)
    if not math.isfinite(amount):
        raise ValueError(f"{amount} is no amount")
    return amount


def close(
    case: Case, receipt: p.ReceiptRow, now: int, blobs: p.Blobs | None = None, proposal: bytes | None = None
) -> p.CloseReceipt:
    """A receipt's end, with its note. The note is about what was allowed: the code may propose something else by now.

    The receipt may be another call's; then it is about this call's ``proposal``, its present one unless it is given.
    """
    if is_of(receipt, case.promise):
        proposal = receipt.proposal
    told = case.told if proposal is None else proposal.hex()
    record = _told(case.held.key.run, case.name, told, receipt, receipt.state, now, blobs or {})
    return _closing(receipt, case.held.key.run, record, blobs or {})


def is_unaccounted(receipt: p.ReceiptRow | None, promise: PromiseId) -> TypeGuard[p.ReceiptRow]:
    """Whether this is the call's own attempt, of which nobody knows or has said that it is left at that."""
    if receipt is None or not is_of(receipt, promise):
        return False
    return receipt.state == "pending" or (receipt.state == "unknown" and not receipt.abandoned)


def abandoned(held: Held, promise: PromiseId, receipt: p.ReceiptRow, now: int) -> p.CloseReceipt:
    """The receipt of an attempt that nobody waits for any more and whose outcome nothing here can tell."""
    error = r.ABANDONED if receipt.error is None else f"{receipt.error}; {r.ABANDONED}"
    unknown = msgspec.structs.replace(receipt, state="unknown", error=error, abandoned=True)
    record = _told(held.key.run, str(promise), receipt.proposal.hex(), unknown, "unknown", now, {})
    return _closing(unknown, held.key.run, record, {})


def _closing(receipt: p.ReceiptRow, run: str, record: r.Receipted, blobs: p.Blobs) -> p.CloseReceipt:
    told = note(receipt.tenant, run, record)
    # What is unknown may be told again, in other words: then the receipt does not show which of the two came through.
    return p.CloseReceipt(receipt, blobs, (named(told) if receipt.state == "unknown" else told,))


def reused(case: Case, found: p.ReceiptRow, now: int) -> p.Note:
    """The note that an act was not repeated, because a receipt of another call has its success.

    It has an id: where the turn that carries it is refused, it goes alone, and that turn may have come through.
    """
    record = _told(case.held.key.run, case.name, case.told, found, "reused", now, {})
    return named(note(found.tenant, case.held.key.run, record))


def _told(
    run: str, promise: str, proposal: str, receipt: p.ReceiptRow, state: str, now: int, blobs: p.Blobs
) -> r.Receipted:
    response = None
    if receipt.result is not None:
        response = r.of_bytes("result", receipt.result)
    elif receipt.result_blob is not None:
        response = r.Metadata("result", len(blobs.get(receipt.result_blob, b"")) or None, receipt.result_blob.hex())
    return r.Receipted(
        now,
        run,
        promise,
        receipt.id,
        receipt.key,
        receipt.attempt,
        state,
        receipt.action,
        receipt.connector,
        receipt.operation,
        receipt.target,
        receipt.writes,
        proposal,
        r.of_bytes("arguments", receipt.request),
        response,
        receipt.error,
        receipt.reverse is not None and state == "succeeded",
        receipt.reverse,
        receipt.reverses,
        receipt.cost,
        receipt.opened_at,
        receipt.actor,
    )


# -- ends --------------------------------------------------------------------------------------------------------------


def ended(held: Held, started: e.ExecutionStarted, ending: e.Event, segment: p.Segment, standing: str) -> p.Note:
    """The note that binds a governed run's journal to the chain."""
    output, error = None, None
    if isinstance(ending, e.ExecutionCompleted):
        # What a continued generation gives is the next one's input.
        output = r.Metadata("arguments") if standing == "continued" else r.of_bytes("result", ending.result.data)
    elif isinstance(ending, e.ExecutionFailed):
        error = ending.error.type
    row = held.row
    record = r.Ended(
        segment.at,
        row.key.run,
        row.workflow,
        started.component_digest,
        held.generation,
        standing,
        held.id.root.hex(),
        segment.first + segment.count,
        segment.head.hex(),
        r.Metadata("arguments"),  # the head binds them; by their hash a secret among them could be guessed
        output,
        row.actor,
        error,
    )
    return note(row.key.tenant, row.key.run, record)
