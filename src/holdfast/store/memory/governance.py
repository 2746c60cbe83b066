"""What the gate keeps, read and sealed: receipts, tasks, the audit, keys, artefacts."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.store.memory.gating import note
from holdfast.store.memory.tables import Tables


class Governance(ABC):
    """The operations of the memory store that belong to the gate."""

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Tables]: ...

    async def governed(self, keys: Sequence[p.Key]) -> dict[p.Key, p.Governed]:
        found = {}
        with self._transaction() as tables:
            for key in keys:
                receipts = [r for r in tables.receipts.values() if (r.tenant, r.run) == key and r.state != "succeeded"]
                tasks = [task for task in tables.tasks.values() if _lives(tables, key, task)]
                if receipts or tasks:
                    found[key] = p.Governed(sorted(receipts, key=_opening), sorted(tasks, key=_making))
        return found

    async def receipt(self, tenant: str, id: str) -> p.Receipt | None:
        with self._transaction() as tables:
            return next((r for r in tables.receipts.values() if (r.tenant, r.id) == (tenant, id)), None)

    async def receipt_of_key(self, tenant: str, key: str) -> p.Receipt | None:
        with self._transaction() as tables:
            return tables.receipts.get((tenant, key))

    async def receipts(self, query: p.ReceiptQuery, limit: int, after: p.Receipt | None = None) -> list[p.Receipt]:
        with self._transaction() as tables:
            found = [
                receipt
                for receipt in tables.receipts.values()
                if query.tenant in (None, receipt.tenant)
                and query.run in (None, receipt.run)
                and query.state in (None, receipt.state)
                and query.connector in (None, receipt.connector)
                and (after is None or _opening(receipt) > _opening(after))
            ]
        return heapq.nsmallest(limit, found, key=_opening)

    async def task(self, tenant: str, id: str) -> p.Task | None:
        with self._transaction() as tables:
            return tables.tasks.get((tenant, id))

    async def tasks(self, query: p.TaskQuery, limit: int, after: p.Task | None = None) -> list[p.Task]:
        with self._transaction() as tables:
            found = [
                task
                for task in tables.tasks.values()
                if query.tenant in (None, task.tenant)
                and query.status in (None, task.status)
                and query.run in (None, task.run)
                and (after is None or _making(task) > _making(after))
            ]
        return heapq.nsmallest(limit, found, key=_making)

    async def entries(self, query: p.AuditQuery, limit: int, after: p.Entry | None = None) -> list[p.Entry]:
        with self._transaction() as tables:
            found = [entry for entry in tables.audit if _asked(entry, query)]
            if after is not None:
                # It may have been sealed since it was read: what counts is where it stands now.
                place = _place(tables.audit[after.sequence - 1])
                found = [entry for entry in found if _place(entry) > place]
        return heapq.nsmallest(limit, found, key=_place)

    async def unsealed(self, limit: int) -> list[p.Entry]:
        with self._transaction() as tables:
            return [entry for entry in tables.audit if entry.position is None][:limit]

    async def blocks(self, tenant: str, first: int, limit: int) -> list[p.Block]:
        with self._transaction() as tables:
            chain = tables.blocks.get(tenant, [])
            wanted = chain[first:] if first < 0 else [block for block in chain if block.number >= first]
            return wanted[:limit]

    async def seal(self, block: p.Block, sequences: Sequence[int]) -> bool:
        with self._transaction() as tables:
            chain = tables.blocks.setdefault(block.tenant, [])
            if chain and not _follows(block, chain[-1]):
                return False
            found = [tables.audit[sequence - 1] for sequence in sequences if 0 < sequence <= len(tables.audit)]
            free = [entry for entry in found if entry.tenant == block.tenant and entry.position is None]
            if len({entry.sequence for entry in free}) != len(sequences):
                return False
            chain.append(block)
            for position, entry in enumerate(free, block.first):
                tables.audit[entry.sequence - 1] = replace(entry, position=position)
            for name in dict.fromkeys(entry.run for entry in free if entry.run is not None):
                run = tables.runs.get(p.Key(block.tenant, name))
                if run is not None and run.evidence is not None:
                    tables.put(replace(run, evidence=None))
            return True

    async def signing_keys(self) -> list[p.SigningKey]:
        with self._transaction() as tables:
            return [key for _, key in sorted(tables.signing_keys.items())]

    async def add_signing_key(self, key: p.SigningKey, also: p.Note | None = None) -> bool:
        with self._transaction() as tables:
            if key.number in tables.signing_keys:
                return False
            tables.signing_keys[key.number] = key
            if also is not None:
                note(tables, also)
            return True

    async def keep_artefacts(self, files: Sequence[p.File]) -> list[bool]:
        with self._transaction() as tables:
            return [_keep(tables, file) for file in files]

    async def artefacts(self, key: p.Key) -> list[p.Artefact]:
        with self._transaction() as tables:
            found = [file.artefact for file in tables.artefacts.get(key, {}).values()]
        return sorted(found, key=lambda artefact: (artefact.at, artefact.generation, artefact.name))

    async def artefact(self, key: p.Key, generation: int, name: str) -> bytes | None:
        with self._transaction() as tables:
            file = tables.artefacts.get(key, {}).get((generation, name))
            return None if file is None else file.data

    async def evidence_due(self, limit: int) -> list[p.Run]:
        with self._transaction() as tables:
            due = [
                (run.ended_at, run) for run in tables.runs.values() if run.ended_at is not None and lacks_evidence(run)
            ]
        return [run for _, run in heapq.nsmallest(limit, due, key=lambda found: (found[0], found[1].key))]

    async def misfiled(self, tenant: str) -> str | None:
        with self._transaction() as tables:
            kept = [(place, receipt) for place, receipt in tables.receipts.items() if place[0] == tenant]
        return next((found.id for place, found in kept if place != (found.tenant, found.key)), None)

    async def evidence_overdue(self, ended_before: int) -> int:
        with self._transaction() as tables:
            runs = tables.runs.values()
            return sum(run.ended_at is not None and run.ended_at < ended_before and lacks_evidence(run) for run in runs)


def lacks_evidence(run: p.Run) -> bool:
    """Whether the run must have evidence, once it has ended, and has none."""
    return run.governed and run.evidence is None


def _lacks(entry: p.Entry, key: p.Key, through: int) -> bool:
    """Whether evidence of this run that ends at this position lacks a sealed entry."""
    return (entry.tenant, entry.run) == key and entry.position is not None and entry.position > through


def _keep(tables: Tables, file: p.File) -> bool:
    artefact = file.artefact
    is_evidence = artefact.name == p.EVIDENCE
    if is_evidence and any(_lacks(entry, artefact.key, file.through) for entry in tables.audit):
        return False
    tables.keep(file)
    run = tables.runs.get(artefact.key)
    if is_evidence and run is not None and run.generation == artefact.generation:
        tables.put(replace(run, evidence=artefact.sha256))
    return True


def _follows(block: p.Block, last: p.Block) -> bool:
    return (block.number, block.first) == (last.number + 1, last.first + last.count)


def _lives(tables: Tables, key: p.Key, task: p.Task) -> bool:
    run = tables.runs.get(key)
    here = (task.tenant, task.run) == key and run is not None and run.generation == task.generation
    return here and task.status != "cancelled"


def _opening(receipt: p.Receipt) -> tuple[int, str, str]:
    return (receipt.opened_at, receipt.tenant, receipt.id)


def _making(task: p.Task) -> tuple[int, str, str]:
    return (task.created_at, task.tenant, task.id)


def _place(entry: p.Entry) -> tuple[bool, int]:
    """Sealed entries come first."""
    return (entry.position is None, entry.sequence if entry.position is None else entry.position)


def _asked(entry: p.Entry, query: p.AuditQuery) -> bool:
    return (
        entry.tenant == query.tenant
        and query.run in (None, entry.run)
        and query.kind in (None, entry.kind)
        and (query.since is None or entry.at >= query.since)
        and (query.until is None or entry.at < query.until)
    )
