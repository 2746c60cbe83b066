"""Who relies on an act, and who takes it back. See ``store/holding``."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.store.holding import chosen, relying, state_of
from holdfast.store.memory.tables import Tables

_APPLIED: Final = p.Holding()


def stakes(tables: Tables, tenant: str, receipt: str) -> p.Stakes:
    """All holders of a receipt as their runs are now, and who has taken it."""
    rows = []
    for caller, (state, _) in sorted(tables.holders.get((tenant, receipt), {}).items()):
        run = tables.runs.get(p.Key(tenant, caller.run))
        standing, is_lane = (None, False) if run is None else (run.standing, run.program_kind == p.MACHINE)
        rows.append(p.HolderRow(caller, state_of(state, standing, is_lane=is_lane)))
    return p.Stakes(tuple(rows), tables.takings.get((tenant, receipt)))


def act_of(tables: Tables, tenant: str, caller: p.ActCaller) -> p.ReceiptRow | None:
    """The receipt of the act that a call did or relies on."""
    held = {
        id: holders[caller][1] for (of, id), holders in tables.holders.items() if of == tenant and caller in holders
    }
    rows = [row for row in tables.receipts.values() if row.tenant == tenant]
    return chosen([(held[row.id], row) for row in rows if row.id in held], rows, caller)


def _by_id(tables: Tables, tenant: str, id: str) -> p.ReceiptRow | None:
    return next((row for row in tables.receipts.values() if (row.tenant, row.id) == (tenant, id)), None)


def taken_by(tables: Tables, run: p.Key) -> list[p.TakenAct]:
    """The receipts that a run has taken."""
    found = [(place, name) for place, (name, of) in tables.takings.items() if (place[0], of) == run]
    rows = [(name, _by_id(tables, *place)) for place, name in sorted(found)]
    return [p.TakenAct(name, row) for name, row in rows if row is not None]


def holdable(tables: Tables, change: p.Hold) -> p.ReceiptRow | None:
    """The receipt of an act, if a call may rely on it."""
    row = _by_id(tables, change.tenant, change.receipt)
    if row is None or row.state != "succeeded":
        return None
    is_taken = row.reversed_by is not None or (change.tenant, change.receipt) in tables.takings
    return None if is_taken and not change.inherited else row


def hold(tables: Tables, change: p.Hold) -> p.Answer:
    if (row := holdable(tables, change)) is None:
        return p.Fenced()
    _hold(tables, row, change.caller, change.at)
    return _APPLIED


def hold_former(tables: Tables, change: p.HoldFormer) -> p.Answer:
    for root, former, position in change.calls:
        before = p.ActCaller(change.run, root, former)
        if (row := act_of(tables, change.tenant, before)) is not None:
            _hold(tables, row, p.ActCaller(change.run, root, position), change.at)
            _set(tables, row, before, "let_go")
    return _APPLIED


def _hold(tables: Tables, row: p.ReceiptRow, caller: p.ActCaller, at: int) -> None:
    holders = tables.holders.setdefault((row.tenant, row.id), {})
    holders.setdefault(_doer(row), ("open", row.opened_at))
    state, since = holders.get(caller, ("open", at))
    holders[caller] = "kept" if state == "kept" else "open", max(since, at)


def _doer(row: p.ReceiptRow) -> p.ActCaller:
    return p.ActCaller(row.run, row.root, row.position)


def set_holds(tables: Tables, change: p.SetHolds) -> p.Answer:
    for root, position in change.calls:
        caller = p.ActCaller(change.run, root, position)
        if (row := act_of(tables, change.tenant, caller)) is not None:
            _set(tables, row, caller, change.state)
    return _APPLIED


def _set(tables: Tables, row: p.ReceiptRow, caller: p.ActCaller, state: p.HolderState) -> None:
    holders = tables.holders.setdefault((row.tenant, row.id), {})
    holders[caller] = state, holders.get(caller, (state, row.opened_at))[1]


def take_back(tables: Tables, change: p.TakeBack) -> tuple[p.Answer, bool]:
    """The answer, and whether this change itself took the receipt: only then its notes are made."""
    place = change.tenant, change.receipt
    row = _by_id(tables, *place)
    if row is None:
        return p.Fenced(), False
    taking = tables.takings.get(place)
    if taking is not None and taking[0] == change.name:
        return p.TookBack(), False
    if taking is not None or row.reversed_by is not None:
        return p.Taken(row), False
    rest = relying(stakes(tables, *place).holders, change.caller)
    _set(tables, row, change.caller, "let_go")
    if rest is not None:
        return rest, False
    tables.takings[place] = change.name, change.caller.run
    return p.TookBack(), True


def settle(tables: Tables, change: p.SettleTaking) -> tuple[p.Answer, bool]:
    """The answer, and whether this change itself settled it."""
    place = change.tenant, change.receipt
    taking = tables.takings.get(place)
    if taking is None or taking[0] != change.name:
        return _APPLIED, False
    del tables.takings[place]
    if change.done:
        mark_reversed(tables, *place, change.name)
    return _APPLIED, True


def mark_reversed(tables: Tables, tenant: str, reversed_id: str, by: str) -> None:
    """The act of this receipt was taken back."""
    for place, receipt in tables.receipts.items():
        if place[0] == tenant and receipt.id == reversed_id:
            tables.receipts[place] = replace(receipt, reversed_by=by)


def begin_reversal(tables: Tables, change: p.OpenReceipt) -> p.Answer | None:
    """Take the receipt of the act that this one reverses; gives why that is not possible."""
    receipt = change.receipt
    assert receipt.reverses is not None
    place = receipt.tenant, receipt.reverses
    row = _by_id(tables, *place)
    if row is None:
        return None
    taking = tables.takings.get(place)
    if row.reversed_by is not None or (taking is not None and taking[0] != receipt.id):
        return p.Taken(row)
    if change.heeds_holders and taking is None:
        tables.holders.setdefault(place, {}).setdefault(_doer(row), ("open", row.opened_at))
        for holder in stakes(tables, *place).holders:
            if holder.state == "open" and holder.caller.run != receipt.run:
                return p.HeldBy(holder.caller.run, kept=False)
    tables.takings[place] = receipt.id, receipt.run
    return None


def close_reversal(tables: Tables, receipt: p.ReceiptRow) -> None:
    """The act that reverses another has ended: that one is taken back, or given back, or neither is known yet."""
    assert receipt.reverses is not None
    place = receipt.tenant, receipt.reverses
    if receipt.state == "succeeded":
        mark_reversed(tables, *place, receipt.id)
    if receipt.is_known and tables.takings.get(place, ("",))[0] == receipt.id:
        del tables.takings[place]


def forget(tables: Tables, run: p.Run) -> None:
    """A run is deleted: what it still held it keeps if it has completed, else lets go."""
    for (tenant, _), holders in tables.holders.items():
        for caller, (state, at) in holders.items():
            if (tenant, caller.run) == run.key and state == "open":
                holders[caller] = state_of(state, run.standing, is_lane=False), at
