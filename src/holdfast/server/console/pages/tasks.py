"""Tasks: my inbox, and one task with all that is needed to answer it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

from starlette.datastructures import FormData

from holdfast.client.governance.present import has_probe
from holdfast.client.views.tasks import TaskInfo
from holdfast.errors import InvalidRequest
from holdfast.server.call import RouteCall
from holdfast.server.console.fields import fields_of, read_answer
from holdfast.server.console.page import ConsoleForm, ConsolePage, Context, Done, ShownInstead
from holdfast.server.console.templating import Paths
from holdfast.server.console.typed import json_of, reason_of, text_of
from holdfast.server.fields import PageQuery, Text

SHOWN: Final = 50
MOST_READ: Final = 2000
"""The page of one task looks through so many for the next one. Whoever has answered is led to the next of all."""


class TasksQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose tasks: those that I may answer, all that are open, or all."""

    show: Literal["mine", "open", "all"] = "mine"
    run: Text | None = None


async def load(call: RouteCall[TasksQuery, None]) -> Context:
    query, tasks, tenant = call.query, call.client.tasks, call.tenant
    known: dict[str, int] = {}
    if query.show == "mine" and query.run is None:
        page = await tasks.inbox(by=call.by, tenant=tenant, limit=SHOWN, after=query.after)
        known = {"inbox_count": len(page.items)} if query.after is None else {}
    else:
        status: Any = None if query.show == "all" else "requested"
        page = await tasks.page(tenant=tenant, status=status, run=query.run, limit=SHOWN, after=query.after)
    return {
        "tasks": page.items,
        "next": page.next,
        "show": query.show,
        "run": query.run,
        "is_first": query.after is None,
        "events": Paths(call.request.scope.get("root_path", ""))("v1", "events", "inbox"),
        **known,
    }


async def load_task(call: RouteCall[Any, None]) -> Context:
    task = await call.client.tasks.get(call.path["task"], tenant=call.tenant)
    is_open = task.status == "requested"
    refusal = await call.client.tasks.refusal(task.id, by=call.by, tenant=call.tenant) if is_open else None
    mine = await _inbox(call, MOST_READ)
    return {
        "task": task,
        "fields": fields_of(task.form) if task.form is not None else (),
        "is_open": is_open,
        "refusal": refusal,
        "can_answer": is_open and refusal is None,
        "is_mine": task.holder is not None and task.holder == call.client.person_of(call.by),
        "following": _following(mine, task.id),
        "inbox_count": len(mine),
        "can_compare": task.kind == "approval" and has_probe(str(task.details.get("action", ""))),
        "present": None,
        "approvals": [said for said in task.answers if said.verdict == "approved"],
    }


async def _inbox(call: RouteCall[Any, None], most_read: int | None = None) -> list[TaskInfo]:
    return (await call.client.tasks.inbox(by=call.by, tenant=call.tenant, limit=SHOWN, most_read=most_read)).items


def _following(mine: list[TaskInfo], but: str) -> TaskInfo | None:
    """The next task of the inbox."""
    ids = [task.id for task in mine]
    place = ids.index(but) + 1 if but in ids else 0
    return next((task for task in (*mine[place:], *mine[:place]) if task.id != but), None)


async def _answered(call: RouteCall[Any, None], words: str) -> Done:
    """The next task, or the inbox where there is none: whoever answers many need not go back."""
    following = _following(await _inbox(call), call.path["task"])
    if following is None:
        return Done(path=("tasks",), words=f"{words} Nothing else waits for you.")
    return Done(path=("tasks", following.id), words=f"{words} This is the next one.")


async def compare(call: RouteCall[Any, None], _: FormData) -> ShownInstead:
    """Show the task with what its action's probe finds. A POST: showing a task never reaches the outside world."""
    present = await call.client.tasks.present(call.path["task"], by=call.by, tenant=call.tenant)
    return ShownInstead(template=TASK.template, context={**await load_task(call), "present": present})


async def claim(call: RouteCall[Any, None], typed: FormData) -> Done:
    await call.client.tasks.claim(call.path["task"], by=call.by, reason=text_of(typed, "reason"), tenant=call.tenant)
    return Done(path=("tasks", call.path["task"]), words="It is yours: nobody else may answer it.")


async def release(call: RouteCall[Any, None], typed: FormData) -> Done:
    await call.client.tasks.release(call.path["task"], by=call.by, reason=text_of(typed, "reason"), tenant=call.tenant)
    return Done(path=("tasks", call.path["task"]), words="It is everybody's again.")


