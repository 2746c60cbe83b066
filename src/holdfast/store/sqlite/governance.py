"""What the gate keeps, read and sealed: receipts, tasks, the audit, keys, artefacts."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import msgspec

from holdfast.store import protocol as p
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.gating import note, read_receipt, read_task
from holdfast.store.sqlite.sql import GATE

# SQLite keeps whatever type it was given. Read as what it must be, what somebody altered is named and breaks nothing.
ENTRY: Final = """
SELECT sequence, CAST(tenant AS TEXT), CAST(run AS TEXT), CAST(kind AS TEXT), CAST(at AS INTEGER), CAST(body AS BLOB),
       CAST(position AS INTEGER) AS position
FROM audit
"""
BLOCK: Final = """
SELECT tenant, CAST(number AS INTEGER), CAST(first AS INTEGER), CAST(count AS INTEGER), CAST(previous AS BLOB),
       CAST(head AS BLOB), CAST(digests AS BLOB), CAST(sealed_at AS INTEGER), CAST(signer AS TEXT),
       CAST(signature AS BLOB), CAST(form AS INTEGER)
FROM blocks
"""
SEALED_BEHIND: Final = """
position IS NOT NULL AND position > coalesce((SELECT position FROM audit WHERE sequence = ?), ?)
"""
OTHERS_BEHIND: Final = """
position IS NULL
AND sequence > CASE WHEN (SELECT position FROM audit WHERE sequence = ?) IS NULL THEN ? ELSE 0 END
"""
LAST: Final = 2**63 - 1


class Governance(ABC):
    """The operations of the SQLite store that belong to the gate."""

    @abstractmethod
    def _transaction(self) -> AbstractAsyncContextManager[sqlite3.Connection]: ...

    @abstractmethod
    def _read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...

    async def governed(self, keys: Sequence[p.Key]) -> dict[p.Key, p.Governed]:
        found = {}
        for key in keys:
            receipts = [read_receipt(*row) for row in self._read(GATE["unsuccessful_receipts"], key)]
            tasks = [read_task(*row) for row in self._read(GATE["live_tasks"], key)]
            if receipts or tasks:
                found[key] = p.Governed(receipts, tasks)
        return found

    async def receipt(self, tenant: str, id: str) -> p.Receipt | None:
        found = self._read(GATE["receipt"], (tenant, id))
        return read_receipt(*found[0]) if found else None

    async def receipt_of_key(self, tenant: str, key: str) -> p.Receipt | None:
        found = self._read(GATE["receipt_of_key"], (tenant, key))
        return read_receipt(*found[0]) if found else None

    async def receipts(self, query: p.ReceiptQuery, limit: int, after: p.Receipt | None = None) -> list[p.Receipt]:
        where, values = _where(tenant=query.tenant, run=query.run, state=query.state, connector=query.connector)
        if after is not None:
            where += " AND (opened_at, tenant, id) > (?, ?, ?)"
            values += [after.opened_at, after.tenant, after.id]
        order = "ORDER BY opened_at, tenant, id LIMIT ?"
        sql = f"SELECT body, reversed_by FROM receipts WHERE {where} {order}"  # noqa: S608  # values are bound
        return [read_receipt(*row) for row in self._read(sql, (*values, limit))]

    async def task(self, tenant: str, id: str) -> p.Task | None:
        found = self._read(GATE["task"], (tenant, id))
        return read_task(*found[0]) if found else None

    async def tasks(self, query: p.TaskQuery, limit: int, after: p.Task | None = None) -> list[p.Task]:
        where, values = _where(tenant=query.tenant, status=query.status, run=query.run)
        if after is not None:
            where += " AND (created_at, tenant, id) > (?, ?, ?)"
            values += [after.created_at, after.tenant, after.id]
        sql = f"SELECT body FROM tasks WHERE {where} ORDER BY created_at, tenant, id LIMIT ?"  # noqa: S608  # bound
        return [read_task(*row) for row in self._read(sql, (*values, limit))]

    async def entries(self, query: p.AuditQuery, limit: int, after: p.Entry | None = None) -> list[p.Entry]:
        where, values = _where(tenant=query.tenant, run=query.run, kind=query.kind)
        for clause, bound in (("at >= ?", query.since), ("at < ?", query.until)):
            if bound is not None:
                where += f" AND {clause}"
                values.append(bound)
        # One statement, so that none is missed that is sealed meanwhile. ``after`` may have been sealed since it was
        # read: what counts is where it stands now.
        sealed = f"{ENTRY} WHERE {where} AND {SEALED_BEHIND} ORDER BY audit.position LIMIT ?"
        others = f"{ENTRY} WHERE {where} AND {OTHERS_BEHIND} ORDER BY sequence LIMIT ?"
        sequence, else_behind = (0, -1) if after is None else (after.sequence, LAST)
        found = self._read(
            f"SELECT * FROM ({sealed}) UNION ALL SELECT * FROM ({others})",  # noqa: S608  # values are bound
            (*values, sequence, else_behind, limit, *values, sequence, sequence, limit),
        )
        entries = [p.Entry(*row) for row in found]
        entries.sort(key=lambda entry: (entry.position is None, entry.position or 0, entry.sequence))
        return entries[:limit]

    async def unsealed(self, limit: int) -> list[p.Entry]:
        return [p.Entry(*row) for row in self._read(GATE["unsealed"], (limit,))]

    async def blocks(self, tenant: str, first: int, limit: int) -> list[p.Block]:
        if first < 0:
            found = self._read(f"{BLOCK} WHERE tenant = ? ORDER BY number DESC LIMIT ?", (tenant, -first))[::-1][:limit]
        else:
            found = self._read(
                f"{BLOCK} WHERE tenant = ? AND number >= ? ORDER BY number LIMIT ?", (tenant, first, limit)
            )
        return [p.Block(*row) for row in found]

    async def seal(self, block: p.Block, sequences: Sequence[int]) -> bool:
        async with self._transaction() as connection:
            last = connection.execute(GATE["last_block"], (block.tenant,)).fetchone()
            if last is not None and (block.number, block.first) != (last[0] + 1, last[1]):
                return False
            wanted = msgspec.json.encode(list(sequences)).decode()
            (free,) = connection.execute(GATE["count_sealable"], (wanted, block.tenant)).fetchone()
            if free != len(sequences):
                return False
            connection.execute(GATE["add_block"], msgspec.structs.astuple(block))
            connection.executemany(GATE["seal"], enumerate(sequences, block.first))
            connection.execute(GATE["make_due"], (block.tenant, wanted))
        return True

    async def signing_keys(self) -> list[p.SigningKey]:
        return [p.SigningKey(*row) for row in self._read(GATE["signing_keys"])]

    async def add_signing_key(self, key: p.SigningKey, also: p.Note | None = None) -> bool:
        async with self._transaction() as connection:
            added = connection.execute(GATE["add_signing_key"], msgspec.structs.astuple(key)).rowcount == 1
            if added and also is not None:
                note(connection.cursor(), also)
        return added

    async def keep_artefacts(self, files: Sequence[p.File]) -> list[bool]:
        async with self._transaction() as connection:
            return [_keep(connection, file) for file in files]

    async def artefacts(self, key: p.Key) -> list[p.Artefact]:
        return [p.Artefact(key, *row) for row in self._read(GATE["artefacts"], key)]

    async def artefact(self, key: p.Key, generation: int, name: str) -> bytes | None:
        found = self._read(GATE["artefact"], (*key, generation, name))
        return found[0][0] if found else None

    async def evidence_due(self, limit: int) -> list[p.Run]:
        return [rows.run(row) for row in self._read(GATE["evidence_due"], (limit,))]

    async def misfiled(self, tenant: str) -> str | None:
        found = self._read(GATE["misfiled"], (tenant,))
        return str(found[0][0]) if found else None

    async def evidence_overdue(self, ended_before: int) -> int:
        ((count,),) = self._read(GATE["evidence_overdue"], (ended_before,))
        return int(count)


def _keep(connection: sqlite3.Connection, file: p.File) -> bool:
    artefact = file.artefact
    place = (*artefact.key, artefact.generation)
    is_evidence = artefact.name == p.EVIDENCE
    if is_evidence and connection.execute(GATE["sealed_behind"], (*artefact.key, file.through)).fetchone():
        return False
    kept = (*place, artefact.name, artefact.sha256, artefact.size, artefact.at, file.data)
    connection.execute(GATE["keep_artefact"], kept)
    if is_evidence:
        connection.execute(GATE["show_evidence"], (*place, artefact.sha256))
    return True


def _where(**conditions: str | None) -> tuple[str, list[Any]]:
    """The clause of the conditions that are given, by column, and its parameters."""
    given = {column: value for column, value in conditions.items() if value is not None}
    return " AND ".join(["1", *(f"{column} = ?" for column in given)]), list(given.values())
