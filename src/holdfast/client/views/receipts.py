"""A receipt as people and programs see it, and as ``--json`` writes it. The keys are stable: scripts read them.

An author of a reversing action gets a ``Receipt`` instead: that is recorded in journals, and keeps its shape.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from holdfast.client.views.times import iso, moment
from holdfast.client.views.values import UnreadableValue, data_value, plain
from holdfast.journal.promise import PromiseId
from holdfast.store.protocol import ReceiptRow, ReceiptState


class ReceiptInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What an action attempted and what came of it. Secret arguments are shown as ``"[secret]"``.

    ``result`` is an UnreadableValue where it is large and was not asked for. ``proposal`` is the hash of what was
    proposed, which an approval names.
    """

    id: str
    tenant: str
    run: str
    state: ReceiptState
    action: str
    connector: str
    operation: str
    target: str
    writes: bool
    risk: str
    arguments: Any  # by name, as the action was called
    result: Any
    error: str | None
    cost: dict[str, float | str] | None
    key: str  # the idempotency key
    round: int  # of that key: each act under it that was taken back ends one
    attempt: int
    actor: str | None
    task: str | None  # the approval that let it be done, or the question what became of it
    reverse: str | None  # the action that takes it back
    reverses: str | None  # the receipt of the act that this one took back
    reversed_by: str | None  # the receipt of the act that took it back, or the name of the undo
    proposal: str
    promise_id: str
    opened_at: datetime
    closed_at: datetime | None
    holders: dict[str, str] | None = None
    """The runs that rely on the act: ``open`` ones undo it if they fail, ``kept`` is for good. None in a list."""


def receipt_info(row: ReceiptRow, large_result: bytes | None = None) -> ReceiptInfo:
    """A receipt's row as a view; ``large_result`` are the bytes of a result that is kept as a blob."""
    return ReceiptInfo(
        id=row.id,
        tenant=row.tenant,
        run=row.run,
        state=row.state,
        action=row.action,
        connector=row.connector,
        operation=row.operation,
        target=row.target,
        writes=row.writes,
        risk=row.risk,
        arguments=data_value(row.request),
        result=_result(row, large_result),
        error=row.error,
        cost=row.cost,
        key=row.key,
        round=row.round,
        attempt=row.attempt,
        actor=row.actor,
        task=row.task,
        reverse=row.reverse,
        reverses=row.reverses,
        reversed_by=row.reversed_by,
        proposal=row.proposal.hex(),
        promise_id=str(PromiseId(row.root).child(row.position)),
        opened_at=moment(row.opened_at),
        closed_at=moment(row.closed_at),
    )


def _result(row: ReceiptRow, large: bytes | None) -> Any:
    data = row.result if large is None else large
    if data is None and row.result_blob is not None:
        return UnreadableValue(b"", blob=row.result_blob.hex())
    return None if data is None else data_value(data)


def receipt_record(receipt: ReceiptInfo) -> dict[str, Any]:
    """A receipt as ``--json`` writes it; a large result that was not asked for is named by its hash."""
    return {
        "id": receipt.id,
        "tenant": receipt.tenant,
        "run": receipt.run,
        "state": receipt.state,
        "action": receipt.action,
        "connector": receipt.connector,
        "operation": receipt.operation,
        "target": receipt.target,
        "writes": receipt.writes,
        "risk": receipt.risk,
        "arguments": plain(receipt.arguments),
        "result": plain(receipt.result),
        "error": receipt.error,
        "cost": receipt.cost,
        "key": receipt.key,
        "round": receipt.round,
        "attempt": receipt.attempt,
        "actor": receipt.actor,
        "task": receipt.task,
        "reverse": receipt.reverse,
        "reverses": receipt.reverses,
        "reversed_by": receipt.reversed_by,
        "proposal": receipt.proposal,
        "promise_id": receipt.promise_id,
        "opened_at": iso(receipt.opened_at),
        "closed_at": iso(receipt.closed_at),
        "holders": receipt.holders,
    }
