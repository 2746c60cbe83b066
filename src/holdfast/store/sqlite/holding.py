"""Who relies on an act, and who takes it back. See ``store/holding``."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, Final

from holdfast.store import protocol as p
from holdfast.store.holding import chosen, id_span, relying, state_of
from holdfast.store.sqlite.rows import read_receipt
from holdfast.store.sqlite.sql import GATE

Read = Callable[[str, tuple[Any, ...]], list[Any]]
"""Executes a statement and gives its rows."""

_APPLIED: Final = p.Holding()


def reader(cursor: sqlite3.Cursor) -> Read:
    """Statements of a transaction that has begun."""
    return lambda sql, values: cursor.execute(sql, values).fetchall()


def stakes(read: Read, tenant: str, receipt: str) -> p.Stakes:
    """All holders of a receipt as their runs are now, and who has taken it."""
    rows = read(GATE["holders"], (tenant, receipt))
    holders = [
        p.HolderRow(p.ActCaller(run, root, position), state_of(state, standing, is_lane=bool(is_lane)))
        for run, root, position, state, standing, is_lane in rows
    ]
    taking = read(GATE["taking"], (tenant, receipt))
    return p.Stakes(tuple(holders), taking[0] if taking else None)


def act_of(read: Read, tenant: str, caller: p.ActCaller) -> p.ReceiptRow | None:
    """The receipt of the act that a call did or relies on."""
    held = [(at, read_receipt(*row)) for at, *row in read(GATE["held_receipts"], (tenant, *caller))]
    own = (read_receipt(*row) for row in read(GATE["receipts_in_span"], (tenant, *id_span(caller))))
    return chosen(held, own, caller)


def taken_by(read: Read, run: p.Key) -> list[p.TakenAct]:
    """The receipts that a run has taken."""
    return [p.TakenAct(name, read_receipt(*row)) for name, *row in read(GATE["takings_of_run"], run)]


def holdable(cursor: sqlite3.Cursor, change: p.Hold) -> p.ReceiptRow | None:
    """The receipt of an act, if a call may rely on it."""
    place = change.tenant, change.receipt
    row = _receipt(cursor, *place)
    if row is None or row.state != "succeeded":
        return None
    is_taken = row.reversed_by is not None or _taking(cursor, *place) is not None
    return None if is_taken and not change.inherited else row


def hold(cursor: sqlite3.Cursor, change: p.Hold) -> p.Answer:
    if (row := holdable(cursor, change)) is None:
        return p.Fenced()
    _hold(cursor, row, change.caller, change.at)
    return _APPLIED


def hold_former(cursor: sqlite3.Cursor, change: p.HoldFormer) -> p.Answer:
    for root, former, position in change.calls:
        before = p.ActCaller(change.run, root, former)
        if (row := act_of(reader(cursor), change.tenant, before)) is not None:
            _hold(cursor, row, p.ActCaller(change.run, root, position), change.at)
            cursor.execute(GATE["hold"], (row.tenant, row.id, *before, "let_go", row.opened_at))
    return _APPLIED


def _hold(cursor: sqlite3.Cursor, row: p.ReceiptRow, caller: p.ActCaller, at: int) -> None:
    _hold_of_doer(cursor, row)
    cursor.execute(GATE["hold"], (row.tenant, row.id, *caller, "open", at))


def _hold_of_doer(cursor: sqlite3.Cursor, row: p.ReceiptRow) -> None:
    cursor.execute(GATE["hold_of_doer"], (row.tenant, row.id, row.run, row.root, row.position, row.opened_at))


def set_holds(cursor: sqlite3.Cursor, change: p.SetHolds) -> p.Answer:
    for root, position in change.calls:
        caller = p.ActCaller(change.run, root, position)
        if (row := act_of(reader(cursor), change.tenant, caller)) is not None:
            cursor.execute(GATE["hold"], (change.tenant, row.id, *caller, change.state, row.opened_at))
    return _APPLIED


def take_back(cursor: sqlite3.Cursor, change: p.TakeBack) -> tuple[p.Answer, bool]:
    """The answer, and whether this change itself took the receipt: only then its notes are made."""
    place = change.tenant, change.receipt
    row = _receipt(cursor, *place)
    if row is None:
        return p.Fenced(), False
    taking = _taking(cursor, *place)
    if taking is not None and taking[0] == change.name:
        return p.TookBack(), False
    if taking is not None or row.reversed_by is not None:
        return p.Taken(row), False
    rest = relying(stakes(reader(cursor), *place).holders, change.caller)
    cursor.execute(GATE["hold"], (*place, *change.caller, "let_go", row.opened_at))
    if rest is not None:
        return rest, False
    cursor.execute(GATE["take"], (*place, change.name, change.caller.run))
    return p.TookBack(), True


def settle(cursor: sqlite3.Cursor, change: p.SettleTaking) -> tuple[p.Answer, bool]:
    """The answer, and whether this change itself settled it."""
    cursor.execute(GATE["end_taking"], (change.tenant, change.receipt, change.name))
    settled = cursor.rowcount == 1
    if settled and change.done:
        cursor.execute(GATE["reverse_receipt"], (change.tenant, change.receipt, change.name))
    return _APPLIED, settled


def reversal_refused(cursor: sqlite3.Cursor, change: p.OpenReceipt) -> p.Answer | None:
    """Why the receipt of the act that this one reverses cannot be taken."""
    receipt = change.receipt
    assert receipt.reverses is not None
    place = receipt.tenant, receipt.reverses
    row = _receipt(cursor, *place)
    if row is None:
        return None
    taking = _taking(cursor, *place)
    if row.reversed_by is not None or (taking is not None and taking[0] != receipt.id):
        return p.Taken(row)
    if change.heeds_holders and taking is None:
        _hold_of_doer(cursor, row)
        for holder in stakes(reader(cursor), *place).holders:
            if holder.state == "open" and holder.caller.run != receipt.run:
                return p.HeldBy(holder.caller.run, kept=False)
    return None


def begin_reversal(cursor: sqlite3.Cursor, receipt: p.ReceiptRow) -> None:
    """Take the receipt of the act that this one reverses: nothing stands against it."""
    cursor.execute(GATE["take"], (receipt.tenant, receipt.reverses, receipt.id, receipt.run))


def close_reversal(cursor: sqlite3.Cursor, receipt: p.ReceiptRow) -> None:
    """The act that reverses another has ended: that one is taken back, or given back, or neither is known yet."""
    assert receipt.reverses is not None
    if receipt.state == "succeeded":
        cursor.execute(GATE["reverse_receipt"], (receipt.tenant, receipt.reverses, receipt.id))
    if receipt.is_known:
        cursor.execute(GATE["end_taking"], (receipt.tenant, receipt.reverses, receipt.id))


def _receipt(cursor: sqlite3.Cursor, tenant: str, id: str) -> p.ReceiptRow | None:
    found = cursor.execute(GATE["receipt"], (tenant, id)).fetchone()
    return None if found is None else read_receipt(*found)


def _taking(cursor: sqlite3.Cursor, tenant: str, receipt: str) -> tuple[str, str] | None:
    found: tuple[str, str] | None = cursor.execute(GATE["taking"], (tenant, receipt)).fetchone()
    return found
