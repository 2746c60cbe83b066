"""Receipts: what actions did, and how it is taken back."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.client.handle import RunHandle
from holdfast.client.starter import NotedOptions
from holdfast.client.views.cursors import Page, read_cursor, write_cursor
from holdfast.errors import InvalidRequest, NotReversible, ReceiptNotFound, RunEnded, RunRetired
from holdfast.gate.receipts import Receipt, view
from holdfast.programs.function.reversal import reverse
from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

PAGE = 100


class Receipts:
    """The receipts of one engine."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app

    async def list(
        self,
        *,
        tenant: str | None = None,
        run: str | None = None,
        state: p.ReceiptState | None = None,
        connector: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> AsyncIterator[Receipt]:
        """The receipts that match, oldest first; ``after`` is the ``next`` of a page."""
        query, place, left = p.ReceiptQuery(tenant, run, state, connector), read_cursor("receipts", after), limit
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            page = await self._app.store.receipts(query, size, place)
            for row in page:
                yield await self._view(row)
            if len(page) < size:
                return
            place, left = page[-1].cursor, None if left is None else left - len(page)

    async def page(
        self,
        *,
        tenant: str | None = None,
        run: str | None = None,
        state: p.ReceiptState | None = None,
        connector: str | None = None,
        limit: int = PAGE,
        after: str | None = None,
    ) -> Page[Receipt]:
        """So many receipts that match, oldest first, and a cursor for the rest."""
        query = p.ReceiptQuery(tenant, run, state, connector)
        found = await self._app.store.receipts(query, limit, read_cursor("receipts", after))
        more = found and len(found) == limit
        next = write_cursor("receipts", found[-1].cursor) if more else None
        return Page([await self._view(row) for row in found], next)

    async def get(self, id: str, *, tenant: str = DEFAULT_TENANT) -> Receipt:
        """One receipt. Raises ReceiptNotFound."""
        row = await self._app.store.receipt(tenant, id)
        if row is None:
            raise ReceiptNotFound(f"there is no receipt {id!r} in tenant {tenant!r}: look with `holdfast receipts`.")
        return await self._view(row)

    async def _view(self, row: p.ReceiptRow) -> Receipt:
        result = row.result
        if result is None and row.result_blob is not None:
            result = await self._app.store.blob(row.tenant, row.result_blob)
        return view(row, result)

    async def _reversal(self, receipt: Receipt, by: str, tenant: str, note: p.Note) -> RunHandle[Any]:
        """The run that takes an act back. One that failed may be gone by now: then the next has another number."""
        # As it was when it succeeded: asked again after it was taken back, the run must be found to be the same.
        asked = msgspec.structs.replace(receipt, reversed_by=None)
        name, number = f"reverse:{receipt.id}", 1
        options = NotedOptions(tenant=tenant, actor=by, attributes={"reverses": receipt.id}, note=note)
        while True:
            try:
                return await self._app.starter.start(reverse, (asked,), {}, {**options, "id": name})
            except RunRetired:
                if receipt.reversed_by is not None:
                    told = f"receipt {receipt.id} was taken back already, by {receipt.reversed_by}"
                    raise NotReversible(told) from None
            number += 1
            name = f"reverse:{receipt.id}:{number}"

    async def reverse(self, id: str, *, by: str, reason: str = "", tenant: str = DEFAULT_TENANT) -> RunHandle[Any]:
        """Take an act back: a run that calls the action which the receipt names, through the gate.

        Asked twice it is done once; asked again after it failed, it is tried again. Raises ReceiptNotFound or
        NotReversible.
        """
        receipt = await self.get(id, tenant=tenant)
        if receipt.state != "succeeded":
            raise NotReversible(f"receipt {id} is {receipt.state}: only what succeeded can be taken back")
        if receipt.reverse is None:
            raise NotReversible(f"action {receipt.action} declares no reverse=: the engine cannot take its act back")
        details = {"receipt": id, "action": receipt.action, "target": receipt.target}
        note = self._app.told(tenant, "reverse", by, receipt.run, reason, details)
        handle = await self._reversal(receipt, by, tenant, note)
        if (await handle.status()) in ("failed", "cancelled"):
            with contextlib.suppress(InvalidRequest, RunEnded):  # someone else who asked was faster
                await handle.retry(by=by)
        return handle
