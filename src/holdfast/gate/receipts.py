"""Receipts in the form in which people and reversing actions see them."""

from __future__ import annotations

from typing import Any

import cbor2
import msgspec

from holdfast.store.receipts import ReceiptRow as Row


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt of an action and its outcome. Secret arguments are shown as ``"[secret]"``."""

    id: str
    key: str
    run: str
    state: str
    action: str
    connector: str
    operation: str
    target: str
    arguments: dict[str, Any]
    result: Any = None
    error: str | None = None
    actor: str | None = None
    attempt: int = 1
    opened_at: int = 0
    closed_at: int | None = None
    reverse: str | None = None
    reverses: str | None = None
    reversed_by: str | None = None
    cost: dict[str, Any] | None = None


def view(row: Row, result: bytes | None) -> Receipt:
    """A row as a receipt. ``result`` has the bytes of its result, because they may be in a blob."""
    return Receipt(
        id=row.id,
        key=row.key,
        run=row.run,
        state=row.state,
        action=row.action,
        connector=row.connector,
        operation=row.operation,
        target=row.target,
        arguments=cbor2.loads(row.request),
        result=None if result is None else cbor2.loads(result),
        error=row.error,
        actor=row.actor,
        attempt=row.attempt,
        opened_at=row.opened_at,
        closed_at=row.closed_at,
        reverse=row.reverse,
        reverses=row.reverses,
        reversed_by=row.reversed_by,
        cost=row.cost,
    )
