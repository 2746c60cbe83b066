"""The gate's data besides the audit: receipts, tasks, files."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from holdfast.store import protocol as p
from holdfast.store import sql_rows
from holdfast.store.sqlite import holding
from holdfast.store.sqlite.audit import SqliteAudit, where_equal
from holdfast.store.sqlite.connection import translated
from holdfast.store.sqlite.gate_changes import read_task
from holdfast.store.sqlite.rows import read_receipt
from holdfast.store.sqlite.sql import GATE


class SqliteGovernance(SqliteAudit):
    """The operations of the SQLite store that belong to the gate."""

    path: str
    _reader: sqlite3.Connection | None

    async def governed(self, keys: Sequence[p.Key]) -> dict[p.Key, p.Governed]:
        found = {}
        for key in keys:
            receipts = [read_receipt(*row) for row in self._read(GATE["unsuccessful_receipts"], key)]
            tasks = [read_task(*row) for row in self._read(GATE["live_tasks"], key)]
            taken = holding.taken_by(self._read, key)
            if receipts or tasks or taken:
                found[key] = p.Governed(receipts, tasks, taken)
        return found

    async def stakes(self, tenant: str, receipt: str) -> p.Stakes:
        return holding.stakes(self._read, tenant, receipt)

    async def acts_of(self, tenant: str, callers: Sequence[p.ActCaller]) -> list[p.ReceiptRow | None]:
        return [holding.act_of(self._read, tenant, caller) for caller in callers]

    async def receipt(self, tenant: str, id: str) -> p.ReceiptRow | None:
        found = self._read(GATE["receipt"], (tenant, id))
        return read_receipt(*found[0]) if found else None

    async def receipts_by_id(self, tenant: str, ids: Sequence[str]) -> dict[str, p.ReceiptRow]:
        found = self._read(GATE["receipts_by_id"], (tenant, msgspec.json.encode(list(ids)).decode()))
        return {receipt.id: receipt for receipt in (read_receipt(*row) for row in found)}

    async def receipt_of_key(self, tenant: str, key: str) -> p.ReceiptRow | None:
        found = self._read(GATE["receipt_of_key"], (tenant, key))
        return read_receipt(*found[0]) if found else None

    async def receipts(
        self, query: p.ReceiptQuery, limit: int, after: p.ReceiptRow | p.Cursor | None = None
    ) -> list[p.ReceiptRow]:
        where, values = where_equal(tenant=query.tenant, run=query.run, state=query.state, connector=query.connector)
        if after is not None:
            where += " AND (opened_at, tenant, id) > (?, ?, ?)"
            values += after.cursor
        order = "ORDER BY opened_at, tenant, id LIMIT ?"
        sql = f"SELECT body, reversed_by FROM receipts WHERE {where} {order}"  # noqa: S608  # values are bound
        return [read_receipt(*row) for row in self._read(sql, (*values, limit))]

    async def orphaned_receipts(self, limit: int, after: tuple[str, str] = ("", "")) -> list[p.OrphanedReceipt]:
        return [
            p.OrphanedReceipt(tenant, id, task, None if body is None else read_receipt(body, reversed_by))
            for tenant, id, task, body, reversed_by in self._read(GATE["orphaned_receipts"], (*after, limit))
        ]

    async def forget_orphans(self, tenant: str, ids: Sequence[str]) -> None:
        async with self._transaction() as connection:
            connection.execute(GATE["forget_orphans"], (tenant, msgspec.json.encode(list(ids)).decode()))

    async def task(self, tenant: str, id: str) -> p.TaskRow | None:
        found = self._read(GATE["task"], (tenant, id))
        return read_task(*found[0]) if found else None

    async def tasks_by_id(self, tenant: str, ids: Sequence[str]) -> dict[str, p.TaskRow]:
        found = self._read(GATE["tasks_by_id"], (tenant, msgspec.json.encode(list(ids)).decode()))
        return {task.id: task for task in (read_task(*row) for row in found)}

    async def tasks(self, query: p.TaskQuery, limit: int, after: p.TaskRow | p.Cursor | None = None) -> list[p.TaskRow]:
        where, values = where_equal(
            tenant=query.tenant,
            **{"status" if query.run is None else "+status": query.status},  # a run's tasks are found by the run
            run=query.run,
            kind=query.kind,
            owner=query.owner,
            reference=query.reference,
        )
        if after is not None:
            where += " AND (created_at, tenant, id) > (?, ?, ?)"
            values += after.cursor
        order = "ORDER BY created_at, tenant, id LIMIT ?"
        sql = f"SELECT body, reference FROM tasks WHERE {where} {order}"  # noqa: S608  # values are bound
        return [read_task(*row) for row in self._read(sql, (*values, limit))]

    async def keep_files(self, files: Sequence[p.File]) -> list[bool]:
        async with self._transaction() as connection:
            return [_keep(connection, file) for file in files]

    async def files(self, key: p.Key) -> list[p.KeptFile]:
        return [p.KeptFile(key, *row) for row in self._read(GATE["artefacts"], key)]

    async def file(self, key: p.Key, generation: int, name: str) -> bytes | None:
        found = self._read(GATE["artefact"], (*key, generation, name))
        return found[0][0] if found else None

    async def file_part(self, key: p.Key, generation: int, name: str, at: int, size: int) -> bytes | None:
        found = self._read(GATE["place_of_artefact"], (*key, generation, name))
        if not found or self._reader is None:
            return None
        with translated(self.path), self._reader.blobopen("artefacts", "data", found[0][0], readonly=True) as data:
            data.seek(min(at, len(data)))
            return data.read(size)

    async def kept_evidence(self, keys: Sequence[p.Key], largest: int) -> list[p.File]:
        found = self._read(GATE["kept_evidence"], (msgspec.json.encode(list(keys)).decode(), p.EVIDENCE, largest))
        return [p.File(p.KeptFile(p.Key(*row[:2]), *row[2:7]), row[7]) for row in found]

    async def evidence_due(self, limit: int) -> list[p.Run]:
        return [sql_rows.run(row) for row in self._read(GATE["evidence_due"], (limit,))]

    async def misfiled(self, tenant: str) -> str | None:
        found = self._read(GATE["misfiled"], (tenant,))
        return str(found[0][0]) if found else None

    async def evidence_overdue(self, ended_before: int) -> int:
        ((count,),) = self._read(GATE["evidence_overdue"], (ended_before,))
        return int(count)


def _keep(connection: sqlite3.Connection, file: p.File) -> bool:
    about = file.about
    place = (*about.key, about.generation)
    is_evidence = about.name == p.EVIDENCE
    if is_evidence and connection.execute(GATE["sealed_behind"], (*about.key, file.through)).fetchone():
        return False
    row = (*place, about.name, about.sha256, about.size, about.at, file.data)
    connection.execute(GATE["keep_artefact"], row)
    if is_evidence:
        connection.execute(GATE["show_evidence"], (*place, about.sha256))
    return True
