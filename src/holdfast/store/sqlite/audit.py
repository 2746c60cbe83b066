"""The audit, read and sealed: entries, blocks and the keys that sign them."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import msgspec

from holdfast.store import protocol as p
from holdfast.store.governance import holding
from holdfast.store.sqlite.gate_changes import note
from holdfast.store.sqlite.sql import GATE

# SQLite stores values of any type in a column. The casts let an altered value be reported instead of breaking a read.
_ENTRY_COLUMNS: Final = """
SELECT audit.sequence, CAST(audit.tenant AS TEXT), CAST(audit.run AS TEXT), CAST(audit.kind AS TEXT),
       CAST(audit.at AS INTEGER), CAST(audit.body AS BLOB), CAST(audit.position AS INTEGER) AS position
"""
ENTRY: Final = f"{_ENTRY_COLUMNS} FROM audit"
BLOCK: Final = """
SELECT tenant, CAST(number AS INTEGER), CAST(first AS INTEGER), CAST(count AS INTEGER), CAST(previous AS BLOB),
       CAST(head AS BLOB), CAST(digests AS BLOB), CAST(sealed_at AS INTEGER), CAST(signer AS TEXT),
       CAST(signature AS BLOB), CAST(form AS INTEGER)
FROM blocks
"""
HEAD: Final = BLOCK.replace("CAST(digests AS BLOB)", "x''")
SEALED_BEHIND: Final = """
position IS NOT NULL AND position > coalesce((SELECT position FROM audit WHERE sequence = ?), ?)
"""
OTHERS_BEHIND: Final = """
position IS NULL
AND sequence > CASE WHEN (SELECT position FROM audit WHERE sequence = ?) IS NULL THEN ? ELSE 0 END
"""
SEALED_BEFORE: Final = """
position IS NOT NULL AND position < coalesce((SELECT position FROM audit WHERE sequence = ?), ?)
"""
OTHERS_BEFORE: Final = """
position IS NULL
AND sequence < CASE WHEN (SELECT position FROM audit WHERE sequence = ?) IS NULL THEN ? ELSE 0 END
"""
# Sealed entries of a run are in an index; the unsealed ones are few, and are all read.
ENTRIES_IN: Final = f"""
WITH spans AS MATERIALIZED (
    SELECT json_extract(value, '$[0]') AS tenant, json_extract(value, '$[1]') AS run,
           json_extract(value, '$[2]') AS since, json_extract(value, '$[3]') AS until,
           json_extract(value, '$[4]') AS kind
    FROM json_each(?1)
)
{_ENTRY_COLUMNS} FROM spans CROSS JOIN audit INDEXED BY audit_of_run
WHERE audit.tenant = spans.tenant AND audit.run = spans.run AND audit.position IS NOT NULL AND audit.sequence > ?2
  AND (spans.since IS NULL OR audit.at >= spans.since) AND (spans.until IS NULL OR audit.at < spans.until)
  AND (spans.kind IS NULL OR audit.kind = spans.kind)
UNION ALL
{_ENTRY_COLUMNS} FROM audit INDEXED BY audit_unsealed CROSS JOIN spans
WHERE audit.tenant = spans.tenant AND audit.run = spans.run AND audit.position IS NULL AND audit.sequence > ?2
  AND (spans.since IS NULL OR audit.at >= spans.since) AND (spans.until IS NULL OR audit.at < spans.until)
  AND (spans.kind IS NULL OR audit.kind = spans.kind)
ORDER BY 1 LIMIT ?3
"""  # noqa: S608  # the values are bound
ENTRIES_OF_TASKS: Final = f"""
{_ENTRY_COLUMNS} FROM audit INDEXED BY audit_of_task
WHERE kind = 'approval' AND tenant = ?1
  AND CASE WHEN json_valid(CAST(body AS TEXT)) THEN json_extract(CAST(body AS TEXT), '$.task') END
      IN (SELECT value FROM json_each(?2))
