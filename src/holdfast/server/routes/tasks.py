"""Tasks: what people are asked, and their answers."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from holdfast.client.governance.attachments import Attachment
from holdfast.client.governance.present import PresentInfo
from holdfast.client.runs.progress import RunProgress
from holdfast.client.views.cursors import Page
from holdfast.client.views.tasks import TaskInfo
from holdfast.client.views.values import read_plain
from holdfast.errors import MalformedRequest
from holdfast.server.call import Answered, FileAnswer, RouteCall
from holdfast.server.fields import Name, PageQuery, Reason, ReasonBody, Text, Value
from holdfast.server.route import BODY_LIMIT, PREFER, Nothing, Route
from holdfast.store.protocol import TaskKind, TaskStatus
from holdfast.tasks.files import FILES_LIMIT


class TaskListing(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tasks. Without a `status` all of them."""

    status: TaskStatus | None = None
    run: Text | None = None
    kind: TaskKind | None = None
    owner: Text | None = None
    reference: Text | None = None


class AnsweredTask(msgspec.Struct, frozen=True):
    """The task after the answer. `progress` is how its run stands, where the request asked to wait."""

    task: TaskInfo
    progress: RunProgress | None = None


class CompleteBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to a form. A file in it is `{"$base64": …, "name": "scan.pdf", "type": "application/pdf"}`."""

    answer: Value
    reason: Reason = ""


class AssignBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """To whom the task goes."""

    to: Name
    reason: Reason = ""


class HappenedBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the act gave."""

    result: Value = None
    reason: Reason = ""


class FileQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which file of the answer: its JSON pointer. It may be left out where there is one."""

    place: Text = ""


async def list_tasks(call: RouteCall[TaskListing, None]) -> Page[TaskInfo]:
    query = call.query
    return await call.client.tasks.page(
        tenant=call.tenant,
        status=query.status,
        run=query.run,
        kind=query.kind,
        owner=query.owner,
        reference=query.reference,
        limit=query.limit,
        after=query.after,
    )


async def inbox(call: RouteCall[PageQuery, None]) -> Page[TaskInfo]:
    query = call.query
    return await call.client.tasks.inbox(by=call.by, tenant=call.tenant, limit=query.limit, after=query.after)


async def show(call: RouteCall[Nothing, None]) -> TaskInfo:
    return await call.client.tasks.get(call.path["task"], tenant=call.tenant)


async def file(call: RouteCall[FileQuery, None]) -> FileAnswer:
    found = await call.client.tasks.file(call.path["task"], call.query.place, tenant=call.tenant)
    return FileAnswer(found.data, "application/octet-stream", found.name, {"X-Holdfast-Type": _ascii(found.type)})


async def present(call: RouteCall[Nothing, Nothing]) -> PresentInfo:
    return await call.client.tasks.present(call.path["task"], by=call.by, tenant=call.tenant)


async def claim(call: RouteCall[Nothing, ReasonBody]) -> AnsweredTask:
    task = await call.client.tasks.claim(call.path["task"], by=call.by, reason=call.body.reason, tenant=call.tenant)
    return AnsweredTask(task)


async def release(call: RouteCall[Nothing, ReasonBody]) -> AnsweredTask:
    task = await call.client.tasks.release(call.path["task"], by=call.by, reason=call.body.reason, tenant=call.tenant)
    return AnsweredTask(task)


async def assign(call: RouteCall[Nothing, AssignBody]) -> AnsweredTask:
    body = call.body
    task = await call.client.tasks.assign(
        call.path["task"], by=call.by, to=body.to, reason=body.reason, tenant=call.tenant
    )
    return AnsweredTask(task)


async def delegate(call: RouteCall[Nothing, AssignBody]) -> AnsweredTask:
    body = call.body
    task = await call.client.tasks.delegate(
        call.path["task"], by=call.by, to=body.to, reason=body.reason, tenant=call.tenant
    )
    return AnsweredTask(task)


async def approve(call: RouteCall[Nothing, ReasonBody]) -> Answered:
    task = await call.client.tasks.approve(call.path["task"], by=call.by, reason=call.body.reason, tenant=call.tenant)
    return await _answered(call, task)


async def reject(call: RouteCall[Nothing, ReasonBody]) -> Answered:
    task = await call.client.tasks.reject(call.path["task"], by=call.by, reason=call.body.reason, tenant=call.tenant)
    return await _answered(call, task)


async def complete(call: RouteCall[Nothing, CompleteBody]) -> Answered:
    answer = _with_files(call.body.answer)
    task = await call.client.tasks.complete(
        call.path["task"], answer, by=call.by, reason=call.body.reason, tenant=call.tenant
    )
    return await _answered(call, task)


async def happened(call: RouteCall[Nothing, HappenedBody]) -> Answered:
    body = call.body
    task = await call.client.tasks.happened(
        call.path["task"], by=call.by, result=read_plain(body.result), reason=body.reason, tenant=call.tenant
    )
    return await _answered(call, task)


async def did_not_happen(call: RouteCall[Nothing, ReasonBody]) -> Answered:
    task = await call.client.tasks.did_not_happen(
        call.path["task"], by=call.by, reason=call.body.reason, tenant=call.tenant
    )
    return await _answered(call, task)


async def give_up(call: RouteCall[Nothing, ReasonBody]) -> Answered:
    task = await call.client.tasks.give_up(call.path["task"], by=call.by, reason=call.body.reason, tenant=call.tenant)
    return await _answered(call, task)


async def _answered(call: RouteCall[Any, Any], task: TaskInfo) -> Answered:
    handle = call.client.run(task.run, tenant=call.tenant)
    return Answered(AnsweredTask(task, await call.progress(handle)), call.waited)


def _with_files(value: Any, place: str = "body/answer") -> Any:
    """The answer with its files as such."""
    match value:
        case {"$base64": str(text)}:
            name, media = value.get("name", "file"), value.get("type", "")
            if not isinstance(name, str) or not isinstance(media, str):
                raise MalformedRequest("a file's name and type are texts", [(place, "name and type are texts")])
            try:
                return Attachment(name, base64.b64decode(text, validate=True), media)
            except ValueError as error:
                raise MalformedRequest("a file is not base64", [(place, f"it is not base64: {error}")]) from error
        case dict():
            return {name: _with_files(item, f"{place}/{name}") for name, item in value.items()}
        case list():
            return [_with_files(item, f"{place}/{number}") for number, item in enumerate(value)]
        case _:
            return value


def _ascii(text: str) -> str:
    return text if text.isascii() and text.isprintable() else ""


TASK = "/v1/tasks/{task}"


def _answer(path: str, words: str, handler: Any, body: type[msgspec.Struct] = ReasonBody, **more: Any) -> Route:
    return Route(
        method="POST",
        path=f"{TASK}/{path}",
        operation=more.pop("operation", "tasks.answer"),
        words=words,
        handler=handler,
        body=body,
        answer=AnsweredTask,
        **more,
    )


ROUTES = (
    Route(
        method="GET",
        path="/v1/tasks",
        operation="tasks.see",
        words="List tasks, oldest first, that match all filters.",
        handler=list_tasks,
        query=TaskListing,
        answer=Page[TaskInfo],
    ),
    Route(
        method="GET",
        path="/v1/inbox",
        operation="tasks.see",
        words="List the open tasks that you may answer now, oldest first. A page may have fewer than `limit`.",
        handler=inbox,
        query=PageQuery,
        answer=Page[TaskInfo],
    ),
    Route(
        method="GET",
        path=TASK,
        operation="tasks.see",
        words="Show a task: what is asked, who may answer, its form, what was answered.",
        handler=show,
        answer=TaskInfo,
    ),
    Route(
        method="GET",
        path=f"{TASK}/file",
        operation="tasks.see",
        words="Download a file of the answer to a form.",
        handler=file,
        query=FileQuery,
        media=("application/octet-stream",),
    ),
    Route(
        method="POST",
        path=f"{TASK}/present",
        operation="tasks.answer",
        words="Let the probe of the proposed action look what is there now. Only for who may approve it.",
        handler=present,
        body=Nothing,
        answer=PresentInfo,
    ),
    _answer("claim", "Claim a task: until it is released, nobody else may answer it.", claim),
    _answer("release", "Give a task back, whoever holds it.", release),
    _answer("assign", "Give a task to one person who may answer it.", assign, AssignBody, operation="tasks.assign"),
    _answer("delegate", "Let another person, and nobody else, answer instead of you.", delegate, AssignBody),
    _answer("approve", "Approve the proposed action.", approve, headers=(PREFER,)),
    _answer("reject", "Reject the proposed action: its call fails.", reject, headers=(PREFER,)),
    _answer(
        "complete",
        "Fill a form in. An answer that does not fit is refused with every problem, and the task stays open.",
        complete,
        CompleteBody,
        headers=(PREFER,),
        body_limit=3 * FILES_LIMIT // 2 + BODY_LIMIT,
    ),
    _answer(
        "happened",
        "Say that an act of unknown outcome was done, and what it gave.",
        happened,
        HappenedBody,
        headers=(PREFER,),
    ),
    _answer("did-not-happen", "Say that an act of unknown outcome was not done.", did_not_happen, headers=(PREFER,)),
    _answer("give-up", "Leave the outcome of an act open: its call fails.", give_up, headers=(PREFER,)),
)
