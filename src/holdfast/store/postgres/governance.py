"""The gate's data besides the audit: receipts, tasks, files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import astuple

from holdfast.store import protocol as p
from holdfast.store import sql_rows
from holdfast.store.postgres import holding, rows
from holdfast.store.postgres.audit import PostgresAudit
from holdfast.store.postgres.sql import SQL
from holdfast.store.postgres.writer import columns

_PAGE: Final = 2000
_LOOKED_FOR: Final = ("tenant", "key", "id", "run", "root", "position", "state", "token", "opened_at")


class PostgresGovernance(PostgresAudit):
    """The operations of the PostgreSQL store that belong to the gate."""

    # -- receipts and tasks

    async def governed(self, keys: Sequence[p.Key]) -> dict[p.Key, p.Governed]:
        found: dict[p.Key, p.Governed] = {}
        for row in await self._read("governed", *columns(keys, 2)):
            governed = found.setdefault(p.Key(row["tenant"], row["run"]), p.Governed([], [], []))
            if row["taking"] is not None:
                governed.taken.append(p.TakenAct(row["taking"], rows.receipt(row)))
            elif row["is_receipt"]:
                governed.receipts.append(rows.receipt(row))
            else:
                governed.tasks.append(rows.task(row))
        return found

    async def stakes(self, tenant: str, receipt: str) -> p.Stakes:
        return await holding.stakes(self._read, tenant, receipt)

    async def acts_of(self, tenant: str, callers: Sequence[p.ActCaller]) -> list[p.ReceiptRow | None]:
        return await holding.acts_of(self._read, tenant, callers)

    async def receipt(self, tenant: str, id: str) -> p.ReceiptRow | None:
        found = await self._read("receipt", tenant, id)
        return rows.receipt(found[0]) if found else None

    async def receipts_by_id(self, tenant: str, ids: Sequence[str]) -> dict[str, p.ReceiptRow]:
        found = [rows.receipt(row) for row in await self._read("receipts_by_id", tenant, list(ids))]
        return {receipt.id: receipt for receipt in found}

    async def receipt_of_key(self, tenant: str, key: str) -> p.ReceiptRow | None:
        found = await self._read("receipt_of_key", tenant, key)
        return rows.receipt(found[0]) if found else None

    async def receipts(
        self, query: p.ReceiptQuery, limit: int, after: p.ReceiptRow | p.Cursor | None = None
    ) -> list[p.ReceiptRow]:
        clauses = rows.receipt_clauses(query, after)
        # With the tenant fixed, an order by tenant would keep the planner from using the index for that order.
        order = "opened_at, id" if query.tenant is not None else "opened_at, tenant, id"
        found = await self._page("SELECT body, reversed_by FROM receipts", clauses, order, limit)
        return [rows.receipt(row) for row in found]

    async def orphaned_receipts(self, limit: int, after: tuple[str, str] = ("", "")) -> list[p.OrphanedReceipt]:
        found = await self._read("orphaned_receipts", *after, limit)
        return [
            p.OrphanedReceipt(row["tenant"], row["id"], row["task"], None if row["body"] is None else rows.receipt(row))
            for row in found
        ]

    async def forget_orphans(self, tenant: str, ids: Sequence[str]) -> None:
        await self._read("forget_orphans", tenant, list(ids))

    async def task(self, tenant: str, id: str) -> p.TaskRow | None:
        found = await self._read("task", tenant, id)
        return rows.task(found[0]) if found else None

    async def tasks_by_id(self, tenant: str, ids: Sequence[str]) -> dict[str, p.TaskRow]:
        found = [rows.task(row) for row in await self._read("tasks_by_id", tenant, list(ids))]
        return {task.id: task for task in found}

    async def tasks(self, query: p.TaskQuery, limit: int, after: p.TaskRow | p.Cursor | None = None) -> list[p.TaskRow]:
        clauses = rows.task_clauses(query, after)
        order = "created_at, id" if query.tenant is not None else "created_at, tenant, id"
        return [rows.task(row) for row in await self._page("SELECT body, reference FROM tasks", clauses, order, limit)]

    async def _page(self, select: str, clauses: rows.Clauses, order: str, limit: int) -> list[Any]:
        statement = f"{select} WHERE {clauses} ORDER BY {order} LIMIT {int(limit)}"
        async with self._glance() as session:
            found: list[Any] = await session.fetch(statement, *clauses.values)
            return found

    # -- files

    async def keep_files(self, files: Sequence[p.File]) -> list[bool]:
        if not files:
            return []

        async def attempt() -> list[bool]:
            async with self._transaction() as connection:
                await connection.fetch(SQL["share_chains"])
                kept = await connection.fetch(SQL["keep_artefacts"], *columns(map(_kept, files), 10))
                places = {tuple(row) for row in kept}
                return [(*each.key, each.generation, each.name) in places for each in (f.about for f in files)]

        return await self._retried(attempt)

    async def files(self, key: p.Key) -> list[p.KeptFile]:
        return [p.KeptFile(p.Key(*row[:2]), *row[2:]) for row in await self._read("artefacts", *key)]

    async def file(self, key: p.Key, generation: int, name: str) -> bytes | None:
        found = await self._read("artefact", *key, generation, name)
        return found[0]["data"] if found else None

    async def file_part(self, key: p.Key, generation: int, name: str, at: int, size: int) -> bytes | None:
        found = await self._read("artefact_part", *key, generation, name, at + 1, size)
        return found[0]["data"] if found else None

    async def kept_evidence(self, keys: Sequence[p.Key], largest: int) -> list[p.File]:
        found = await self._read("kept_evidence", *columns(dict.fromkeys(keys), 2), p.EVIDENCE, largest)
        return [p.File(p.KeptFile(p.Key(*row[:2]), *row[2:7]), row[7]) for row in found]

    async def evidence_due(self, limit: int) -> list[p.Run]:
        return [sql_rows.run(row) for row in await self._read("evidence_due", limit)]

    async def misfiled(self, tenant: str) -> str | None:
        last = ""
        while page := await self._read("filed", tenant, last, _PAGE):
            for row in page:
                if not _is_filed(row):
                    return str(row["id"])
            last = page[-1]["key"]
        return None

    async def evidence_overdue(self, ended_before: int) -> int:
        ((count,),) = await self._look("evidence_overdue", ended_before)
        return int(count)


def _is_filed(row: Any) -> bool:
    """Whether a receipt's columns match its body."""
    try:
        receipt = rows.receipt(row)
    except (ValueError, RecursionError):
        return False
    return all(row[name] == getattr(receipt, name) for name in _LOOKED_FOR)


def _kept(file: p.File) -> tuple[Any, ...]:
    """The parameters of the statement that keeps a file."""
    key, *fields = astuple(file.about)
    return (*key, *fields, file.data, file.about.name == p.EVIDENCE, file.through)
