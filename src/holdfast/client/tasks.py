"""Tasks: what people are asked, and how they answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any

import cbor2

from holdfast.audit.task_changes import put
from holdfast.client.views.cursors import Page, read_cursor, write_cursor
from holdfast.errors import TaskClosed, TaskNotFound
from holdfast.programs.function.values import encode
from holdfast.runs import messages
from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.store import protocol as p
from holdfast.tasks import answers as tasks
from holdfast.tasks.eligibility import APPROVED
from holdfast.tasks.forms import check_answer

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

PAGE = 100


class Tasks:
    """The tasks of one engine. An answer is durable when its call returns, and counts once, whoever else answers."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app

    async def list(
        self,
        *,
        tenant: str | None = None,
        status: p.TaskStatus | None = "requested",
        run: str | None = None,
        kind: p.TaskKind | None = None,
        owner: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> AsyncIterator[p.TaskRow]:
        """The tasks that match, oldest first; by default the open ones. ``after`` is the ``next`` of a page."""
        query, place, left = p.TaskQuery(tenant, status, run, kind, owner), read_cursor("tasks", after), limit
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            page = await self._app.store.tasks(query, size, place)
            for task in page:
                yield task
            if len(page) < size:
                return
            place, left = page[-1].cursor, None if left is None else left - len(page)

    async def page(
        self,
        *,
        tenant: str | None = None,
        status: p.TaskStatus | None = "requested",
        run: str | None = None,
        kind: p.TaskKind | None = None,
        owner: str | None = None,
        limit: int = PAGE,
        after: str | None = None,
    ) -> Page[p.TaskRow]:
        """So many tasks that match, oldest first, and a cursor for the rest."""
        query = p.TaskQuery(tenant, status, run, kind, owner)
        found = await self._app.store.tasks(query, limit, read_cursor("tasks", after))
        more = found and len(found) == limit
        return Page(found, write_cursor("tasks", found[-1].cursor) if more else None)

    async def get(self, id: str, *, tenant: str = DEFAULT_TENANT) -> p.TaskRow:
        """One task. Raises TaskNotFound."""
        task = await self._app.store.task(tenant, id)
        if task is None:
            raise TaskNotFound(f"there is no task {id!r} in tenant {tenant!r}: look with `holdfast tasks`.")
        return task

    async def approve(self, id: str, *, by: str, reason: str = "", tenant: str = DEFAULT_TENANT) -> p.TaskRow:
        """Approve the proposed action. Raises TaskClosed, TaskForbidden or TaskNotFound."""
        return await self._say(id, tenant, by, APPROVED, reason)

    async def reject(self, id: str, *, by: str, reason: str = "", tenant: str = DEFAULT_TENANT) -> p.TaskRow:
        """Reject the proposed action: its call fails. Raises as ``approve`` does."""
        return await self._say(id, tenant, by, tasks.REJECTED, reason)

    async def happened(
        self, id: str, *, by: str, result: Any = None, reason: str = "", tenant: str = DEFAULT_TENANT
    ) -> p.TaskRow:
        """Say that an act of unknown outcome was done, and what it gave: its run goes on with that."""
        value = encode(result, "the result").data
        return await self._say(id, tenant, by, tasks.HAPPENED, reason, value)

    async def did_not_happen(self, id: str, *, by: str, reason: str = "", tenant: str = DEFAULT_TENANT) -> p.TaskRow:
        """Say that an act of unknown outcome was not done: it goes through the gate again."""
        return await self._say(id, tenant, by, tasks.DID_NOT_HAPPEN, reason)

    async def give_up(self, id: str, *, by: str, reason: str = "", tenant: str = DEFAULT_TENANT) -> p.TaskRow:
        """Leave open what became of an act: its call fails, and its receipt stays unknown."""
        return await self._say(id, tenant, by, tasks.GIVEN_UP, reason)

    async def complete(
        self,
        id: str,
        answer: Any,
        *,
        by: str,
        groups: Sequence[str] = (),
        reason: str = "",
        tenant: str = DEFAULT_TENANT,
    ) -> p.TaskRow:
        """Fill a form in: its run goes on with the answer, which is data as JSON has it, or of the form's own type.

        ``groups`` are those that ``by`` is in: nobody else knows them here. Raises InvalidAnswer with all that does not
        fit the form, which then stays open; else as ``approve`` does.
        """
        value = encode(answer, "the answer")
        plain = cbor2.loads(value.data)

        def change(task: p.TaskRow, now: int) -> p.TaskRow:
            completed = tasks.answer(task, by, tasks.COMPLETED, reason, now, value.data, groups)
            check_answer(task, plain)
            return completed

        return await self._change(id, tenant, tasks.COMPLETED, by, reason, change)

    async def claim(
        self, id: str, *, by: str, groups: Sequence[str] = (), reason: str = "", tenant: str = DEFAULT_TENANT
    ) -> p.TaskRow:
        """Take a task: until it is released, nobody else may answer it. Raises as ``approve`` does."""
        return await self._change(
            id, tenant, tasks.CLAIMED, by, reason, lambda task, now: tasks.claim(task, by, reason, now, groups)
        )

    async def release(self, id: str, *, by: str, reason: str = "", tenant: str = DEFAULT_TENANT) -> p.TaskRow:
        """Give a task back, of whoever has it: all its candidates may answer again."""
        return await self._change(
            id, tenant, tasks.RELEASED, by, reason, lambda task, now: tasks.release(task, by, reason, now)
        )

    async def assign(
        self,
        id: str,
        *,
        by: str,
        to: str,
        to_groups: Sequence[str] = (),
        reason: str = "",
        tenant: str = DEFAULT_TENANT,
    ) -> p.TaskRow:
        """Give a task to one person who may answer it. Whoever assigns need not be a candidate, nor have the task."""
        return await self._change(
            id, tenant, tasks.ASSIGNED, by, reason, lambda task, now: tasks.assign(task, by, to, reason, now, to_groups)
        )

    async def delegate(
        self,
        id: str,
        *,
        by: str,
        to: str,
        groups: Sequence[str] = (),
        to_groups: Sequence[str] = (),
        reason: str = "",
        tenant: str = DEFAULT_TENANT,
    ) -> p.TaskRow:
        """Let another person, and nobody else, answer instead. Raises as ``approve`` does.

        A task can be passed on only to a candidate who may answer it: not to somebody who is excluded, nor an approval
        to whoever started the run where the tier is high, nor to somebody who has approved it already. After the first
        of two approvals any candidate may answer. ``groups`` are those of ``by``, ``to_groups`` those of ``to``.
        """

        def change(task: p.TaskRow, now: int) -> p.TaskRow:
            return tasks.delegate(task, by, to, reason, now, groups, to_groups)

        return await self._change(id, tenant, tasks.DELEGATED, by, reason, change)

    async def _say(
        self, id: str, tenant: str, by: str, verdict: str, reason: str, value: bytes | None = None
    ) -> p.TaskRow:
        return await self._change(
            id, tenant, verdict, by, reason, lambda task, now: tasks.answer(task, by, verdict, reason, now, value)
        )

    async def _change(
        self,
        id: str,
        tenant: str,
        verdict: str,
        by: str,
        reason: str,
        change: Callable[[p.TaskRow, int], p.TaskRow],
    ) -> p.TaskRow:
        """Make the next version of a task; where someone else made one first, look again and judge anew."""
        while True:
            now = self._app.clock.now()
            present = await self.get(id, tenant=tenant)
            task = change(present, now)
            if task is present:
                return task
            asked = put(task, verdict, now, by, reason)
            key = p.Key(task.tenant, task.run)
            delivery = p.Deliver(key, messages.answered(task, now))
            closed = task.status != "requested"
            answer = await self._app.committer.commit(
                p.PutTask(task, (*asked.also, delivery) if closed else asked.also)
            )
            if isinstance(answer, p.Tasked):
                if closed:
                    self._app.delivered(key)
                self._app.wake_sealer()
                return task
            if not isinstance(answer, p.Fenced):
                raise TaskClosed(f"task {id} could not be answered: {answer!r}")
