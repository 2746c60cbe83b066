"""What the gate keeps, read and sealed: receipts, tasks, the audit, keys, artefacts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import astuple

from holdfast.store import protocol as p
from holdfast.store.postgres import rows
from holdfast.store.postgres.sessions import Sessions
from holdfast.store.postgres.sql import SQL
from holdfast.store.postgres.writer import columns

_PAGE: Final = 500
_LOOKED_FOR: Final = ("tenant", "key", "id", "run", "root", "position", "state", "token", "opened_at")


class Governance(Sessions):
    """The operations of the PostgreSQL store that belong to the gate."""

    # -- receipts and tasks

    async def governed(self, keys: Sequence[p.Key]) -> dict[p.Key, p.Governed]:
        found: dict[p.Key, p.Governed] = {}
        for row in await self._read("governed", *columns(keys, 2)):
            governed = found.setdefault(p.Key(row["tenant"], row["run"]), p.Governed([], []))
            if row["is_receipt"]:
                governed.receipts.append(rows.receipt(row))
            else:
                governed.tasks.append(rows.task(row["body"]))
        return found

    async def receipt(self, tenant: str, id: str) -> p.Receipt | None:
        found = await self._read("receipt", tenant, id)
        return rows.receipt(found[0]) if found else None

    async def receipt_of_key(self, tenant: str, key: str) -> p.Receipt | None:
        found = await self._read("receipt_of_key", tenant, key)
        return rows.receipt(found[0]) if found else None

    async def receipts(self, query: p.ReceiptQuery, limit: int, after: p.Receipt | None = None) -> list[p.Receipt]:
        clauses = rows.receipt_clauses(query, after)
        # With the tenant fixed, naming it in the order would hide that there is an index of just that order.
        order = "opened_at, id" if query.tenant is not None else "opened_at, tenant, id"
        found = await self._page("SELECT body, reversed_by FROM receipts", clauses, order, limit)
        return [rows.receipt(row) for row in found]

    async def task(self, tenant: str, id: str) -> p.Task | None:
        found = await self._read("task", tenant, id)
        return rows.task(found[0]["body"]) if found else None

    async def tasks(self, query: p.TaskQuery, limit: int, after: p.Task | None = None) -> list[p.Task]:
        clauses = rows.task_clauses(query, after)
        order = "created_at, id" if query.tenant is not None else "created_at, tenant, id"
        return [rows.task(row["body"]) for row in await self._page("SELECT body FROM tasks", clauses, order, limit)]

    async def _page(self, select: str, clauses: rows.Clauses, order: str, limit: int) -> list[Any]:
        statement = f"{select} WHERE {clauses} ORDER BY {order} LIMIT {int(limit)}"
        async with self._connection() as connection:
            found: list[Any] = await connection.fetch(statement, *clauses.values)
            return found

    # -- the audit

    async def entries(self, query: p.AuditQuery, limit: int, after: p.Entry | None = None) -> list[p.Entry]:
        behind = None if after is None else after.sequence
        conditions = (query.tenant, query.run, query.kind, query.since, query.until)
        return [p.Entry(*row) for row in await self._read("entries", *conditions, limit, behind)]

    async def unsealed(self, limit: int) -> list[p.Entry]:
        return [p.Entry(*row) for row in await self._read("unsealed", limit)]

    async def blocks(self, tenant: str, first: int, limit: int) -> list[p.Block]:
        return [p.Block(*row) for row in await self._read("blocks", tenant, first, limit)]

    async def seal(self, block: p.Block, sequences: Sequence[int]) -> bool:
        async def attempt() -> bool:
            try:
                async with self._transaction() as connection:
                    await seal(connection, block, sequences)
            except _NotSealed:
                return False
            return True

        return await self._retried(attempt)

    async def signing_keys(self) -> list[p.SigningKey]:
        return [p.SigningKey(*row) for row in await self._read("signing_keys")]

    async def add_signing_key(self, key: p.SigningKey, also: p.Note | None = None) -> bool:
        values = (key.number, key.id, key.public, key.private, key.created_at, key.endorsement)
        noted = (None,) * 5 if also is None else (also.tenant, also.run, also.kind, also.at, also.body)
        return bool(await self._read("add_signing_key", *values, *noted))

    # -- artefacts

    async def keep_artefacts(self, files: Sequence[p.File]) -> list[bool]:
        # In an order that all share, of chains and of runs: two transactions must not wait for each other.
        tenants = sorted({file.artefact.key.tenant for file in files if file.artefact.name == p.EVIDENCE})
        order = sorted(range(len(files)), key=lambda index: files[index].artefact.key)

        async def attempt() -> list[bool]:
            async with self._transaction() as connection:
                for tenant in tenants:
                    await connection.fetch(SQL["lock_chain"], tenant)
                kept = {i: bool(await connection.fetch(SQL["keep_artefact"], *_kept(files[i]))) for i in order}
                return [kept[index] for index in range(len(files))]

        return await self._retried(attempt)

    async def artefacts(self, key: p.Key) -> list[p.Artefact]:
        return [p.Artefact(p.Key(*row[:2]), *row[2:]) for row in await self._read("artefacts", *key)]

    async def artefact(self, key: p.Key, generation: int, name: str) -> bytes | None:
        found = await self._read("artefact", *key, generation, name)
        return found[0]["data"] if found else None

    async def evidence_due(self, limit: int) -> list[p.Run]:
        return [rows.run(row) for row in await self._read("evidence_due", limit)]

    async def misfiled(self, tenant: str) -> str | None:
        last = ""
        while page := await self._read("filed", tenant, last, _PAGE):
            for row in page:
                if not _is_filed(row):
                    return str(row["id"])
            last = page[-1]["key"]
        return None

    async def evidence_overdue(self, ended_before: int) -> int:
        ((count,),) = await self._read("evidence_overdue", ended_before)
        return int(count)


def _is_filed(row: Any) -> bool:
    """Whether a receipt's columns are what its body says."""
    try:
        receipt = rows.receipt(row)
    except (ValueError, RecursionError):
        return False
    return all(row[name] == getattr(receipt, name) for name in _LOOKED_FOR)


def _kept(file: p.File) -> tuple[Any, ...]:
    """The parameters of what keeps a file."""
    key, *told = astuple(file.artefact)
    return (*key, *told, file.data, file.artefact.name == p.EVIDENCE, file.through)


class _NotSealed(Exception):
    """Somebody else has sealed first. It rolls back what was done."""


async def seal(connection: Any, block: p.Block, sequences: Sequence[int]) -> None:
    """Within a transaction that is rolled back where this raises."""
    await connection.fetch(SQL["lock_chain"], block.tenant)
    if not await connection.fetch(SQL["add_block"], *astuple(block)):
        raise _NotSealed
    sealed = await connection.fetch(SQL["seal"], block.tenant, block.first, list(sequences))
    if len(sealed) != len(sequences):
        raise _NotSealed
    runs = sorted({(block.tenant, run) for (run,) in sealed if run is not None})
    if runs:
        await connection.execute(SQL["make_due"], *columns(runs, 2))
