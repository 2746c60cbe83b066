"""What passes the gate, as rows and records: receipts, tasks, and the audit's notes of them."""

from __future__ import annotations

import math
from typing import Any, Literal
from zlib import crc32

import msgspec

from holdfast.audit import records as r
from holdfast.audit.notes import named, note
from holdfast.gate.call import Call, is_of
from holdfast.gate.effects import Effect
from holdfast.gate.judgement import Refuse
from holdfast.gate.policy.policy import Ruling
from holdfast.journal import events as e
from holdfast.journal.blobs import THRESHOLD_BYTES, digest_of
from holdfast.journal.payload import Err, Ok, Payload
from holdfast.kernel.arrivals import AttemptFailed, SignalArrived
from holdfast.kernel.requests import Invoke
from holdfast.programs.function.failures import describe
from holdfast.programs.function.interrupts import is_interrupt
from holdfast.store import protocol as p
from holdfast.worker.held import Held
from holdfast.worker.steps.performance import Outcome

# -- decisions ---------------------------------------------------------------------------------------------------------


def allowed(held: Held, call: Call, ruling: Ruling, task: p.TaskRow | None, now: int) -> p.Note:
    """The decision that an act may be done, because policy lets it or people have approved it."""
    stage = ruling.stage if task is None else "approval"
    task_id = None if task is None else task.id
    return _decision(held, call, "allow", stage, ruling.rule, ruling.policy, ruling.reason, task_id, now)


def done_before(held: Held, call: Call, ruling: Ruling, found: p.ReceiptRow, now: int) -> p.Note:
    """The decision that nobody is asked to approve an act, because it was done under its key with the same request."""
    reason = f"{ruling.reason}; receipt {found.id} has done it with the same request, so nobody is asked"
    return _decision(held, call, "allow", "key", ruling.rule, ruling.policy, reason, None, now)


def referred(held: Held, call: Call, ruling: Ruling, task: p.TaskRow, now: int) -> p.Note:
    """The decision that people must approve an act first."""
    rule, policy, reason = ruling.rule, ruling.policy, ruling.reason
    return _decision(held, call, "needs_approval", ruling.stage, rule, policy, reason, task.id, now)


def refused(held: Held, call: Call, verdict: Refuse, now: int) -> p.Note:
    """The decision that an act must not be done."""
    rule, policy, reason = verdict.rule, verdict.policy, verdict.reason
    return _decision(held, call, "deny", verdict.stage, rule, policy, reason, None, now)


def _decision(
    held: Held,
    call: Call,
    decision: Literal["allow", "deny", "needs_approval"],
    stage: str,
    rule: str | None,
    policy: str | None,
    reason: str,
    task: str | None,
    now: int,
) -> p.Note:
    proposal, row = call.proposal, held.row
    record = r.Decided(
        now,
        row.key.run,
        call.name,
        row.workflow,
        proposal.name,
        proposal.connector,
        proposal.operation,
        proposal.target,
        proposal.writes,
        proposal.risk,
        call.digest_hex,
        _types(call),
        decision,
        stage,
        rule,
        policy,
        reason,
        row.actor,
        task,
    )
    return note(row.key.tenant, row.key.run, record)


def _types(call: Call) -> dict[str, str]:
    """The types of the arguments; "secret" where one is, or holds, a secret."""
    secrets = call.effect.secret_names
    return {name: "secret" if name in secrets else r.type_of(value) for name, value in call.proposal.fields.items()}


def unread(held: Held, request: Invoke, effect: Effect | None, reason: str, now: int) -> p.Note:
    """The decision about a call that nothing can be proposed of: its arguments do not fit, or its effect is gone.

    It records no more than the names of its secrets, and with them that its input must not be shown by its hash.
    """
    row = held.row
    record = r.Decided(
        now,
        row.key.run,
        str(request.promise_id),
        row.workflow,
        request.function_name,
        "" if effect is None else effect.connector,
        "" if effect is None else effect.operation,
        "",
        True if effect is None else effect.writes,
        "high" if effect is None else effect.risk,
        "",
        {} if effect is None else dict.fromkeys(sorted(effect.secret_names), "secret"),
        "deny",
        "schema",
        None,
        None,
        reason,
        row.actor,
    )
    return note(row.key.tenant, row.key.run, record)


# -- receipts ----------------------------------------------------------------------------------------------------------


def opened(held: Held, call: Call, token: str, task: p.TaskRow | None, now: int) -> p.ReceiptRow:
    """The receipt of an act that is about to be done."""
    proposal, row, promise = call.proposal, held.row, call.promise
    key = proposal.key if call.round == 1 else f"{proposal.key}#{call.round}"
    return p.ReceiptRow(
        tenant=row.key.tenant,
        key=key,
        # Beside each other for one run, and another where the key's template was changed between two attempts, or its
        # round. See ``store/holding.id_span``.
        id=f"r-{promise.root.hex()[:12]}-{promise.path[-1]}-{crc32(key.encode()):08x}",
        run=row.key.run,
        root=promise.root,
        position=promise.path[-1],
        attempt=call.request.attempt,
        token=token,
        state="pending",
        action=proposal.name,
        connector=proposal.connector,
        operation=proposal.operation,
        target=proposal.target,
        writes=proposal.writes,
        risk=proposal.risk,
        proposal=call.digest,
        request=proposal.request,
        opened_at=now,
        actor=row.actor,
        reverse=proposal.reverse,
        reverses=call.reverses,
        task=None if task is None else task.id,
        round=call.round,
        once=call.effect.key_once,
    )


