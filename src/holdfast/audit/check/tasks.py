"""Compares a tenant's tasks with its audit, a page at a time. The rules are in ``task_accounts``.

Workers may write at the same time: a task that does not fit is read again, with its entries, until two reads give the
same version.
"""

from __future__ import annotations

from typing import Final

from holdfast.audit import records as r
from holdfast.audit.check.receipts import PAGE, UNREADABLE, Accounted, Broken, pages, read
from holdfast.audit.check.task_accounts import REQUESTED, missing, task_problem
from holdfast.audit.collector import ASKED, asked_of
from holdfast.store import protocol as p

TRIES: Final = 10


async def check_tasks(store: p.Store, tenant: str) -> Accounted:
    """Compare every task of a tenant with the entries of its audit, and these with the tasks."""
    count = 0
    try:
        await _are_there(store, tenant)
        query = p.TaskQuery(tenant)
        async for page in pages(lambda size, last: store.tasks(query, size, last), "task", "asking"):
            entries = await asked_of(store, tenant, [task.id for task in page])
            for task in page:
                if task_problem(task, entries[task.id]) is not None:
                    await _look_again(store, task)
            count += len(page)
    except Broken as broken:
        return Accounted(count, str(broken))
    return Accounted(count, None)


async def _are_there(store: p.Store, tenant: str) -> None:
    """Every task that the audit records is there."""
    last: p.AuditEntry | None = None
    while page := await store.entries(p.AuditQuery(tenant, kind=ASKED), PAGE, last):
        records = [read(entry) for entry in page]
        ids = [record.task for record in records if isinstance(record, r.Asked) and record.verdict == REQUESTED]
        try:
            there = await store.tasks_by_id(tenant, ids)
        except UNREADABLE:
            there = {id: found for id in ids if (found := await _task(store, tenant, id)) is not None}
        for id in ids:
            if id not in there:
                raise Broken(missing(id))
        last = page[-1]


async def _look_again(store: p.Store, task: p.TaskRow) -> None:
    for _ in range(TRIES):
        entries = await asked_of(store, task.tenant, [task.id])
        present = await _task(store, task.tenant, task.id)
        if present is None:
            raise Broken(missing(task.id))
        if present.version == task.version:
            if (problem := task_problem(present, entries[task.id])) is not None:
                raise Broken(problem)
            return
        task = present


async def _task(store: p.Store, tenant: str, id: str) -> p.TaskRow | None:
    try:
        return await store.task(tenant, id)
    except UNREADABLE:
        raise Broken(f"task {id}: it was altered, and cannot be read.") from None
