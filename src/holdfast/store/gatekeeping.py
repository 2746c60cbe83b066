"""The store's questions for the gate: receipts, tasks, and the files that prove what runs did.

See ``protocol`` for what every operation keeps to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.store.governance import File, Governed, KeptFile, ReceiptQuery, ReceiptRow, TaskQuery, TaskRow
from holdfast.store.rows import Run
from holdfast.store.values import Cursor, Key


class GatePort(Protocol):
    """What a store keeps for the gate. It is written by the changes of ``commit``."""

    async def governed(self, keys: Sequence[Key]) -> dict[Key, Governed]:
        """The receipts of those runs that have not succeeded, and their live tasks; runs without any are left out."""
        ...

    async def receipt(self, tenant: str, id: str) -> ReceiptRow | None:
        """A receipt by its id."""
        ...

    async def receipts_by_id(self, tenant: str, ids: Sequence[str]) -> dict[str, ReceiptRow]:
        """Those receipts of a tenant that exist, by id."""
        ...

    async def receipt_of_key(self, tenant: str, key: str) -> ReceiptRow | None:
        """The receipt that has an idempotency key."""
        ...

    async def receipts(
        self, query: ReceiptQuery, limit: int, after: ReceiptRow | Cursor | None = None
    ) -> list[ReceiptRow]:
        """A page of receipts by ``(opened_at, tenant, id)``, beginning behind ``after``."""
        ...

    async def task(self, tenant: str, id: str) -> TaskRow | None:
        """A task by its id."""
        ...

    async def tasks_by_id(self, tenant: str, ids: Sequence[str]) -> dict[str, TaskRow]:
        """Those tasks of a tenant that exist, by id."""
        ...

    async def tasks(self, query: TaskQuery, limit: int, after: TaskRow | Cursor | None = None) -> list[TaskRow]:
        """A page of tasks by ``(created_at, tenant, id)``, beginning behind ``after``."""
        ...

    async def keep_files(self, files: Sequence[File]) -> list[bool]:
        """Keep files of runs, each instead of one of the same generation and name. Evidence shows in the run's row.

        No two are of the same run, generation and name.

        Gives for each whether it was kept: evidence is not where an entry of the run was sealed behind the last one
        that it has.
        """
        ...

    async def files(self, key: Key) -> list[KeptFile]:
        """The files of a run, oldest first."""
        ...

    async def file(self, key: Key, generation: int, name: str) -> bytes | None:
        """A file's bytes."""
        ...

    async def kept_evidence(self, keys: Sequence[Key]) -> list[File]:
        """The evidence that is kept of these runs, of all generations; by tenant, run and generation."""
        ...

    async def evidence_due(self, limit: int) -> list[Run]:
        """Governed runs that have ended and have no evidence yet, oldest first."""
        ...

    async def misfiled(self, tenant: str) -> str | None:
        """The id of a receipt that is not kept under what it says, by which it would be looked for; None is as it
        should be."""
        ...

    async def evidence_overdue(self, ended_before: int) -> int:
        """How many of those ended before then: what ``prune`` leaves for want of evidence."""
        ...