def outcome(held: Held, call: Call, outcome: Outcome, now: int) -> p.CloseReceipt:
    """The receipt of an attempt that has ended, or of which a probe has found what came of it."""
    attempt = call.attempt
    blobs: dict[bytes, bytes] = {}
    result: bytes | None = None
    blob: bytes | None = None
    cost: dict[str, float | str] | None = None
    error: str | None = None
    state: p.ReceiptState
    if not isinstance(outcome, AttemptFailed) and isinstance(outcome.outcome, Ok):
        state, result = "succeeded", outcome.outcome.value.data
        cost = _cost(call, outcome.outcome.value)
        if len(result) > THRESHOLD_BYTES:
            blob = digest_of(result)
            blobs[blob], result = result, None
    else:
        failure = outcome.failure if isinstance(outcome, AttemptFailed) else _failure(outcome.outcome)
        error = str(failure)
        # Done, and its result cannot be kept: repeating it would do it twice.
        state = "failed"
        if attempt is not None and (attempt.done or (attempt.unknown and not call.is_harmless)):
            state = "succeeded" if attempt.done else "unknown"
    closed = msgspec.structs.replace(
        call.receipt,
        state=state,
        result=result,
        result_blob=blob,
        cost=cost,
        error=error,
        closed_at=now,
        abandoned=False,
        asked=call.receipt.asked if state == "unknown" else None,
    )
    return close(held, call, closed, now, blobs)


def unknown(held: Held, call: Call, receipt: p.ReceiptRow, now: int) -> p.CloseReceipt:
    """The receipt of this call's attempt whose outcome is unknown: the worker that had begun it is gone."""
    closed = msgspec.structs.replace(receipt, state="unknown", error="nothing is known of its outcome")
    return close(held, call, closed, now)


def failed(held: Held, call: Call, why: str, now: int) -> p.CloseReceipt:
    """The receipt of an act that was not done."""
    known = msgspec.structs.replace(call.receipt, state="failed", error=why, closed_at=now, abandoned=False, asked=None)
    return close(held, call, known, now)


def never_begun(held: Held, call: Call, now: int) -> p.CloseReceipt:
    """The receipt of an act that was allowed and not begun."""
    return failed(held, call, "the worker let it go before it began", now)


def _failure(outcome: Ok[Payload] | Err) -> Any:
    assert isinstance(outcome, Err)
    return outcome.failure


def _cost(call: Call, result: Payload) -> dict[str, float | str] | None:
    """The cost that the effect states. A fault in it must not lose the receipt of an act."""
    effect = call.effect
    try:
        cost = effect.cost_of(result)
        if cost is None:
            return None
        return {
            "provider": _text(cost.provider),
            "model": _text(cost.model),
            "amount": _amount(cost.amount),
            "currency": _text(cost.currency),
        }
    except BaseException as error:
        if is_interrupt(error):
            raise
        why = f"cost= failed: {effect.scrub_text(describe(error).message, call.arguments)}"
        return {"provider": "unknown", "model": "", "amount": 0.0, "currency": "", "error": why}


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
    held: Held,
    call: Call,
    receipt: p.ReceiptRow,
    now: int,
    blobs: p.Blobs | None = None,
    proposal: bytes | None = None,
) -> p.CloseReceipt:
    """A receipt's end, with its note. The note is about what was allowed: the code may propose something else by now.

    The receipt may be another call's; then it is about this call's ``proposal``, its present one unless it is given.
    """
    if is_of(receipt, call.promise):
        proposal = receipt.proposal
    digest_hex = call.digest_hex if proposal is None else proposal.hex()
    record = receipted(held.key.run, call.name, digest_hex, receipt, receipt.state, now, blobs or {})
    return closing(receipt, held.key.run, record, blobs or {})


def closing(receipt: p.ReceiptRow, run: str, record: r.Receipted, blobs: p.Blobs) -> p.CloseReceipt:
    """The change that closes a receipt, with its note."""
    entry = note(receipt.tenant, run, record)
    # An unknown outcome may be closed again with another text: then the receipt does not show which was applied.
    return p.CloseReceipt(receipt, blobs, (named(entry) if receipt.state == "unknown" else entry,))


def reused(held: Held, call: Call, found: p.ReceiptRow, now: int) -> p.Note:
    """The note that an act was not repeated, because a receipt of another call has its success.

    It has an id: where the turn that carries it is refused, it goes alone, and that turn may have come through.
    """
    record = receipted(held.key.run, call.name, call.digest_hex, found, "reused", now, {})
    return named(note(found.tenant, held.key.run, record))


def receipted(
    run: str, promise: str, proposal: str, receipt: p.ReceiptRow, state: str, now: int, blobs: p.Blobs
) -> r.Receipted:
    """The record of what became of an attempt."""
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
        receipt.once,
    )


def ignored(held: Held, signal: SignalArrived, now: int) -> p.Note:
    """The note of a signal that came for an earlier version of a run, or for a wait that is over, and so changed
    nothing."""
    key = held.key
    meant = f"version {signal.expected_version}" if signal.expected_version is not None else f"wait {signal.wait_token}"
    reason = f"ignored: it was for {meant}, and the run has moved on"
    record = r.Operated(now, "signal", f"worker {held.row.owner}", key.run, reason, {"signal": signal.name})
    return named(note(key.tenant, key.run, record))


def taken_back(held: Held, receipt: p.ReceiptRow, name: str, reason: str, now: int) -> p.Note:
    """The note of an undo of this receipt's act: it has taken the receipt, has undone the act, gives the receipt back,
    or does nothing, because the act is another run's to undo."""
    details = {"receipt": receipt.id, "action": receipt.action, "undo": name}
    tenant, run = held.key
    return named(note(tenant, run, r.Operated(now, r.UNDO, f"worker {held.row.owner}", run, reason, details)))


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
