"""Orphaned receipts: attempts that may have been done, and whose outcome no run waits for any more.

A receipt that was begun is closed by its act, by a probe, or by what a person says. One that its run leaves behind
names the task that asks. See ``worker/roles/inquirer``.
"""

from __future__ import annotations

import cbor2
import msgspec

from holdfast.audit import records as r
from holdfast.gate.call import Call, is_of, is_unaccounted
from holdfast.store import protocol as p
from holdfast.tasks.answers import GIVEN_UP, HAPPENED, is_about, task_id, verdict_of
from holdfast.worker.gate.entries import closing, receipted
from holdfast.worker.held import Held


def left(held: Held, call: Call, receipt: p.ReceiptRow, now: int) -> p.CloseReceipt:
    """The receipt of an attempt that may have been done, and that its run waits for no more.

    If people can still find out, they are asked: by the task that its run has asked, else by one that the inquirer
    makes. See ``worker/roles/inquirer``.
    """
    if call.state in ("acting", "probing"):  # it may still end, and then its end replaces this
        return abandoned(held.key.run, call.name, receipt, now, orphan_task_id(call.name, receipt))
    if call.was_not_done:
        return _failed(held.key.run, call.name, receipt, f"{call.decider} said that it did not happen", now)
    if not receipt.writes:
        return unread(held.key.run, call.name, receipt, now)
    task = call.outcome
    asked: str | None = orphan_task_id(call.name, receipt)
    if task is not None and is_about(task, receipt) and task.status != "cancelled":
        asked = None if verdict_of(task) == GIVEN_UP else task.id
    return abandoned(held.key.run, call.name, receipt, now, asked)


def set_aside(held: Held, call: Call, now: int) -> None:
    """A retried run may come to another call at the place of one of unknown outcome: that is not its own."""
    receipt = call.earlier
    if receipt is None or receipt.request == call.proposal.request or receipt.first_key == call.proposal.key:
        return
    call.probed = False
    if is_of(receipt, call.promise):
        if is_unaccounted(receipt, call.promise):
            held.gate_of_run().carry(left(held, call, receipt, now))
        call.earlier = None


def abandoned(run: str, name: str, receipt: p.ReceiptRow, now: int, asked: str | None) -> p.CloseReceipt:
    """The receipt of an attempt whose outcome is unknown and that no run waits for; ``asked`` is the task that asks."""
    error = receipt.error or r.ABANDONED
    error = error if error.endswith(r.ABANDONED) else f"{error}; {r.ABANDONED}"
    unknown = msgspec.structs.replace(receipt, state="unknown", error=error, abandoned=True, asked=asked)
    record = receipted(run, name, receipt.proposal.hex(), unknown, "unknown", now, {})
    return closing(unknown, run, record, {})


def answered(run: str, name: str, receipt: p.ReceiptRow, task: p.TaskRow, now: int) -> p.CloseReceipt:
    """The receipt of an abandoned attempt, closed by what a person knows of it."""
    answer = task.answers[-1]
    if (verdict := verdict_of(task)) == GIVEN_UP:
        return abandoned(run, name, receipt, now, None)
    if verdict != HAPPENED:
        return _failed(run, name, receipt, f"{answer.who} said that it did not happen", now)
    closed = msgspec.structs.replace(
        receipt,
        state="succeeded",
        result=answer.value or cbor2.dumps(None),
        error=None,
        closed_at=now,
        task=task.id,
        abandoned=False,
        asked=None,
    )
    return closing(closed, run, receipted(run, name, receipt.proposal.hex(), closed, "succeeded", now, {}), {})


def unread(run: str, name: str, receipt: p.ReceiptRow, now: int) -> p.CloseReceipt:
    """The receipt of an abandoned attempt that only reads: whether it was done makes no difference."""
    return _failed(run, name, receipt, "nobody waited for what it read", now)


def _failed(run: str, name: str, receipt: p.ReceiptRow, why: str, now: int) -> p.CloseReceipt:
    closed = msgspec.structs.replace(receipt, state="failed", error=why, closed_at=now, abandoned=False, asked=None)
    return closing(closed, run, receipted(run, name, receipt.proposal.hex(), closed, "failed", now, {}), {})


def orphan_task_id(name: str, receipt: p.ReceiptRow) -> str:
    """The id of the task that asks for the outcome of this very attempt, which no run waits for."""
    return task_id(name, 0, "outcome", receipt.proposal, receipt.token)
