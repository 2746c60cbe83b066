"""The inquirer: it has people say what became of acts that no run waits for any more.

A run that ends does not wait for an act without an ``undo=``. If its outcome is unknown, its receipt is orphaned: it
names the task that asks. The inquirer makes that task, closes the receipt by the answer, and withdraws the question if
the outcome became known in another way. An act that is still under way is left alone.

Every worker has an inquirer, and there is no leader: a task is made once because of its id, and a receipt is closed
once because of its token.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from holdfast.audit import task_changes
from holdfast.audit.check.task_accounts import REQUESTED, task_problem
from holdfast.gate.call import is_answered
from holdfast.journal.promise import PromiseId
from holdfast.runs.clock import Clock
from holdfast.runs.role import Role
from holdfast.store import protocol as p
from holdfast.store.committer import Committer
from holdfast.worker.gate import orphans, questions
from holdfast.worker.gate.answers import recorded_answers

log = logging.getLogger("holdfast.inquirer")

BATCH: Final = 100
LOOK_SECONDS: Final = 10.0
"""So often it looks without a hint."""


class Inquirer(Role):
    """Looks at orphaned receipts."""

    name = "inquirer"

    def __init__(self, store: p.Store, committer: Committer, clock: Clock) -> None:
        super().__init__()
        self._store = store
        self._committer = committer
        self._clock = clock

    async def round(self) -> float | None:
        found = await self._store.orphaned_receipts(BATCH)
        alive = {worker.id for worker in await self._store.workers()} if found else set()
        while found:
            await self._look_at(found, alive)
            found = await self._store.orphaned_receipts(BATCH, found[-1][:2]) if len(found) == BATCH else []
        return LOOK_SECONDS

    async def _look_at(self, orphans: Sequence[p.OrphanedReceipt], alive: set[str]) -> None:
        of_tenants: dict[str, list[p.OrphanedReceipt]] = {}
        for orphan in orphans:
            of_tenants.setdefault(orphan.tenant, []).append(orphan)
        for tenant, some in of_tenants.items():
            tasks = await self._store.tasks_by_id(tenant, [orphan.task for orphan in some])
            settled = [each.id for each in some if await self._settle(each, tasks.get(each.task), alive)]
            if settled:
                await self._store.forget_orphans(tenant, settled)

    async def _settle(self, orphan: p.OrphanedReceipt, task: p.TaskRow | None, alive: set[str]) -> bool:
        """Do what is to be done about one; gives whether it is settled."""
        receipt, now = orphan.receipt, self._clock.now()
        if receipt is None or receipt.state != "unknown" or receipt.asked != orphan.task:
            if task is not None and task.status == "requested":
                await self._committer.commit(task_changes.cancelled(task, now))
            return True
        if task is None or task.status == "cancelled":
            if receipt.closed_at is None and receipt.token.rpartition("~")[0] in alive:
                return False  # it is under way
            if receipt.writes:
                await self._ask(receipt, task, now)
            else:
                await self._committer.commit(orphans.unread(receipt.run, _name(receipt), receipt, now))
            return False
        return is_answered(task) and await self._take(receipt, task, now)

    async def _ask(self, receipt: p.ReceiptRow, before: p.TaskRow | None, now: int) -> None:
        """Make the task, or the next one if that of the run was withdrawn."""
        if before is not None:  # its call gave it up in a moment in which it was withdrawn
            name = _name(receipt)
            fresh = orphans.orphan_task_id(f"{name} again", receipt)
            await self._committer.commit(orphans.abandoned(receipt.run, name, receipt, now, fresh))
            return
        runs = await self._store.get([p.Key(receipt.tenant, receipt.run)])
        approval = None if receipt.task is None else await self._store.task(receipt.tenant, receipt.task)
        task = questions.orphan_task(receipt, runs[0] if runs else None, approval, now)
        await self._committer.commit(task_changes.put(task, REQUESTED, now))

    async def _take(self, receipt: p.ReceiptRow, task: p.TaskRow, now: int) -> bool:
        """Close the receipt by an answer, if the audit records that; gives whether it is closed."""
        recorded = await recorded_answers(self._store, receipt.tenant, [task.id])
        if (problem := task_problem(task, recorded.get(task.id, ()))) is not None:
            log.error("receipt %s of tenant %s is not closed by an answer: %s", receipt.id, receipt.tenant, problem)
            return False
        closing = orphans.answered(receipt.run, _name(receipt), receipt, task, now)
        return isinstance(await self._committer.commit(closing), p.Closed)


def _name(receipt: p.ReceiptRow) -> str:
    return str(PromiseId(receipt.root).child(receipt.position))
