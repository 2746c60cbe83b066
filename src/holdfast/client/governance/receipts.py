"""Receipts: what actions did, and how an act is taken back."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.client.operators import operator_note
from holdfast.client.pages import PAGE, Find, page_of, rows_of
from holdfast.client.people.permission import operation
from holdfast.client.runs.handle import RunHandle
from holdfast.client.views.cursors import Page, read_cursor
from holdfast.client.views.receipts import ReceiptInfo, receipt_info
from holdfast.errors import InvalidRequest, NotReversible, ReceiptNotFound, RunEnded, RunRetired
from holdfast.gate.receipts import Receipt, view
from holdfast.store import protocol as p
from holdfast.store.holding import state_of

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast
    from holdfast.client.runs.starter import NotedOptions

RECEIPTS: Final = "receipts"


class Receipts:
    """The receipts of one engine."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app

    @operation("receipts.see")
    async def list(
        self,
        *,
        tenant: str | None = None,
        run: str | None = None,
        state: p.ReceiptState | None = None,
        connector: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        results: bool = True,
    ) -> AsyncIterator[ReceiptInfo]:
        """The receipts that match, oldest first; ``after`` is the ``next`` of a page.

        Without ``results``, large results are not read: an UnreadableValue with its hash stands for each.
        """
        find = self._finder(p.ReceiptQuery(tenant, run, state, connector))
        async for row in rows_of(find, limit, read_cursor(RECEIPTS, after)):
            yield await self._info(row) if results else receipt_info(row)

    @operation("receipts.see")
    async def page(
        self,
        *,
        tenant: str | None = None,
        run: str | None = None,
        state: p.ReceiptState | None = None,
        connector: str | None = None,
        limit: int = PAGE,
        after: str | None = None,
        results: bool = True,
    ) -> Page[ReceiptInfo]:
        """One page of the receipts that match, oldest first, with a cursor for the rest; ``results`` as in ``list``."""
        find = self._finder(p.ReceiptQuery(tenant, run, state, connector))
        page = await page_of(RECEIPTS, find, limit, after, lambda row: row)
        return Page([await self._info(row) if results else receipt_info(row) for row in page.items], page.next)

    def _finder(self, query: p.ReceiptQuery) -> Find[p.ReceiptRow]:
        async def find(limit: int, place: p.Cursor | None) -> Sequence[p.ReceiptRow]:
            return await self._app.store.receipts(query, limit, place)

        return find

    @operation("receipts.see")
    async def get(self, id: str, *, tenant: str | None = None) -> ReceiptInfo:
        """One receipt, with the runs that rely on its act. Raises ReceiptNotFound."""
        row = await self._row(id, self._app.tenant_of(tenant))
        return msgspec.structs.replace(await self._info(row), holders=await self._holders(row))

    async def _row(self, id: str, tenant: str) -> p.ReceiptRow:
        row = await self._app.store.receipt(tenant, id)
        if row is None:
            raise ReceiptNotFound(f"there is no receipt {id!r} in tenant {tenant!r}: look with `holdfast receipts`.")
        return row

    async def _holders(self, row: p.ReceiptRow) -> dict[str, str]:
        """The runs that rely on an act, with whether they may still undo it (open) or rely on it for good (kept)."""
        if row.state != "succeeded" or row.reversed_by is not None:
            return {}
        stakes = await self._app.store.stakes(row.tenant, row.id)
        states = {holder.caller.run: holder.state for holder in stakes.holders}
        if row.run not in states:
            doers = await self._app.store.get([p.Key(row.tenant, row.run)])
            standing = doers[0].standing if doers else None
            is_lane = bool(doers) and doers[0].program_kind == p.MACHINE
            states[row.run] = state_of("open", standing, is_lane=is_lane)
        return {run: state for run, state in sorted(states.items()) if state != "let_go"}

    async def _info(self, row: p.ReceiptRow) -> ReceiptInfo:
        return receipt_info(row, await self._large_result(row))

    async def _large_result(self, row: p.ReceiptRow) -> bytes | None:
        if row.result is not None or row.result_blob is None:
            return None
        return await self._app.store.blob(row.tenant, row.result_blob)

    async def _reversal(self, receipt: Receipt, by: str, tenant: str, note: p.Note, despite: str) -> RunHandle[Any]:
        """The run that takes an act back, ``despite`` these runs. A failed one may have been deleted: then the next has
        another number."""
        from holdfast.programs.function.reversal import ANYWAY, reverse

        # The receipt as it was before: a second request must have the same arguments, so that it finds the same run.
        argument = msgspec.structs.replace(receipt, reversed_by=None)
        first = f"reverse:{receipt.id}:anyway" if despite else f"reverse:{receipt.id}"
        name, number = first, 1
        attributes = {"reverses": receipt.id, **({ANYWAY: despite} if despite else {})}
        options: NotedOptions = {"tenant": tenant, "actor": by, "attributes": attributes, "note": note}
        while True:
            try:
                return await self._app.starter.start(reverse, (argument,), {}, {**options, "id": name})
            except RunRetired:
                if receipt.reversed_by is not None:
                    problem = f"receipt {receipt.id} was taken back already, by {receipt.reversed_by}"
                    raise NotReversible(problem) from None
            number += 1
            name = f"{first}:{number}"

    async def _relying(self, row: p.ReceiptRow) -> str:
        """The open runs that rely on an act; none where it was taken back already, or is now."""
        by = row.reversed_by
        if by is not None and await self._app.store.receipt(row.tenant, by) is None:
            raise NotReversible(f"receipt {row.id} was taken back already, by the undo {by}")
        if (await self._app.store.stakes(row.tenant, row.id)).taking is not None:
            return ""
        holders = await self._holders(row)
        return ", ".join(run for run, state in holders.items() if state == "open")

    @operation("receipts.reverse")
    async def reverse(
        self, id: str, *, by: str | None = None, reason: str = "", anyway: bool = False, tenant: str | None = None
    ) -> RunHandle[Any]:
        """Take an act back: start a run that calls the action which the receipt names. The gate judges that call.

        Called twice, the act is taken back once; called after a failure, it is tried again. An act on which an open run
        relies is not taken back, unless ``anyway``. Raises ReceiptNotFound or NotReversible.
        """
        tenant, by = self._app.tenant_of(tenant), self._app.person_of(by)
        if by is None:
            raise InvalidRequest("say who takes it back: by='their name'")
        row = await self._row(id, tenant)
        receipt = view(row, row.result or await self._large_result(row))
        if receipt.state != "succeeded":
            raise NotReversible(f"receipt {id} is {receipt.state}: only what succeeded can be taken back")
        if receipt.reverse is None:
            raise NotReversible(f"action {receipt.action} declares no reverse=: the engine cannot take its act back")
        despite = await self._relying(row)
        if despite and not anyway:
            raise NotReversible(
                f"receipt {id}: open runs rely on its act ({despite}), and the last of them undoes it if it fails or "
                "is cancelled. Wait for their end, cancel them, or take it back anyway (`holdfast reverse --anyway`)."
            )
        details = {"receipt": id, "action": receipt.action, "target": receipt.target}
        details |= {"anyway": despite} if despite else {}
        note = operator_note(self._app, tenant, "reverse", by, receipt.run, reason, details)
        handle = await self._reversal(receipt, by, tenant, note, despite)
        if (await handle.status()) in ("failed", "cancelled"):
            with contextlib.suppress(InvalidRequest, RunEnded):  # another caller retried it first
                await handle.retry(by=by)
        return handle
