"""The audit, read and sealed: entries, blocks and the keys that sign them."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.store.memory.gate_changes import note
from holdfast.store.memory.tables import Tables


class MemoryAudit(ABC):
    """The operations of the memory store on the audit."""

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Tables]: ...

    async def entries(self, query: p.AuditQuery, limit: int, after: p.AuditEntry | None = None) -> list[p.AuditEntry]:
        with self._transaction() as tables:
            found = [entry for entry in tables.audit if _matches(entry, query)]
            if after is not None:
                # It may have been sealed since it was read: its present place counts.
                if not 0 < after.sequence <= len(tables.audit):
                    return []
                place = _place(tables.audit[after.sequence - 1])
                found = [entry for entry in found if _place(entry) > place]
        return heapq.nsmallest(limit, found, key=_place)

    async def last_entries(
        self, query: p.AuditQuery, limit: int, before: p.AuditEntry | None = None
    ) -> list[p.AuditEntry]:
        with self._transaction() as tables:
            found = [entry for entry in tables.audit if _matches(entry, query)]
            if before is not None:
                if not 0 < before.sequence <= len(tables.audit):
                    return []
                place = _place(tables.audit[before.sequence - 1])
                found = [entry for entry in found if _place(entry) < place]
        return heapq.nlargest(limit, found, key=_place)

    async def entries_in(
        self, spans: Sequence[p.Span], limit: int, after: p.AuditEntry | None = None
    ) -> list[p.AuditEntry]:
        wanted = {tuple(span.key): span for span in spans}
        with self._transaction() as tables:
            rest = tables.audit[0 if after is None else after.sequence :]
        found = (entry for entry in rest if _within(entry, wanted.get((entry.tenant, entry.run or ""))))
        return [entry for _, entry in zip(range(limit), found, strict=False)]

    async def entries_of_tasks(self, tenant: str, tasks: Sequence[str]) -> list[p.AuditEntry]:
        names = [f'"task":"{id}"'.encode() for id in tasks]
        with self._transaction() as tables:
            asked = (entry for entry in tables.audit if entry.kind == "approval" and entry.tenant == tenant)
            return [entry for entry in asked if any(name in entry.body for name in names)]

    async def unsealed(self, limit: int) -> list[p.AuditEntry]:
        with self._transaction() as tables:
            return [entry for entry in tables.audit if entry.position is None][:limit]

    async def blocks(self, tenant: str, first: int, limit: int) -> list[p.Block]:
        with self._transaction() as tables:
            chain = tables.blocks.get(tenant, [])
            wanted = chain[first:] if first < 0 else [block for block in chain if block.number >= first]
            return wanted[:limit]

    async def heads(self, tenants: Sequence[str] | None = None) -> list[p.Block]:
        with self._transaction() as tables:
            wanted = tables.blocks if tenants is None else set(tenants)
            chains = [tables.blocks.get(tenant) for tenant in sorted(wanted)]
        return [replace(chain[-1], digests=b"") for chain in chains if chain]

    async def holders(self, places: Sequence[tuple[str, int]]) -> list[p.Block]:
        found: dict[tuple[str, int], p.Block] = {}
        with self._transaction() as tables:
            for tenant, at in places:
                for block in reversed(tables.blocks.get(tenant, [])):
                    if block.first <= at:
                        if at < block.first + block.count:
                            found[tenant, block.number] = block
                        break
        return [found[place] for place in sorted(found)]

    async def seal(self, sealings: Sequence[p.Sealing]) -> list[bool]:
        with self._transaction() as tables:
            return [_seal(tables, sealing) for sealing in sealings]

    async def signing_keys(self) -> list[p.SigningKey]:
        with self._transaction() as tables:
            return [key for _, key in sorted(tables.signing_keys.items())]

    async def add_signing_key(
        self, key: p.SigningKey, attached: p.Note | None = None, ends: Sequence[p.ChainEnd] = ()
    ) -> bool:
        with self._transaction() as tables:
            reached = {end.tenant: end.number for end in ends}
            has_gone_on = any(chain and chain[-1].number > reached.get(at, 0) for at, chain in tables.blocks.items())
            if key.number in tables.signing_keys or (key.retirement and has_gone_on):
                return False
            tables.signing_keys[key.number] = key
            tables.chain_ends[key.number] = sorted(ends, key=lambda end: end.tenant)
            if attached is not None:
                note(tables, attached)
            return True

    async def chain_ends(self, number: int) -> list[p.ChainEnd]:
        with self._transaction() as tables:
            return list(tables.chain_ends.get(number, []))


def _seal(tables: Tables, sealing: p.Sealing) -> bool:
    block = sealing.block
    chain = tables.blocks.get(block.tenant, [])
    if (chain and not _follows(block, chain[-1])) or not _signs(tables, block):
        return False
    found = [tables.audit[sequence - 1] for sequence in sealing.sequences if 0 < sequence <= len(tables.audit)]
    free = [entry for entry in found if entry.tenant == block.tenant and entry.position is None]
    if len({entry.sequence for entry in free}) != len(sealing.sequences):
        return False
    tables.blocks.setdefault(block.tenant, chain).append(block)
    for position, entry in enumerate(free, block.first):
        tables.audit[entry.sequence - 1] = replace(entry, position=position)
    for name in dict.fromkeys(entry.run for entry in free if entry.run is not None):
        run = tables.runs.get(p.Key(block.tenant, name))
        if run is not None and run.evidence is not None:
            tables.put(replace(run, evidence=None))
    return True


def _follows(block: p.Block, last: p.Block) -> bool:
    return (block.number, block.first) == (last.number + 1, last.first + last.count)


def _signs(tables: Tables, block: p.Block) -> bool:
    """Whether its signer is the last key, where there are keys."""
    keys = tables.signing_keys
    return not keys or keys[max(keys)].id == block.signer


def _place(entry: p.AuditEntry) -> tuple[bool, int]:
    """Sealed entries come first."""
    return (entry.position is None, entry.sequence if entry.position is None else entry.position)


def _matches(entry: p.AuditEntry, query: p.AuditQuery) -> bool:
    return (
        entry.tenant == query.tenant
        and query.run in (None, entry.run)
        and query.kind in (None, entry.kind)
        and _in_time(entry, query.since, query.until)
    )


def _within(entry: p.AuditEntry, span: p.Span | None) -> bool:
    if span is None or entry.run is None or span.kind not in (None, entry.kind):
        return False
    return _in_time(entry, span.since, span.until)


def _in_time(entry: p.AuditEntry, since: int | None, until: int | None) -> bool:
    return (since is None or entry.at >= since) and (until is None or entry.at < until)
