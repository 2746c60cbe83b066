"""The gate's data besides the audit: receipts, tasks, files."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.store.memory import holding
from holdfast.store.memory.audit import MemoryAudit
from holdfast.store.memory.tables import Tables


class MemoryGovernance(MemoryAudit):
    """The operations of the memory store that belong to the gate."""

    async def governed(self, keys: Sequence[p.Key]) -> dict[p.Key, p.Governed]:
        found = {}
        with self._transaction() as tables:
            for key in keys:
                receipts = [r for r in tables.receipts.values() if (r.tenant, r.run) == key and r.state != "succeeded"]
                tasks = [task for task in tables.tasks.values() if _lives(tables, key, task)]
                taken = holding.taken_by(tables, key)
                if receipts or tasks or taken:
                    found[key] = p.Governed(sorted(receipts, key=_place), sorted(tasks, key=_place), taken)
        return found

    async def stakes(self, tenant: str, receipt: str) -> p.Stakes:
        with self._transaction() as tables:
            return holding.stakes(tables, tenant, receipt)

    async def acts_of(self, tenant: str, callers: Sequence[p.ActCaller]) -> list[p.ReceiptRow | None]:
        with self._transaction() as tables:
            return [holding.act_of(tables, tenant, caller) for caller in callers]

    async def receipt(self, tenant: str, id: str) -> p.ReceiptRow | None:
        with self._transaction() as tables:
            return next((r for r in tables.receipts.values() if (r.tenant, r.id) == (tenant, id)), None)

    async def receipts_by_id(self, tenant: str, ids: Sequence[str]) -> dict[str, p.ReceiptRow]:
        wanted = set(ids)
        with self._transaction() as tables:
            return {r.id: r for r in tables.receipts.values() if r.tenant == tenant and r.id in wanted}

    async def receipt_of_key(self, tenant: str, key: str) -> p.ReceiptRow | None:
        with self._transaction() as tables:
            return tables.receipts.get((tenant, key))

    async def receipts(
        self, query: p.ReceiptQuery, limit: int, after: p.ReceiptRow | p.Cursor | None = None
    ) -> list[p.ReceiptRow]:
        with self._transaction() as tables:
            found = [
                receipt
                for receipt in tables.receipts.values()
                if query.tenant in (None, receipt.tenant)
                and query.run in (None, receipt.run)
                and query.state in (None, receipt.state)
                and query.connector in (None, receipt.connector)
                and (after is None or receipt.cursor > after.cursor)
            ]
        return heapq.nsmallest(limit, found, key=_place)

    async def orphaned_receipts(self, limit: int, after: tuple[str, str] = ("", "")) -> list[p.OrphanedReceipt]:
        with self._transaction() as tables:
            there = {(row.tenant, row.id): row for row in tables.receipts.values()}
            places = [place for place in sorted(tables.orphans) if place > after][:limit]
            return [p.OrphanedReceipt(*place, tables.orphans[place], there.get(place)) for place in places]

    async def forget_orphans(self, tenant: str, ids: Sequence[str]) -> None:
        with self._transaction() as tables:
            asked = {
                row.id
                for row in tables.receipts.values()
                if row.tenant == tenant and row.state == "unknown" and row.asked is not None
            }
            for id in set(ids) - asked:
                tables.orphans.pop((tenant, id), None)

    async def task(self, tenant: str, id: str) -> p.TaskRow | None:
        with self._transaction() as tables:
            return tables.tasks.get((tenant, id))

    async def tasks_by_id(self, tenant: str, ids: Sequence[str]) -> dict[str, p.TaskRow]:
        with self._transaction() as tables:
            return {id: tables.tasks[tenant, id] for id in ids if (tenant, id) in tables.tasks}

    async def tasks(self, query: p.TaskQuery, limit: int, after: p.TaskRow | p.Cursor | None = None) -> list[p.TaskRow]:
        with self._transaction() as tables:
            found = [
                task
                for task in tables.tasks.values()
                if query.tenant in (None, task.tenant)
                and query.status in (None, task.status)
                and query.run in (None, task.run)
                and query.kind in (None, task.kind)
                and query.owner in (None, task.owner)
                and query.reference in (None, task.reference)
                and (after is None or task.cursor > after.cursor)
            ]
        return heapq.nsmallest(limit, found, key=_place)

    async def keep_files(self, files: Sequence[p.File]) -> list[bool]:
        with self._transaction() as tables:
            sealed = _sealed_through(tables, files)
            return [_keep(tables, file, sealed.get(file.about.key, -1)) for file in files]

    async def files(self, key: p.Key) -> list[p.KeptFile]:
        with self._transaction() as tables:
            found = [file.about for file in tables.files.get(key, {}).values()]
        return sorted(found, key=lambda kept: (kept.at, kept.generation, kept.name))

    async def file(self, key: p.Key, generation: int, name: str) -> bytes | None:
        with self._transaction() as tables:
            file = tables.files.get(key, {}).get((generation, name))
            return None if file is None else file.data

    async def file_part(self, key: p.Key, generation: int, name: str, at: int, size: int) -> bytes | None:
        data = await self.file(key, generation, name)
        return None if data is None else data[at : at + size]

    async def kept_evidence(self, keys: Sequence[p.Key], largest: int) -> list[p.File]:
        with self._transaction() as tables:
            kept = [file for key in sorted(set(keys)) for _, file in sorted(tables.files.get(key, {}).items())]
        evidence = [file for file in kept if file.about.name == p.EVIDENCE]
        return [replace(file, data=file.data if len(file.data) <= largest else b"", through=-1) for file in evidence]

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
    """Whether the run must have evidence once it has ended, and has none."""
    return run.governed and run.evidence is None


def _sealed_through(tables: Tables, files: Sequence[p.File]) -> dict[p.Key, int]:
    """The position of the last sealed entry of each run that has one."""
    found: dict[p.Key, int] = {}
    wanted = {file.about.key for file in files}
    for entry in tables.audit:
        if entry.position is not None and entry.run is not None and (key := p.Key(entry.tenant, entry.run)) in wanted:
            found[key] = max(entry.position, found.get(key, -1))
    return found


def _keep(tables: Tables, file: p.File, sealed_through: int) -> bool:
    kept = file.about
    is_evidence = kept.name == p.EVIDENCE
    if is_evidence and sealed_through > file.through:
        return False
    tables.keep(file)
    run = tables.runs.get(kept.key)
    if is_evidence and run is not None and run.generation == kept.generation:
        tables.put(replace(run, evidence=kept.sha256))
    return True


def _lives(tables: Tables, key: p.Key, task: p.TaskRow) -> bool:
    run = tables.runs.get(key)
    here = (task.tenant, task.run) == key and run is not None and run.generation == task.generation
    return here and (task.status != "cancelled" or task.kind != "form")


def _place(row: p.ReceiptRow | p.TaskRow) -> p.Cursor:
    return row.cursor