"""  # noqa: S608  # the values are bound
LAST: Final = 2**63 - 1


class SqliteAudit(ABC):
    """The operations of the SQLite store on the audit."""

    @abstractmethod
    def _transaction(self) -> AbstractAsyncContextManager[sqlite3.Connection]: ...

    @abstractmethod
    def _read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...

    async def entries(self, query: p.AuditQuery, limit: int, after: p.AuditEntry | None = None) -> list[p.AuditEntry]:
        where, values = _where(query)
        # One statement, so that no entry is missed that is sealed at the same time. ``after`` may have been sealed
        # since it was read: its present place counts.
        sealed = f"{ENTRY} WHERE {where} AND {SEALED_BEHIND} ORDER BY audit.position LIMIT ?"
        others = f"{ENTRY} WHERE {where} AND {OTHERS_BEHIND} ORDER BY sequence LIMIT ?"
        sequence, else_behind = (0, -1) if after is None else (after.sequence, LAST)
        found = self._read(
            f"SELECT * FROM ({sealed}) UNION ALL SELECT * FROM ({others})",  # noqa: S608  # values are bound
            (*values, sequence, else_behind, limit, *values, sequence, sequence, limit),
        )
        # Each half is in its order already. Sorting again would use altered positions.
        return sorted((p.AuditEntry(*row) for row in found), key=lambda entry: entry.position is None)[:limit]

    async def last_entries(
        self, query: p.AuditQuery, limit: int, before: p.AuditEntry | None = None
    ) -> list[p.AuditEntry]:
        where, values = _where(query)
        sealed = f"{ENTRY} WHERE {where} AND {SEALED_BEFORE} ORDER BY audit.position DESC LIMIT ?"
        others = f"{ENTRY} WHERE {where} AND {OTHERS_BEFORE} ORDER BY sequence DESC LIMIT ?"
        sequence = LAST if before is None else before.sequence
        found = self._read(
            f"SELECT * FROM ({others}) UNION ALL SELECT * FROM ({sealed})",  # noqa: S608  # values are bound
            (*values, sequence, sequence, limit, *values, sequence, LAST, limit),
        )
        return sorted((p.AuditEntry(*row) for row in found), key=lambda entry: entry.position is not None)[:limit]

    async def entries_in(
        self, spans: Sequence[p.Span], limit: int, after: p.AuditEntry | None = None
    ) -> list[p.AuditEntry]:
        wanted = _json([[*span.key, span.since, span.until, span.kind] for span in spans])
        return [
            p.AuditEntry(*row)
            for row in self._read(ENTRIES_IN, (wanted, 0 if after is None else after.sequence, limit))
        ]

    async def entries_of_tasks(self, tenant: str, tasks: Sequence[str]) -> list[p.AuditEntry]:
        found = [p.AuditEntry(*row) for row in self._read(ENTRIES_OF_TASKS, (tenant, _json(list(tasks))))]
        return sorted(found, key=lambda entry: entry.sequence)

    async def unsealed(self, limit: int) -> list[p.AuditEntry]:
        return [p.AuditEntry(*row) for row in self._read(GATE["unsealed"], (limit,))]

    async def blocks(self, tenant: str, first: int, limit: int) -> list[p.Block]:
        if first < 0:
            found = self._read(f"{BLOCK} WHERE tenant = ? ORDER BY number DESC LIMIT ?", (tenant, -first))[::-1][:limit]
        else:
            found = self._read(
                f"{BLOCK} WHERE tenant = ? AND number >= ? ORDER BY number LIMIT ?", (tenant, first, limit)
            )
        return [p.Block(*row) for row in found]

    async def heads(self, tenants: Sequence[str] | None = None) -> list[p.Block]:
        if tenants is None:
            last = "(SELECT tenant, max(number) FROM blocks GROUP BY tenant)"
            found = self._read(f"{HEAD} WHERE (tenant, number) IN {last} ORDER BY tenant")
        else:
            last = "SELECT value, (SELECT max(number) FROM blocks WHERE tenant = value) FROM json_each(?)"
            found = self._read(f"{HEAD} WHERE (tenant, number) IN ({last}) ORDER BY tenant", (_json(list(tenants)),))
        return [p.Block(*row) for row in found]

    async def holders(self, places: Sequence[tuple[str, int]]) -> list[p.Block]:
        near = f"WHERE (tenant, number) IN ({GATE['blocks_before']}) ORDER BY tenant, number"
        found = [p.Block(*row) for row in self._read(f"{BLOCK} {near}", (_json(places),))]
        return holding(found, places)

    async def seal(self, sealings: Sequence[p.Sealing]) -> list[bool]:
        async with self._transaction() as connection:
            signer = connection.execute(GATE["last_signer"]).fetchone()
            return [
                (signer is None or signer[0] == sealing.block.signer) and _seal(connection, sealing)
                for sealing in sealings
            ]

    async def signing_keys(self) -> list[p.SigningKey]:
        return [p.SigningKey(*row) for row in self._read(GATE["signing_keys"])]

    async def add_signing_key(
        self, key: p.SigningKey, attached: p.Note | None = None, ends: Sequence[p.ChainEnd] = ()
    ) -> bool:
        async with self._transaction() as connection:
            reached = _json({end.tenant: end.number for end in ends})
            if key.retirement and connection.execute(GATE["gone_on"], (reached,)).fetchone():
                return False
            added = connection.execute(GATE["add_signing_key"], msgspec.structs.astuple(key)).rowcount == 1
            if added:
                connection.executemany(GATE["add_chain_end"], [(key.number, *msgspec.structs.astuple(e)) for e in ends])
            if added and attached is not None:
                note(connection.cursor(), attached)
        return added

    async def chain_ends(self, number: int) -> list[p.ChainEnd]:
        return [p.ChainEnd(*row) for row in self._read(GATE["chain_ends"], (number,))]


def _seal(connection: sqlite3.Connection, sealing: p.Sealing) -> bool:
    block = sealing.block
    last = connection.execute(GATE["last_block"], (block.tenant,)).fetchone()
    if last is not None and (block.number, block.first) != (last[0] + 1, last[1]):
        return False
    wanted = _json(sealing.sequences)
    (free,) = connection.execute(GATE["count_sealable"], (wanted, block.tenant)).fetchone()
    if free != len(sealing.sequences):
        return False
    connection.execute(GATE["add_block"], msgspec.structs.astuple(block))
    connection.executemany(GATE["seal"], enumerate(sealing.sequences, block.first))
    connection.execute(GATE["make_due"], (block.tenant, wanted))
    return True


def where_equal(**conditions: str | None) -> tuple[str, list[Any]]:
    """A clause of the conditions that are not None, by column, and its parameters."""
    values = {column: value for column, value in conditions.items() if value is not None}
    return " AND ".join(["1", *(f"{column} = ?" for column in values)]), list(values.values())


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _where(query: p.AuditQuery) -> tuple[str, list[Any]]:
    """The conditions of a list of entries, and their values."""
    where, values = where_equal(tenant=query.tenant, run=query.run, kind=query.kind)
    for clause, bound in (("at >= ?", query.since), ("at < ?", query.until)):
        if bound is not None:
            where += f" AND {clause}"
            values.append(bound)
    return where, values
