"""Holding a tenant's receipts against its audit, a page at a time. What must hold is in ``holdfast.gate.accounts``.

Workers may be at it meanwhile. An entry and the receipt that it tells of are one commit, so each is looked for after
the other has been read: then it is there, unless somebody took it away. Where a receipt may have moved on between two
reads, it is read again before anything is said of it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec

from holdfast.errors import StoreCorrupt
from holdfast.gate import accounts as law
from holdfast.gate import records as r
from holdfast.store import protocol as p
from holdfast.worker.gathering import entries_of
from holdfast.worker.recording import ABANDONED

PAGE: Final = 500
MANY: Final = 1000
"""How many receipts, or keys, to look for in one reading of the whole."""

UNREADABLE: Final = (*r.UNREADABLE, StoreCorrupt)


class Accounted(msgspec.Struct, frozen=True, gc=False):
    """How many receipts were held against the audit, and the first thing that does not fit."""

    receipts: int
    problem: str | None


class _Broken(Exception):
    """Something does not fit, in a sentence."""


async def check_receipts(store: p.Store, tenant: str) -> Accounted:
    """Hold every receipt of a tenant against the entries of its audit, sealed or not, and these against the receipts.

    The entries themselves are taken as they are: it is the chain that proves them.
    """
    check = _Check(store, tenant)
    try:
        await check.filing()
        await check.entries()
        await check.receipts()
    except _Broken as broken:
        return Accounted(check.count, str(broken))
    return Accounted(check.count, None)


class _Check:
    def __init__(self, store: p.Store, tenant: str) -> None:
        self.count = 0
        self._read = 0
        self._store = store
        self._tenant = tenant
        self._keys: dict[str, str] = {}  # keys to be found, each with the receipt that was told to have it
        self._open: list[law.Account] = []  # receipts to be found in entries of other runs than their own

    async def filing(self) -> None:
        """Each receipt is kept under what it says: by that it is looked for."""
        id = await self._store.misfiled(self._tenant)
        if id is not None:
            raise _Broken(f"receipt {id}: it was altered, and is not kept under what it says of itself.")

    # -- from the entries to the receipts --------------------------------------------------------------------------

    async def entries(self) -> None:
        """Whatever the audit tells of is there."""
        async for entry, told in self._told(p.AuditQuery(self._tenant, kind="receipt")):
            if not isinstance(told, r.Receipted):
                continue
            there = await self._receipt(told.receipt)
            _judge(law.contradiction(told, there))
            if not law.holds_key(told, there):
                self._keys[told.key] = told.receipt
                if len(self._keys) >= MANY:
                    await self._find_keys()
            if told.state == "succeeded" and told.reverses is not None:
                await self._reversed(entry, told, told.reverses)
        await self._find_keys()

    async def _reversed(self, entry: p.Entry, told: r.Receipted, id: str) -> None:
        """What was taken back shows it; but one that succeeded only later never was."""
        there = await self._receipt(id)
        if there is None or not law.is_unmarked(there, told):
            return
        async for before, other in self._told(p.AuditQuery(self._tenant, kind="receipt")):
            if before.sequence == entry.sequence:
                return
            if isinstance(other, r.Receipted) and (other.receipt, other.state) == (id, "succeeded"):
                raise _Broken(law.unmarked(there))

    async def _find_keys(self) -> None:
        """Somebody has each of these keys. One that changes hands is moved in the listing, so it is read twice."""
        for _ in range(2):
            async for page in self._pages():
                for receipt in page:
                    self._keys.pop(receipt.key, None)
                if not self._keys:
                    return
        for id in self._keys.values():
            raise _Broken(law.lost_key(id))

    # -- from the receipts to the entries --------------------------------------------------------------------------

    async def receipts(self) -> None:
        """Whatever is there the audit tells of."""
        async for page in self._pages():
            by_run: defaultdict[str, list[p.Receipt]] = defaultdict(list)
            for receipt in page:
                await self._alone(receipt)
                by_run[receipt.run].append(receipt)
            for run, group in by_run.items():
                await self._hear_run(run, group)
            self.count += len(page)
        await self._hear_all()

    async def _alone(self, receipt: p.Receipt) -> None:
        """What can be said of a receipt without the audit."""
        if receipt.abandoned and not (receipt.error or "").endswith(ABANDONED):
            raise _Broken(f"receipt {receipt.id}: it is marked as abandoned, and what is known of it does not say so.")
        if receipt.result_blob is not None:
            _judge(law.blob_problem(receipt, await self._store.blob(self._tenant, receipt.result_blob)))
        if receipt.reversed_by is not None:
            _judge(law.reversal(receipt, await self._receipt(receipt.reversed_by)))

    async def _hear_run(self, run: str, group: Sequence[p.Receipt]) -> None:
        """Most are told in entries of their own run, of these times; what is not is put aside."""
        times = [at for each in group for at in (each.opened_at, each.closed_at) if at is not None]
        query = p.AuditQuery(self._tenant, run, None, min(times), max(times) + 1)
        told = law.Accounts(map(law.Account, group))
        async for _, record in self._told(query):
            told.hear(record)
        self._open += told.open
        if len(self._open) >= MANY:
            await self._hear_all()

    async def _hear_all(self) -> None:
        """Look for those that were put aside in the whole audit."""
        if not self._open:
            return
        told = law.Accounts(self._open)
        async for _, record in self._told(p.AuditQuery(self._tenant)):
            told.hear(record)
        for account in told.open:
            _judge(account.problem)
        self._open.clear()

    # -- reading ---------------------------------------------------------------------------------------------------

    async def _told(self, query: p.AuditQuery) -> AsyncIterator[tuple[p.Entry, r.Record]]:
        """Entries with what they say."""
        async for entry in entries_of(self._store, query):
            await self._breathe()
            try:
                record = r.decode(entry.body)
            except r.UNREADABLE:
                place = "that is not sealed yet" if entry.position is None else f"{entry.position}"
                raise _Broken(f"entry {place} cannot be read: what it says of receipts is not known.") from None
            yield entry, record

    async def _breathe(self) -> None:
        """Let others on: a worker may run beside this, and reading from a file waits for nothing."""
        self._read += 1
        if self._read % 100 == 0:
            await asyncio.sleep(0)

    async def _receipt(self, id: str) -> p.Receipt | None:
        try:
            return await self._store.receipt(self._tenant, id)
        except UNREADABLE:
            raise _Broken(f"receipt {id}: it was altered, and cannot be read.") from None

    async def _pages(self) -> AsyncIterator[list[p.Receipt]]:
        """The receipts, oldest first."""
        query, last, size = p.ReceiptQuery(self._tenant), None, PAGE
        while True:
            try:
                page = await self._store.receipts(query, size, last)
            except UNREADABLE:
                if size > 1:  # one by one, up to it: it is named by its neighbour, for its own id is not known
                    size = 1
                    continue
                place = "the first receipt" if last is None else f"the receipt behind {last.id}"
                raise _Broken(f"{place}, by the time of opening: it was altered, and cannot be read.") from None
            if page:
                yield page
            if len(page) < size:
                return
            last = page[-1]


def _judge(problem: str | None) -> None:
    if problem is not None:
        raise _Broken(problem)