async def approve(call: RouteCall[Any, None], typed: FormData) -> Done:
    task = await call.client.tasks.approve(
        call.path["task"], by=call.by, reason=text_of(typed, "reason"), tenant=call.tenant, proposal=_proposal(typed)
    )
    if task.status == "requested":
        return Done(path=("tasks", task.id), words="You approved it. A second person must approve it, too.")
    return await _answered(call, "Approved.")


async def reject(call: RouteCall[Any, None], typed: FormData) -> Done:
    await call.client.tasks.reject(
        call.path["task"], by=call.by, reason=reason_of(typed), tenant=call.tenant, proposal=_proposal(typed)
    )
    return await _answered(call, "Rejected.")


def _proposal(typed: FormData) -> str:
    """The hash of what the person saw."""
    found = typed.get("proposal")
    if not isinstance(found, str) or not found:
        raise InvalidRequest("the form does not say what was seen: open the task again.")
    return found


async def complete(call: RouteCall[Any, None], typed: FormData) -> Done:
    task = await call.client.tasks.get(call.path["task"], tenant=call.tenant)
    answer = await read_answer(fields_of(task.form or {}), typed, "answer")
    await call.client.tasks.complete(task.id, answer, by=call.by, reason=text_of(typed, "reason"), tenant=call.tenant)
    return await _answered(call, "Answered.")


async def happened(call: RouteCall[Any, None], typed: FormData) -> Done:
    result = json_of(typed, "result")
    await call.client.tasks.happened(
        call.path["task"], by=call.by, result=result, reason=reason_of(typed), tenant=call.tenant
    )
    return await _answered(call, "It happened.")


async def did_not_happen(call: RouteCall[Any, None], typed: FormData) -> Done:
    await call.client.tasks.did_not_happen(call.path["task"], by=call.by, reason=reason_of(typed), tenant=call.tenant)
    return await _answered(call, "It did not happen, and is judged again.")


async def give_up(call: RouteCall[Any, None], typed: FormData) -> Done:
    await call.client.tasks.give_up(call.path["task"], by=call.by, reason=reason_of(typed), tenant=call.tenant)
    return await _answered(call, "Its outcome stays unknown.")


async def _pass_on(call: RouteCall[Any, None], typed: FormData, way: str) -> Done:
    to = text_of(typed, "to")
    act = call.client.tasks.assign if way == "assign" else call.client.tasks.delegate
    await act(call.path["task"], by=call.by, to=to, reason=reason_of(typed), tenant=call.tenant)
    return Done(path=("tasks", call.path["task"]), words=f"It is {to}'s now.")


async def assign(call: RouteCall[Any, None], typed: FormData) -> Done:
    return await _pass_on(call, typed, "assign")


async def delegate(call: RouteCall[Any, None], typed: FormData) -> Done:
    return await _pass_on(call, typed, "delegate")


TASKS = ConsolePage(
    path="/tasks",
    operation="tasks.see",
    words="The tasks that wait for you.",
    load=load,
    template="tasks.html",
    data="/v1/inbox",
    query=TasksQuery,
)
TASK = ConsolePage(
    path="/tasks/{task}",
    operation="tasks.see",
    words="A task: what is asked, why, of whom, and the form to answer it.",
    load=load_task,
    template="task.html",
    data="/v1/tasks/{task}",
)


def _form(
    name: str,
    words: str,
    act: Callable[[RouteCall[Any, None], FormData], Awaitable[Done | ShownInstead]],
    operation: str = "tasks.answer",
) -> ConsoleForm:
    return ConsoleForm(path=f"/tasks/{{task}}/{name}", operation=operation, words=words, act=act, page=TASK)


PAGES = (TASKS, TASK)
FORMS = (
    _form("present", "Compare the proposed action with what is there now.", compare),
    _form("claim", "Claim a task.", claim),
    _form("release", "Give a task back.", release),
    _form("approve", "Approve the proposed action.", approve),
    _form("reject", "Reject the proposed action.", reject),
    _form("complete", "Answer a form.", complete),
    _form("happened", "Say that an act was done.", happened),
    _form("did-not-happen", "Say that an act was not done.", did_not_happen),
    _form("give-up", "Leave the outcome of an act open.", give_up),
    _form("assign", "Give a task to one person.", assign, "tasks.assign"),
    _form("delegate", "Let another person answer instead of you.", delegate),
)
