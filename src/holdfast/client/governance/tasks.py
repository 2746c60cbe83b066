"""Tasks: work for people, and how they answer."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import cbor2
import msgspec

from holdfast.audit.task_changes import put
from holdfast.client.governance.attachments import Attachment, attach, check_attached
from holdfast.client.governance.parties import check_no_party
from holdfast.client.governance.present import ProbedTasks
from holdfast.client.governance.staff import Colleague, answerer, colleague
from holdfast.client.pages import PAGE, Find, page_of, rows_of
from holdfast.client.people.permission import operation
from holdfast.client.views.cursors import Page, read_cursor
from holdfast.client.views.tasks import TaskInfo, task_info
from holdfast.errors import InvalidRequest, StoreCorrupt, TaskClosed, TaskNotFound
from holdfast.expressions.turns import in_turn
from holdfast.programs.function.values import encode
from holdfast.runs import messages
from holdfast.store import protocol as p
from holdfast.tasks import answers as tasks
from holdfast.tasks.eligibility import APPROVED
from holdfast.tasks.files import files_in
from holdfast.tasks.forms import check_answer, filled, refuse

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

TASKS: Final = "tasks"


class Tasks(ProbedTasks):
    """The tasks of one engine. An answer is durable when its call returns. Of two answers at once, one counts."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app

    @operation("tasks.see")
    async def list(
        self,
        *,
        tenant: str | None = None,
        status: p.TaskStatus | None = "requested",
        run: str | None = None,
        kind: p.TaskKind | None = None,
        owner: str | None = None,
        reference: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> AsyncIterator[TaskInfo]:
        """The tasks that match, oldest first; by default the open ones. ``after`` is the ``next`` of a page."""
        find = self._finder(p.TaskQuery(tenant, status, run, kind, owner, reference))
        async for row in rows_of(find, limit, read_cursor(TASKS, after)):
            yield task_info(row)

    @operation("tasks.see")
    async def page(
        self,
        *,
        tenant: str | None = None,
        status: p.TaskStatus | None = "requested",
        run: str | None = None,
        kind: p.TaskKind | None = None,
        owner: str | None = None,
        reference: str | None = None,
        limit: int = PAGE,
        after: str | None = None,
    ) -> Page[TaskInfo]:
        """One page of the tasks that match, oldest first, with a cursor for the rest."""
        find = self._finder(p.TaskQuery(tenant, status, run, kind, owner, reference))
        return await page_of(TASKS, find, limit, after, task_info)

    @operation("tasks.see")
    async def inbox(
        self,
        *,
        by: str | None = None,
        groups: Sequence[str] = (),
        tenant: str | None = None,
        limit: int = PAGE,
        after: str | None = None,
        most_read: int | None = None,
    ) -> Page[TaskInfo]:
        """One page of the open tasks that a person may answer now, oldest first, with a cursor for the rest.

        ``groups`` are as in ``complete``. A page with fewer than ``limit`` is the last one, unless so many open
        tasks were read by then as ``most_read`` says: then the cursor goes on behind those.
        """
        from holdfast.client.inbox import inbox_of

        return await inbox_of(self._app, self._app.tenant_of(tenant), by, groups, limit, after, most_read)

    def _finder(self, query: p.TaskQuery) -> Find[p.TaskRow]:
        async def find(limit: int, place: p.Cursor | None) -> Sequence[p.TaskRow]:
            return await self._app.store.tasks(query, limit, place)

        return find

    @operation("tasks.see")
    async def get(self, id: str, *, tenant: str | None = None) -> TaskInfo:
        """One task. Raises TaskNotFound."""
        return task_info(await self._row(id, self._app.tenant_of(tenant)))

    async def _row(self, id: str, tenant: str) -> p.TaskRow:
        task = await self._app.store.task(tenant, id)
        if task is None:
            raise TaskNotFound(f"there is no task {id!r} in tenant {tenant!r}: look with `holdfast tasks`.")
        return task

    @operation("tasks.answer")
    async def approve(
        self,
        id: str,
        *,
        by: str | None = None,
        reason: str = "",
        tenant: str | None = None,
        proposal: str | None = None,
    ) -> TaskInfo:
        """Approve the proposed action. Raises TaskClosed, TaskForbidden or TaskNotFound.

        ``proposal`` is the hash of what the person saw: where something else is asked by now, it raises TaskClosed.
        """
        return await self._answer(id, tenant, by, APPROVED, reason, proposal=proposal)

    @operation("tasks.answer")
    async def reject(
        self,
        id: str,
        *,
        by: str | None = None,
        reason: str = "",
        tenant: str | None = None,
        proposal: str | None = None,
    ) -> TaskInfo:
        """Reject the proposed action: its call fails. Raises as ``approve`` does."""
        return await self._answer(id, tenant, by, tasks.REJECTED, reason, proposal=proposal)

    @operation("tasks.answer")
    async def happened(
        self, id: str, *, by: str | None = None, result: Any = None, reason: str = "", tenant: str | None = None
    ) -> TaskInfo:
        """Say that an act of unknown outcome was done, and its result: the run continues with that."""
        value = encode(result, "the result").data
        return await self._answer(id, tenant, by, tasks.HAPPENED, reason, value)

    @operation("tasks.answer")
    async def did_not_happen(
        self, id: str, *, by: str | None = None, reason: str = "", tenant: str | None = None
    ) -> TaskInfo:
        """Say that an act of unknown outcome was not done: the gate judges it again."""
        return await self._answer(id, tenant, by, tasks.DID_NOT_HAPPEN, reason)

    @operation("tasks.answer")
    async def give_up(self, id: str, *, by: str | None = None, reason: str = "", tenant: str | None = None) -> TaskInfo:
        """Leave the outcome of an act open: its call fails, and its receipt stays unknown."""
        return await self._answer(id, tenant, by, tasks.GIVEN_UP, reason)

    @operation("tasks.answer")
    async def complete(
        self,
        id: str,
        answer: Any,
        *,
        by: str | None = None,
        groups: Sequence[str] = (),
        reason: str = "",
        tenant: str | None = None,
    ) -> TaskInfo:
        """Fill a form in: its run continues with the answer, which is plain data or an object of the form's type.

        What the answer leaves out gets the form's default. A file is a Path, an Attachment or bytes. ``groups`` are the
        groups that ``by`` is in: the engine does not know them. Raises InvalidAnswer with every problem where the
        answer does not fit the form, which then stays open; else as ``approve`` does.
        """
        attached = await attach(answer)
        given = cbor2.loads(encode(attached.answer, "the answer").data)

        def change(task: p.TaskRow, now: int, who: Colleague) -> p.TaskRow:
            plain = filled(cbor2.loads(task.form), given) if task.kind == "form" else given
            value = encode(plain, "the answer").data
            completed = tasks.answer(task, who.name, tasks.COMPLETED, reason, now, value, who.groups)
            check_answer(task, plain)
            refuse(task, check_attached(attached, plain))
            return completed

        return await self._change(_Ask(id, tenant, tasks.COMPLETED, by, groups, reason), change, blobs=attached.blobs)

    @operation("tasks.answer")
    async def check(
        self, id: str, *, by: str | None = None, groups: Sequence[str] = (), tenant: str | None = None
    ) -> TaskInfo:
        """The form that a person may fill in now. Raises as ``complete`` does where they may not, or it is no form."""
        row = await self._row(id, self._app.tenant_of(tenant))
        who = await answerer(self._app, row.tenant, by, groups)
        tasks.answer(row, who.name, tasks.COMPLETED, "", self._app.clock.now(), None, who.groups)
        return task_info(row)

    @operation("tasks.see")
    async def file(self, id: str, place: str = "", *, tenant: str | None = None) -> Attachment:
        """A file of the answer to a form, by its JSON pointer, as ``/scan``; not needed where there is one file.

        Raises TaskNotFound, InvalidRequest where there is no such file, and StoreCorrupt where it was altered.
        """
        tenant = self._app.tenant_of(tenant)
        task = await self._row(id, tenant)
        value = task.answers[-1].value if task.answers else None
        files = dict(files_in(cbor2.loads(value))) if value is not None else {}
        chosen = next(iter(files)) if not place and len(files) == 1 else place
        if chosen not in files:
            names = f"it has {', '.join(files)}" if files else "it has none"
            raise InvalidRequest(f"the answer to task {id} has no file at {place or '/'!r}: {names}.")
        file = files[chosen]
        data = await self._app.store.blob(tenant, file.digest)
        if data is None or hashlib.sha256(data).digest() != file.digest:
            state = "missing" if data is None else "altered"
            raise StoreCorrupt(f"file {chosen} of task {id} is {state}: restore the database from a backup.")
        return Attachment(file.name, data, file.type)

    @operation("tasks.answer")
    async def claim(
        self, id: str, *, by: str | None = None, groups: Sequence[str] = (), reason: str = "", tenant: str | None = None
    ) -> TaskInfo:
        """Claim a task: until it is released, nobody else may answer it. Raises as ``approve`` does."""
        return await self._change(
            _Ask(id, tenant, tasks.CLAIMED, by, groups, reason),
            lambda task, now, who: tasks.claim(task, who.name, reason, now, who.groups),
        )

    @operation("tasks.answer")
    async def release(self, id: str, *, by: str | None = None, reason: str = "", tenant: str | None = None) -> TaskInfo:
        """Give a task back, whoever holds it: all its candidates may answer again."""
        return await self._change(
            _Ask(id, tenant, tasks.RELEASED, by, (), reason),
            lambda task, now, who: tasks.release(task, who.name, reason, now),
        )

    @operation("tasks.assign")
    async def assign(
        self,
        id: str,
        *,
        by: str | None = None,
        to: str,
        to_groups: Sequence[str] = (),
        reason: str = "",
        tenant: str | None = None,
    ) -> TaskInfo:
        """Give a task to one person who may answer it. ``by`` need not be a candidate, nor hold the task."""
        return await self._pass_on(
            _Ask(id, tenant, tasks.ASSIGNED, by, (), reason),
            _Receiver(to, to_groups),
            lambda task, now, who, receiver: tasks.assign(task, who.name, receiver.name, reason, now, receiver.groups),
        )

    @operation("tasks.answer")
    async def delegate(
        self,
        id: str,
        *,
        by: str | None = None,
        to: str,
        groups: Sequence[str] = (),
        to_groups: Sequence[str] = (),
        reason: str = "",
        tenant: str | None = None,
    ) -> TaskInfo:
        """Let another person, and nobody else, answer instead. Raises as ``approve`` does.

        That person must be a candidate who may answer: not excluded, not one who has approved it already, and for an
        approval of tier high not the one who started the run. After the first of two approvals any candidate may
        answer. ``groups`` are the groups of ``by``, ``to_groups`` those of ``to``.
        """

        def change(task: p.TaskRow, now: int, who: Colleague, receiver: Colleague) -> p.TaskRow:
            return tasks.delegate(task, who.name, receiver.name, reason, now, who.groups, receiver.groups)

        return await self._pass_on(
            _Ask(id, tenant, tasks.DELEGATED, by, groups, reason), _Receiver(to, to_groups), change
        )

    @operation("tasks.see")
    async def refusal(
        self, id: str, *, by: str | None = None, groups: Sequence[str] = (), tenant: str | None = None
    ) -> str | None:
        """Why a person may not answer this task now, in words; None where they may. ``groups``: see ``complete``."""
        from holdfast.client.inbox import refusal_of

        tenant = self._app.tenant_of(tenant)
        return await refusal_of(self._app, await self._row(id, tenant), by, groups)

    async def _answer(
        self,
        id: str,
        tenant: str | None,
        by: str | None,
        verdict: str,
        reason: str,
        value: bytes | None = None,
        *,
        proposal: str | None = None,
    ) -> TaskInfo:
        def change(task: p.TaskRow, now: int, who: Colleague) -> p.TaskRow:
            if proposal is not None and task.proposal.hex() != proposal:
                raise TaskClosed(f"what task {id} asks has changed since you saw it: look at it again.")
            return tasks.answer(task, who.name, verdict, reason, now, value, who.groups)

        return await self._change(_Ask(id, tenant, verdict, by, (), reason), change)

    async def _pass_on(
        self, ask: _Ask, to: _Receiver, change: Callable[[p.TaskRow, int, Colleague, Colleague], p.TaskRow]
    ) -> TaskInfo:
        """Make the next version of a task that goes to another person."""
        while True:
            row = await self._row(ask.id, self._app.tenant_of(ask.tenant))
            tasks.check_receiver_name(to.name)
            await check_no_party(self._app, row, to.name)
            receiver = await colleague(self._app, row.tenant, to.name, to.groups)
            try:
                return await self._change(
                    ask,
                    lambda task, now, who: change(task, now, who, receiver),  # noqa: B023  # it is called at once
                    also=receiver.conditions,
                )
            except _Again:
                continue

    async def _change(
        self,
        ask: _Ask,
        change: Callable[[p.TaskRow, int, Colleague], p.TaskRow],
        *,
        blobs: p.Blobs | None = None,
        also: tuple[p.ExpectItem, ...] = (),
    ) -> TaskInfo:
        """Make the next version of a task. Where someone else made one first, read the task again and try again.

        Raises _Again instead where ``also`` has conditions: whoever made them must look again.
        """
        tenant = self._app.tenant_of(ask.tenant)
        while True:
            now = self._app.clock.now()
            present = await self._row(ask.id, tenant)
            who = await answerer(self._app, tenant, ask.by, ask.groups)
            task = await in_turn(change, present, now, who)
            if task is present:
                return task_info(task)
            if ask.verdict in (*tasks.CONTINUING, tasks.CLAIMED):
                await check_no_party(self._app, present, who.name)
            asked = put(task, ask.verdict, now, who.name, ask.reason)
            key = p.Key(task.tenant, task.run)
            closed = task.status != "requested"
            attached = (*asked.attached, p.Deliver(key, messages.answered(task, now))) if closed else asked.attached
            answer = await self._commit(p.PutTask(task, attached, blobs or {}), (*who.conditions, *also))
            if isinstance(answer, p.Tasked):
                if closed:
                    self._app.delivered(key)
                self._app.wake_sealer()
                return task_info(task)
            if not isinstance(answer, p.Fenced):
                raise TaskClosed(f"task {ask.id} could not be answered: {answer!r}")
            if also:
                raise _Again

    async def _commit(self, change: p.PutTask, conditions: tuple[p.ExpectItem, ...]) -> p.Answer:
        if not conditions:
            return await self._app.committer.commit(change)
        (note, *rest) = change.attached
        assert isinstance(note, p.Note)
        said = msgspec.structs.replace(note, id=self._app.token())
        act = p.Operate(said, (*conditions, msgspec.structs.replace(change, attached=tuple(rest))))
        answer = await self._app.committer.commit(act)
        return p.Tasked() if isinstance(answer, p.OperatedOn | p.Repeated) else answer


class _Ask(NamedTuple):
    """What somebody does to a task."""

    id: str
    tenant: str | None
    verdict: str
    by: str | None
    groups: Sequence[str]
    reason: str


class _Receiver(NamedTuple):
    """Who a task goes to, as the caller says."""

    name: str
    groups: Sequence[str]


class _Again(Exception):
    """A condition did not hold any more, and nothing was committed."""
