"""Compares a tenant's receipts with its audit, a page at a time. The rules are in ``receipt_accounts``.

Workers may write at the same time. An entry and its receipt are one commit, so the one is looked for after the other
was read: it must be there then, unless somebody removed it. A receipt that may have changed between two reads is read
again before it is judged.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from holdfast.audit import records as r
from holdfast.audit.check import receipt_accounts as law
from holdfast.audit.collector import entries_in
from holdfast.audit.records import ABANDONED
from holdfast.errors import StoreCorrupt
from holdfast.store import protocol as p

PAGE: Final = 500
BLOBS: Final = 16
"""How many large results to read at a time: their size is not known before."""
MANY: Final = 1000
"""How many receipts, or keys, to look for in one pass over the whole audit."""

CROWD: Final = 100
"""A run with more receipts in one page has many: all its entries may be of the same moment."""
ASIDE: Final = 10_000
ASIDE_BYTES: Final = 8 * 1024 * 1024
"""How many receipts, and bytes of them, to confirm in one pass over the entries of a run that has many."""

UNREADABLE: Final = (*r.UNREADABLE, StoreCorrupt)


class Accounted(msgspec.Struct, frozen=True, gc=False):
    """How many were compared with the audit, and the first problem."""

    count: int
    problem: str | None


Row = TypeVar("Row", p.ReceiptRow, p.TaskRow)


class Broken(Exception):
    """A problem was found: the sentence that names it."""


async def check_receipts(store: p.Store, tenant: str) -> Accounted:
    """Compare every receipt of a tenant with the entries of its audit, sealed or not, and these with the receipts.

    The entries themselves are not checked here: the chain proves them.
    """
    check = _Check(store, tenant)
    try:
        await check.filing()
        await check.entries()
        await check.receipts()
    except Broken as broken:
        return Accounted(check.count, str(broken))
    return Accounted(check.count, None)


class _Check:
    def __init__(self, store: p.Store, tenant: str) -> None:
        self.count = 0
        self._read = 0
        self._store = store
        self._tenant = tenant
        self._keys: dict[str, str] = {}  # keys to look for, each with the receipt that has it in an entry
        self._undone: dict[str, str] = {}  # receipts that were undone, each with the name of the undo
        self._open: list[law.Account] = []  # receipts to be found in entries of other runs than their own
        self._many: defaultdict[str, list[law.Account]] = defaultdict(list)  # receipts of runs that have many

    async def filing(self) -> None:
        """The columns by which each receipt is found agree with its content."""
        id = await self._store.misfiled(self._tenant)
        if id is not None:
            raise Broken(f"receipt {id}: it was altered: its columns do not agree with its content.")

    # -- from the entries to the receipts --------------------------------------------------------------------------

    async def entries(self) -> None:
        """Every receipt that the audit records is there."""
        last: p.AuditEntry | None = None
        while page := await self._store.entries(p.AuditQuery(self._tenant, kind="receipt"), PAGE, last):
            receipted = [
                (entry, record) async for entry, record in self._read_all(page) if isinstance(record, r.Receipted)
            ]
            wanted = [id for _, record in receipted for id in (record.receipt, record.reverses) if id is not None]
            there = await self._receipts(wanted)
            for entry, record in receipted:
                await self._is_there(entry, record, there)
            last = page[-1]
        await self._find_keys()
        await self._marked()

    async def _marked(self) -> None:
        """Every receipt whose act was undone says so."""
        last: p.AuditEntry | None = None
        while page := await self._store.entries(p.AuditQuery(self._tenant, kind="operator"), PAGE, last):
            undone = [undo async for _, record in self._read_all(page) if (undo := law.undo_of(record)) is not None]
            there = await self._receipts([id for id, _ in undone])
            for id, name in undone:
                if id not in there or there[id].reversed_by != name:
                    raise Broken(f"receipt {id}: the audit says that its act was undone, and it does not say so.")
            last = page[-1]

    async def _is_there(self, entry: p.AuditEntry, record: r.Receipted, stored: Mapping[str, p.ReceiptRow]) -> None:
        there = stored.get(record.receipt)
        _judge(law.contradiction(record, there))
        if not law.holds_key(record, there):
            self._keys[record.key] = record.receipt
            if len(self._keys) >= MANY:
                await self._find_keys()
        if record.state == "succeeded" and record.reverses is not None:
            await self._reversed(entry, record, stored.get(record.reverses))

    async def _reversed(self, entry: p.AuditEntry, record: r.Receipted, there: p.ReceiptRow | None) -> None:
        """A reversed success is marked as reversed. One that succeeded only after the entry was never reversed."""
        if there is None or not law.is_unmarked(there, record):
            return
        async for before, other in self._records(p.AuditQuery(self._tenant, kind="receipt")):
            if before.sequence == entry.sequence:
                return
            if isinstance(other, r.Receipted) and (other.receipt, other.state) == (there.id, "succeeded"):
                raise Broken(law.unmarked(there))

    async def _find_keys(self) -> None:
        """Some receipt has each of these keys. A key that changes hands moves in the listing, so it is read twice."""
        for _ in range(2):
            if not self._keys:
                return
            async for page in self._pages():
                for receipt in page:
                    self._keys.pop(receipt.key, None)
                if not self._keys:
                    return
        for id in self._keys.values():
            raise Broken(law.lost_key(id))

    # -- from the receipts to the entries --------------------------------------------------------------------------

    async def receipts(self) -> None:
        """The audit records every receipt that is there."""
        async for page in self._pages():
            await self._alone(page)
            await self._confirm_by_run(page)
            self.count += len(page)
        await self._confirm_many()
        await self._confirm_by_all()
        await self._confirm_undone()

    async def _confirm_undone(self) -> None:
        """Look for the undos that these receipts name in the whole audit."""
        if self._undone:
            async for _, record in self._records(p.AuditQuery(self._tenant, kind="operator")):
                id, name = law.undo_of(record) or ("", "")
                if self._undone.get(id) == name:
                    del self._undone[id]
        for id in self._undone:
            raise Broken(law.not_undone(id))

    async def _alone(self, page: Sequence[p.ReceiptRow]) -> None:
        """Check receipts as far as that needs no audit."""
        reversing = await self._receipts([each.reversed_by for each in page if each.reversed_by is not None])
        for receipt in page:
            if receipt.round != 1 and not receipt.key.endswith(f"#{receipt.round}"):
                raise Broken(f"receipt {receipt.id}: its key is not that of round {receipt.round}.")
            if receipt.abandoned and not (receipt.error or "").endswith(ABANDONED):
                raise Broken(f"receipt {receipt.id}: it is marked as abandoned, and its error does not say so.")
            if receipt.asked is not None and not receipt.abandoned:
                raise Broken(
                    f"receipt {receipt.id}: it names a task that asks for its outcome, and a run waits for it."
                )
            if receipt.reversed_by is not None and receipt.reversed_by not in reversing:
                self._undone[receipt.id] = receipt.reversed_by
            elif receipt.reversed_by is not None:
                _judge(law.reversal(receipt, reversing[receipt.reversed_by]))
        if len(self._undone) >= MANY:
            await self._confirm_undone()
        large = [receipt for receipt in page if receipt.result_blob is not None]
        for at in range(0, len(large), BLOBS):
            some = large[at : at + BLOBS]
            blobs = await self._store.blobs(self._tenant, [each.result_blob for each in some if each.result_blob])
            for receipt in some:
                _judge(law.blob_problem(receipt, blobs.get(receipt.result_blob or b"")))

    async def _confirm_by_run(self, page: Sequence[p.ReceiptRow]) -> None:
        """Most receipts have entries of their own run at these times. The others are put aside.

        Those of a run that has many are put aside, too, until there are enough for one pass over the run's entries.
        """
        by_run: defaultdict[str, list[p.ReceiptRow]] = defaultdict(list)
        for each in page:
            by_run[each.run].append(each)
        for run in [run for run, receipts in by_run.items() if len(receipts) > CROWD]:
            self._many[run] += map(law.Account, by_run.pop(run))
        spans = [_span(p.Key(self._tenant, run), receipts) for run, receipts in by_run.items()]
        accounts = law.Accounts(law.Account(each) for receipts in by_run.values() for each in receipts)
        async for entry in entries_in(self._store, spans):
            await self._give_way()
            accounts.take(read(entry))
        await self._put_aside(accounts)
        put_aside = [account.receipt for many in self._many.values() for account in many]
        if len(put_aside) >= ASIDE or sum(map(_weight, put_aside)) >= ASIDE_BYTES:
            await self._confirm_many()

    async def _confirm_many(self) -> None:
        """Confirm the receipts of runs that have many, by one pass over the entries of each run."""
        while self._many:
            run, many = self._many.popitem()
            span = _span(p.Key(self._tenant, run), [account.receipt for account in many])
            accounts = law.Accounts(many)
            async for _, record in self._records(p.AuditQuery(self._tenant, run, None, span.since, span.until)):
                accounts.take(record)
            await self._put_aside(accounts)

    async def _put_aside(self, accounts: law.Accounts) -> None:
        self._open += accounts.open
        if len(self._open) >= MANY:
            await self._confirm_by_all()

    async def _confirm_by_all(self) -> None:
        """Look for the receipts that were put aside in the whole audit."""
        if not self._open:
            return
        accounts = law.Accounts(self._open)
        async for _, record in self._records(p.AuditQuery(self._tenant)):
            accounts.take(record)
        for account in accounts.open:
            _judge(account.problem)
        self._open.clear()

    # -- reading ---------------------------------------------------------------------------------------------------

    async def _records(self, query: p.AuditQuery) -> AsyncIterator[tuple[p.AuditEntry, r.Record]]:
        """Entries with their records."""
        last: p.AuditEntry | None = None
        while page := await self._store.entries(query, PAGE, last):
            async for read in self._read_all(page):
                yield read
            last = page[-1]

    async def _read_all(self, page: Sequence[p.AuditEntry]) -> AsyncIterator[tuple[p.AuditEntry, r.Record]]:
        for entry in page:
            await self._give_way()
            yield entry, read(entry)

    async def _give_way(self) -> None:
        """Let other tasks run: a worker may share this loop, and reading from a file never yields."""
        self._read += 1
        if self._read % 100 == 0:
            await asyncio.sleep(0)

    async def _receipts(self, ids: Sequence[str]) -> dict[str, p.ReceiptRow]:
        """The receipts that are stored of these, by id."""
        if not ids:
            return {}
        try:
            return await self._store.receipts_by_id(self._tenant, list(dict.fromkeys(ids)))
        except UNREADABLE:
            return {id: found for id in dict.fromkeys(ids) if (found := await self._receipt(id)) is not None}

    async def _receipt(self, id: str) -> p.ReceiptRow | None:
        try:
            return await self._store.receipt(self._tenant, id)
        except UNREADABLE:
            raise Broken(f"receipt {id}: it was altered, and cannot be read.") from None

    def _pages(self) -> AsyncIterator[list[p.ReceiptRow]]:
        query = p.ReceiptQuery(self._tenant)
        return pages(lambda size, last: self._store.receipts(query, size, last), "receipt", "opening")


async def pages(
    ask: Callable[[int, Row | None], Awaitable[list[Row]]], what: str, moment: str
) -> AsyncIterator[list[Row]]:
    """All rows that ``ask`` gives, oldest first, a page at a time. Raises Broken at one that cannot be read."""
    last: Row | None = None
    size = PAGE
    while True:
        try:
            page = await ask(size, last)
        except UNREADABLE:
            if size > 1:  # read one by one up to the bad row: its id is not known, so the row before it names it
                size = 1
                continue
            place = f"the first {what}" if last is None else f"the {what} after {last.id}"
            raise Broken(f"{place}, by the time of {moment}: it was altered, and cannot be read.") from None
        if page:
            yield page
        if len(page) < size:
            return
        last = page[-1]


def read(entry: p.AuditEntry) -> r.Record:
    """The record of an entry. Raises Broken."""
    try:
        return r.decode(entry.body)
    except r.UNREADABLE:
        place = "that is not sealed yet" if entry.position is None else f"{entry.position}"
        raise Broken(f"entry {place} cannot be read: its content is not known.") from None


def _span(key: p.Key, receipts: Sequence[p.ReceiptRow]) -> p.Span:
    """The times at which these receipts of a run were opened and closed."""
    times = [at for each in receipts for at in (each.opened_at, each.closed_at) if at is not None]
    return p.Span(key, min(times), max(times) + 1)


def _weight(receipt: p.ReceiptRow) -> int:
    return len(receipt.request) + len(receipt.result or b"")


def _judge(problem: str | None) -> None:
    if problem is not None:
        raise Broken(problem)
