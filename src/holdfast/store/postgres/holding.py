"""Who relies on an act, and who takes it back. See ``store/holding``.

These changes are rare, so each is made by itself. Whoever makes one has locked the receipt that it is about.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from holdfast.store import protocol as p
from holdfast.store.holding import chosen, id_span, relying, state_of
from holdfast.store.postgres import rows
from holdfast.store.postgres.writer import Place, Writer

Fetch = Callable[..., Awaitable[Sequence[Any]]]
"""Executes a statement by its name and gives its rows."""

_APPLIED: Final = p.Holding()


async def stakes(fetch: Fetch, tenant: str, receipt: str) -> p.Stakes:
    """All holders of a receipt as their runs are now, and who has taken it."""
    holders = [
        p.HolderRow(p.ActCaller(*row[:3]), state_of(row["state"], row["standing"], is_lane=row["is_lane"]))
        for row in await fetch("holders", tenant, receipt)
    ]
    taking = await fetch("taking", tenant, receipt)
    return p.Stakes(tuple(holders), (taking[0]["name"], taking[0]["run"]) if taking else None)


async def acts_of(fetch: Fetch, tenant: str, callers: Sequence[p.ActCaller]) -> list[p.ReceiptRow | None]:
    """For each call the receipt of the act that it did, or relies on."""
    spans = [id_span(caller) for caller in callers]
    given = zip(*[(*caller, *span) for caller, span in zip(callers, spans, strict=True)], strict=True)
    held: dict[int, list[tuple[int, p.ReceiptRow]]] = {}
    own: dict[int, list[p.ReceiptRow]] = {}
    for row in await fetch("acts_of", tenant, *map(list, given)) if callers else ():
        if row["held_at"] is None:
            own.setdefault(row["number"], []).append(rows.receipt(row))
        else:
            held.setdefault(row["number"], []).append((row["held_at"], rows.receipt(row)))
    return [chosen(held.get(n, ()), own.get(n, ()), caller) for n, caller in enumerate(callers, 1)]


async def hold(writer: Writer, changes: Sequence[p.Hold]) -> list[p.Answer]:
    return [await _hold(writer, change) for change in changes]


async def holdable(writer: Writer, change: p.Hold) -> p.ReceiptRow | None:
    """The receipt of an act, if a call may rely on it. It stays locked."""
    place = change.tenant, change.receipt
    row = await _locked(writer, *place)
    if row is None or row.state != "succeeded":
        return None
    is_taken = row.reversed_by is not None or bool(await writer.fetch("taking", *place))
    return None if is_taken and not change.inherited else row


async def _hold(writer: Writer, change: p.Hold) -> p.Answer:
    if (row := await holdable(writer, change)) is None:
        return p.Fenced()
    await _hold_it(writer, row, change.caller, change.at)
    return _APPLIED


async def hold_former(writer: Writer, changes: Sequence[p.HoldFormer]) -> list[p.Answer]:
    for change in changes:
        former = [p.ActCaller(change.run, root, before) for root, before, _ in change.calls]
        found = await acts_of(writer.fetch, change.tenant, former)
        for (root, _, position), before, row in zip(change.calls, former, found, strict=True):
            if row is not None:
                await _hold_it(writer, row, p.ActCaller(change.run, root, position), change.at)
                await writer.fetch("hold", row.tenant, row.id, *before, "let_go", row.opened_at)
    return [_APPLIED for _ in changes]


async def _hold_it(writer: Writer, row: p.ReceiptRow, caller: p.ActCaller, at: int) -> None:
    await _hold_of_doer(writer, row)
    await writer.fetch("hold", row.tenant, row.id, *caller, "open", at)


async def _hold_of_doer(writer: Writer, row: p.ReceiptRow) -> None:
    await writer.fetch("hold_of_doer", row.tenant, row.id, row.run, row.root, row.position, row.opened_at)


async def set_holds(writer: Writer, changes: Sequence[p.SetHolds]) -> list[p.Answer]:
    for change in changes:
        callers = [p.ActCaller(change.run, root, position) for root, position in change.calls]
        found = await acts_of(writer.fetch, change.tenant, callers)
        for row, caller in zip(found, callers, strict=True):
            if row is not None:
                await writer.fetch("hold", change.tenant, row.id, *caller, change.state, row.opened_at)
    return [_APPLIED for _ in changes]


async def take_back(writer: Writer, changes: Sequence[p.TakeBack], places: Sequence[Place]) -> list[p.Answer]:
    answers = []
    for change, place in zip(changes, places, strict=True):
        answer, fresh = await _take_back(writer, change)
        if fresh:
            _note(writer, change, place)
        answers.append(answer)
    return answers


async def _take_back(writer: Writer, change: p.TakeBack) -> tuple[p.Answer, bool]:
    """The answer, and whether this change itself took the receipt: only then its notes are made."""
    place = change.tenant, change.receipt
    row = await _locked(writer, *place)
    if row is None:
        return p.Fenced(), False
    there = await stakes(writer.fetch, *place)
    if there.taking is not None and there.taking[0] == change.name:
        return p.TookBack(), False
    if there.taking is not None or row.reversed_by is not None:
        return p.Taken(row), False
    await writer.fetch("hold", *place, *change.caller, "let_go", row.opened_at)
    if (rest := relying(there.holders, change.caller)) is not None:
        return rest, False
    await writer.fetch("take", *place, change.name, change.caller.run)
    return p.TookBack(), True


async def settle(writer: Writer, changes: Sequence[p.SettleTaking], places: Sequence[Place]) -> list[p.Answer]:
    for change, place in zip(changes, places, strict=True):
        await _locked(writer, change.tenant, change.receipt)
        if await writer.fetch("end_taking", change.tenant, change.receipt, change.name):
            _note(writer, change, place)
            if change.done:
                await writer.fetch("reverse_receipt", change.tenant, change.receipt, change.name)
    return [_APPLIED for _ in changes]


async def reversal_refused(writer: Writer, change: p.OpenReceipt) -> p.Answer | None:
    """Why the receipt of the act that this one reverses cannot be taken."""
    receipt = change.receipt
    assert receipt.reverses is not None
    place = receipt.tenant, receipt.reverses
    row = await _locked(writer, *place)
    if row is None:
        return None
    if change.heeds_holders:
        await _hold_of_doer(writer, row)
    there = await stakes(writer.fetch, *place)
    if row.reversed_by is not None or (there.taking is not None and there.taking[0] != receipt.id):
        return p.Taken(row)
    if change.heeds_holders and there.taking is None:
        for holder in there.holders:
            if holder.state == "open" and holder.caller.run != receipt.run:
                return p.HeldBy(holder.caller.run, kept=False)
    return None


async def begin_reversals(writer: Writer, receipts: Sequence[p.ReceiptRow]) -> None:
    """Take the receipts of the acts that these reverse: nothing stands against it."""
    for receipt in receipts:
        await writer.fetch("take", receipt.tenant, receipt.reverses, receipt.id, receipt.run)


async def end_reversals(writer: Writer, receipts: Sequence[p.ReceiptRow]) -> None:
    """The acts that reverse others have ended, so that these are taken back, or given back."""
    for receipt in receipts:
        if receipt.reverses is not None and receipt.is_known:
            await writer.fetch("end_taking", receipt.tenant, receipt.reverses, receipt.id)


def _note(writer: Writer, change: p.TakeBack | p.SettleTaking, place: Place) -> None:
    writer.noted.extend(((*place, number), entry) for number, entry in enumerate(change.attached))


async def _locked(writer: Writer, tenant: str, id: str) -> p.ReceiptRow | None:
    found = await writer.fetch("lock_receipt", tenant, id)
    return rows.receipt(found[0]) if found else None
