"""The audit, read and sealed: entries, blocks and the keys that sign them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import astuple

from holdfast.store import protocol as p
from holdfast.store.governance import holding
from holdfast.store.postgres.sessions import Sessions
from holdfast.store.postgres.sql import SQL
from holdfast.store.postgres.writer import columns


class PostgresAudit(Sessions):
    """The operations of the PostgreSQL store on the audit."""

    async def entries(self, query: p.AuditQuery, limit: int, after: p.AuditEntry | None = None) -> list[p.AuditEntry]:
        last = None if after is None else after.sequence
        conditions = (query.tenant, query.run, query.kind, query.since, query.until)
        return [p.AuditEntry(*row) for row in await self._read("entries", *conditions, limit, last)]

    async def last_entries(
        self, query: p.AuditQuery, limit: int, before: p.AuditEntry | None = None
    ) -> list[p.AuditEntry]:
        last = None if before is None else before.sequence
        conditions = (query.tenant, query.run, query.kind, query.since, query.until)
        return [p.AuditEntry(*row) for row in await self._read("last_entries", *conditions, limit, last)]

    async def entries_in(
        self, spans: Sequence[p.Span], limit: int, after: p.AuditEntry | None = None
    ) -> list[p.AuditEntry]:
        wanted = columns([(*span.key, span.since, span.until, span.kind) for span in spans], 5)
        last = 0 if after is None else after.sequence
        return [p.AuditEntry(*row) for row in await self._read("entries_in", *wanted, limit, last)]

    async def entries_of_tasks(self, tenant: str, tasks: Sequence[str]) -> list[p.AuditEntry]:
        return [p.AuditEntry(*row) for row in await self._read("entries_of_tasks", tenant, list(tasks))]

    async def unsealed(self, limit: int) -> list[p.AuditEntry]:
        return [p.AuditEntry(*row) for row in await self._look("unsealed", limit)]

    async def blocks(self, tenant: str, first: int, limit: int) -> list[p.Block]:
        return [p.Block(*row) for row in await self._read("blocks", tenant, first, limit)]

    async def heads(self, tenants: Sequence[str] | None = None) -> list[p.Block]:
        if tenants is None:
            return [p.Block(*row) for row in await self._read("all_heads")]
        return [p.Block(*row) for row in await self._read("heads", list(tenants))]

    async def holders(self, places: Sequence[tuple[str, int]]) -> list[p.Block]:
        return holding([p.Block(*row) for row in await self._read("blocks_before", *columns(places, 2))], places)

    async def seal(self, sealings: Sequence[p.Sealing]) -> list[bool]:
        if not sealings:
            return []

        async def attempt() -> list[bool]:
            try:
                async with self._transaction() as connection:
                    return await seal(connection, sealings)
            except _Overtaken:
                return [False] * len(sealings)

        return await self._retried(attempt)

    async def signing_keys(self) -> list[p.SigningKey]:
        return [p.SigningKey(*row) for row in await self._read("signing_keys")]

    async def add_signing_key(
        self, key: p.SigningKey, attached: p.Note | None = None, ends: Sequence[p.ChainEnd] = ()
    ) -> bool:
        noted: tuple[Any, ...] = (None,) * 5
        if attached is not None:
            noted = (attached.tenant, attached.run, attached.kind, attached.at, attached.body)

        async def attempt() -> bool:
            async with self._transaction() as connection:
                await connection.fetch(SQL["lock_chains"])
                reached = columns([(end.tenant, end.number) for end in ends], 2)
                if key.retirement and await connection.fetch(SQL["gone_on"], *reached):
                    return False
                added = bool(await connection.fetch(SQL["add_signing_key"], *astuple(key), *noted))
                if added and ends:
                    await connection.fetch(SQL["add_chain_ends"], key.number, *columns(map(astuple, ends), 3))
                return added

        return await self._retried(attempt)

    async def chain_ends(self, number: int) -> list[p.ChainEnd]:
        return [p.ChainEnd(*row) for row in await self._read("chain_ends", number)]


class _Overtaken(Exception):
    """A worker of an earlier version, which does not take our lock, has sealed first."""


async def seal(connection: Any, sealings: Sequence[p.Sealing]) -> list[bool]:
    """Seal inside a transaction that is rolled back where this raises. Many blocks need no more statements than one."""
    await connection.fetch(SQL["lock_chains"])
    taken = await _sealable(connection, sealings)
    made = [sealing for sealing, is_taken in zip(sealings, taken, strict=True) if is_taken]
    if made:
        blocks = columns((astuple(sealing.block) for sealing in made), 11)
        if len(await connection.fetch(SQL["add_blocks"], *blocks)) != len(made):
            raise _Overtaken
        places = [place for sealing in made for place in enumerate(sealing.sequences, sealing.block.first)]
        runs = await connection.fetch(SQL["seal"], *columns(places, 2))
        if runs:
            await connection.execute(SQL["make_due"], *columns(map(tuple, runs), 2))
    return taken


async def _sealable(connection: Any, sealings: Sequence[p.Sealing]) -> list[bool]:
    """Which of the blocks follow the last one of their tenant, are signed by the last key, and hold free entries."""
    tenants = sorted({sealing.block.tenant for sealing in sealings})
    ends = {row["tenant"]: (row["number"], row["following"]) for row in await connection.fetch(SQL["ends"], tenants)}
    signers = [row["id"] for row in await connection.fetch(SQL["last_signer"])]
    sequences = [sequence for sealing in sealings for sequence in sealing.sequences]
    free = {tuple(row) for row in await connection.fetch(SQL["sealable"], sequences)}
    taken = []
    for sealing in sealings:
        block = sealing.block
        wanted = {(sequence, block.tenant) for sequence in sealing.sequences}
        number, following = ends.get(block.tenant, (block.number - 1, block.first))
        is_next = (block.number, block.first) == (number + 1, following) and signers in ([], [block.signer])
        is_taken = is_next and len(wanted) == len(sealing.sequences) and wanted <= free
        if is_taken:
            ends[block.tenant] = (block.number, block.first + block.count)
            free -= wanted
        taken.append(is_taken)
    return taken
