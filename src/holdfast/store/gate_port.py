"""The store's protocol for the gate: receipts, tasks, and the files that prove the acts of runs.

See ``protocol`` for the laws of every operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from holdfast.store.governance import File, Governed, KeptFile, ReceiptQuery, TaskQuery, TaskRow
from holdfast.store.holding import ActCaller, Stakes
from holdfast.store.receipts import ReceiptRow
from holdfast.store.rows import Run
from holdfast.store.values import Cursor, Key


class OrphanedReceipt(NamedTuple):
    """A receipt that was closed with an unknown outcome that no run waits for, and the ``task`` that asks. ``receipt``
    is what it is now; None if another run's has its key."""

    tenant: str
    id: str
    task: str
    receipt: ReceiptRow | None


class GatePort(Protocol):
    """The gate's data in a store. Receipts and tasks are written by the changes of ``commit``."""

    async def governed(self, keys: Sequence[Key]) -> dict[Key, Governed]:
        """The receipts of these runs that have not succeeded, their live tasks, and the receipts that they have taken;
        runs without any are left out."""
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
        """A page of receipts by ``(opened_at, tenant, id)``, beginning after ``after``."""
        ...

    async def stakes(self, tenant: str, receipt: str) -> Stakes:
        """Who relies on the act of a receipt, and who has taken it. Nothing for one that only its own call holds."""
        ...

    async def acts_of(self, tenant: str, callers: Sequence[ActCaller]) -> list[ReceiptRow | None]:
        """For each call the receipt of the act that it did, or relies on: its newest success, taken back or not."""
        ...

    async def orphaned_receipts(self, limit: int, after: tuple[str, str] = ("", "")) -> list[OrphanedReceipt]:
        """A page of the receipts whose outcome no run waits for, by tenant and id, beginning after these. One stays
        listed, with the task of its last such closing, until ``forget_orphans``."""
        ...

    async def forget_orphans(self, tenant: str, ids: Sequence[str]) -> None:
        """List these receipts no more. One whose outcome is still unknown, and that names a task, stays listed."""
        ...

    async def task(self, tenant: str, id: str) -> TaskRow | None:
        """A task by its id."""
        ...

    async def tasks_by_id(self, tenant: str, ids: Sequence[str]) -> dict[str, TaskRow]:
        """Those tasks of a tenant that exist, by id."""
        ...

    async def tasks(self, query: TaskQuery, limit: int, after: TaskRow | Cursor | None = None) -> list[TaskRow]:
        """A page of tasks by ``(created_at, tenant, id)``, beginning after ``after``."""
        ...

    async def keep_files(self, files: Sequence[File]) -> list[bool]:
        """Keep files of runs. Each replaces a file of the same generation and name. Evidence shows in the run's row.

        No two of them have the same run, generation and name.

        Gives for each whether it was kept. Evidence is not kept if an entry of the run was sealed after the last one
        that it has.
        """
        ...

    async def files(self, key: Key) -> list[KeptFile]:
        """The files of a run, oldest first."""
        ...

    async def file(self, key: Key, generation: int, name: str) -> bytes | None:
        """A file's bytes."""
        ...

    async def file_part(self, key: Key, generation: int, name: str, at: int, size: int) -> bytes | None:
        """At most so many of a file's bytes, from ``at`` on, so that a large file need not be in memory."""
        ...

    async def kept_evidence(self, keys: Sequence[Key], largest: int) -> list[File]:
        """The evidence of these runs, of all generations, in the order of tenant, run and generation.

        A file of more than ``largest`` bytes comes without them.
        """
        ...

    async def evidence_due(self, limit: int) -> list[Run]:
        """Governed runs that have ended and have no evidence yet, oldest first."""
        ...

    async def misfiled(self, tenant: str) -> str | None:
        """The id of a receipt whose columns differ from its body, so that it could not be found; None where there is
        none."""
        ...

    async def evidence_overdue(self, ended_before: int) -> int:
        """How many of those ended before then: ``prune`` does not delete them, because they have no evidence."""
        ...
