"""Compares the items of a tenant's people with its audit. The rules are in ``user_accounts``.

People may be changed at the same time. An entry and its item are one commit, so an item that does not fit is read
again, with its entries, until two reads give the same version.

Entries of tokens and links are found in a pass over all entries of operators. One pass serves a large number of items.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

from holdfast.audit import records as r
from holdfast.audit.check import user_accounts as law
from holdfast.audit.check.receipts import UNREADABLE, Accounted, Broken
from holdfast.audit.collector import PAGE, entries_of
from holdfast.store import protocol as p

MANY: Final = 10_000
"""How many items to compare in one pass over the entries."""
TRIES: Final = 10
_OPERATOR: Final = str(r.Operated.__struct_config__.tag)


async def check_user_items(store: p.Store, tenant: str) -> Accounted:
    """Compare every user, token, link and session of a tenant with the entries of its audit, and these with them."""
    check = _Check(store, tenant)
    try:
        await check.are_there()
        await check.fit()
    except Broken as broken:
        return Accounted(check.count, str(broken))
    return Accounted(check.count, None)


class _Check:
    def __init__(self, store: p.Store, tenant: str) -> None:
        self.count = 0
        self._store = store
        self._tenant = tenant

    async def are_there(self) -> None:
        """Every item that the audit records, and that is never deleted, is there."""
        looked_for: set[p.ItemKey] = set()
        async for _, _, key in self._entries():
            if key.kind not in law.LASTING or key in looked_for:
                continue
            if len(looked_for) >= MANY:
                looked_for.clear()
            looked_for.add(key)
            if await self._item(key) is None:
                raise Broken(law.missing(key.kind, key.id))

    async def fit(self) -> None:
        """The entries confirm every item that is there."""
        many: list[p.ItemRow] = []
        async for row in self._items():
            self.count += 1
            many.append(row)
            if len(many) >= MANY:
                await self._compare(many)
                many.clear()
        await self._compare(many)

    async def _compare(self, rows: Sequence[p.ItemRow]) -> None:
        for _ in range(TRIES):
            if not rows:
                return
            accounts = await self._accounts(row.key for row in rows)
            problems = [(row, problem) for row in rows if (problem := accounts[row.key].problem(row)) is not None]
            changed: list[p.ItemRow] = []
            for row, problem in problems:
                present = await self._item(row.key)
                if present is not None and present.version == row.version:
                    raise Broken(problem)
                if present is not None:
                    changed.append(present)
            rows = changed

    async def _accounts(self, keys: Iterable[p.ItemKey]) -> dict[p.ItemKey, law.ItemAccount]:
        accounts = {key: law.ItemAccount() for key in keys}
        async for entry, record, key in self._entries():
            if key in accounts:
                accounts[key].take(record, entry.position)
        return accounts

    async def _entries(self) -> AsyncIterator[tuple[p.AuditEntry, r.Operated, p.ItemKey]]:
        """The entries of people in their order, each with the item that it is about.

        One that cannot be read says nothing: if it was altered, the chain shows it.
        """
        count = 0
        async for entry in entries_of(self._store, p.AuditQuery(self._tenant, kind=_OPERATOR)):
            count += 1
            if count % PAGE == 0:
                await asyncio.sleep(0)  # a worker may share this loop
            try:
                record = r.decode(entry.body)
            except r.UNREADABLE:
                continue
            if isinstance(record, r.Operated) and (subject := law.subject_of(record)) is not None:
                yield entry, record, p.ItemKey(self._tenant, *subject)

    async def _items(self) -> AsyncIterator[p.ItemRow]:
        for kind, word in law.WORDS.items():
            after: p.ItemKey | None = None
            while True:
                page = await self._page(kind, word, after)
                for row in page:
                    yield row
                if len(page) < PAGE:
                    break
                after = page[-1].key

    async def _page(self, kind: str, word: str, after: p.ItemKey | None) -> list[p.ItemRow]:
        try:
            return await self._store.items(kind, PAGE, tenant=self._tenant, after=after)
        except UNREADABLE:
            place = f"one of {word.format('*')}" if after is None else f"one after {word.format(after.id)}"
            raise Broken(f"{place}: it was altered, and cannot be read.") from None

    async def _item(self, key: p.ItemKey) -> p.ItemRow | None:
        try:
            return await self._store.item(key)
        except UNREADABLE:
            raise Broken(f"{law.WORDS[key.kind].format(key.id)}: it was altered, and cannot be read.") from None
