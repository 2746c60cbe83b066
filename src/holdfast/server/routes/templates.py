"""Templates: what a tenant offers to be started, its instances, and the events that start them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from holdfast.client.templates.emitter import EmittedInfo
from holdfast.client.views.cursors import Page
from holdfast.client.views.templates import TemplateInfo, TemplateInstance
from holdfast.client.views.values import read_plain
from holdfast.server.call import Answered, RouteCall
from holdfast.server.fields import Name, PageQuery, Reason, ReasonBody, Text, Value
from holdfast.server.route import IDEMPOTENCY_KEY, PREFER, Nothing, Route
from holdfast.server.routes.runs import StartedRun
from holdfast.templates.template import EventRoute, StartTrigger, TemplateCaps, TemplateStatus


class TemplateQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which templates."""

    status: TemplateStatus | None = None


class TemplateBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a template is: a `program` by its name or reference, or a definition as `text` or `document`, which is
    published. What is left out is as it was, or has its default."""

    program: Name | None = None
    text: str | None = None
    document: dict[str, Any] | None = None
    name: Text | None = None
    trigger: StartTrigger | None = None
    caps: TemplateCaps | None = None
    input: Value = None
    route: EventRoute | None = None
    reason: Reason = ""


class NewTemplate(TemplateBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A template to be made, as a draft."""

    id: Name


class InstanceQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which instances."""

    state: Text | None = None


class StartInstance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an instance is started. `input` is laid over the template's own, member by member."""

    input: Value = None
    id: Name | None = None
    workspace: Text = ""
    priority: Annotated[int, msgspec.Meta(gt=-(2**31), lt=2**31)] = 0


class EmitBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that happened. `id` is the event's own: sent again with it, nothing is started twice."""

    event: Name
    id: Name
    data: Value = None
    workspace: Text = ""


async def list_templates(call: RouteCall[TemplateQuery, None]) -> Page[TemplateInfo]:
    query = call.query
    return await call.client.templates.page(
        status=query.status, limit=query.limit, after=query.after, tenant=call.tenant
    )


async def create(call: RouteCall[Nothing, NewTemplate]) -> TemplateInfo:
    return await call.client.templates.create(call.body.id, **_said(call))


async def show(call: RouteCall[Nothing, None]) -> TemplateInfo:
    return await call.client.templates.show(call.path["template"], tenant=call.tenant)


async def new_version(call: RouteCall[Nothing, TemplateBody]) -> TemplateInfo:
    return await call.client.templates.new_version(call.path["template"], **_said(call))


async def activate(call: RouteCall[Nothing, ReasonBody]) -> TemplateInfo:
    return await call.client.templates.activate(
        call.path["template"], reason=call.body.reason, tenant=call.tenant, by=call.by
    )


async def pause(call: RouteCall[Nothing, ReasonBody]) -> TemplateInfo:
    return await call.client.templates.pause(
        call.path["template"], reason=call.body.reason, tenant=call.tenant, by=call.by
    )


async def resume(call: RouteCall[Nothing, ReasonBody]) -> TemplateInfo:
    return await call.client.templates.resume(
        call.path["template"], reason=call.body.reason, tenant=call.tenant, by=call.by
    )


async def archive(call: RouteCall[Nothing, ReasonBody]) -> TemplateInfo:
    return await call.client.templates.archive(
        call.path["template"], reason=call.body.reason, tenant=call.tenant, by=call.by
    )


async def instances(call: RouteCall[InstanceQuery, None]) -> Page[TemplateInstance]:
    query = call.query
    return await call.client.templates.instances_page(
        call.path["template"], state=query.state, limit=query.limit, after=query.after, tenant=call.tenant
    )


async def instance(call: RouteCall[Nothing, None]) -> TemplateInstance:
    return await call.client.templates.instance(call.path["run"], tenant=call.tenant)


async def start(call: RouteCall[Nothing, StartInstance]) -> Answered:
    body = call.body
    handle = await call.client.templates.start(
        call.path["template"],
        read_plain(body.input),
        id=body.id if body.id is not None else call.header("Idempotency-Key"),
        workspace=body.workspace,
        priority=body.priority,
        tenant=call.tenant,
        by=call.by,
    )
    view = StartedRun(handle.id, handle.tenant, await call.progress(handle))
    return Answered(view, {"Location": call.address("runs", handle.id), **call.waited})


async def emit(call: RouteCall[Nothing, EmitBody]) -> EmittedInfo:
    body = call.body
    return await call.client.emit(
        body.event, read_plain(body.data), id=body.id, workspace=body.workspace, tenant=call.tenant, by=call.by
    )


def _said(call: RouteCall[Nothing, Any]) -> dict[str, Any]:
    """What the body says of a template, as the client takes it."""
    body: TemplateBody = call.body
    return {
        "program": body.program,
        "source": body.text if body.text is not None else body.document,
        "name": body.name,
        "trigger": body.trigger,
        "caps": body.caps,
        "input": read_plain(body.input),
        "route": body.route,
        "tenant": call.tenant,
        "by": call.by,
        "reason": body.reason,
    }


TEMPLATE = "/v1/templates/{template}"


def _change(path: str, words: str, handler: Any, body: type[msgspec.Struct]) -> Route:
    return Route(
        method="POST",
        path=f"{TEMPLATE}/{path}",
        operation="templates.change",
        words=words,
        handler=handler,
        body=body,
        answer=TemplateInfo,
    )


ROUTES = (
    Route(
        method="GET",
        path="/v1/templates",
        operation="templates.see",
        words="List the tenant's templates, by id.",
        handler=list_templates,
        query=TemplateQuery,
        answer=Page[TemplateInfo],
    ),
    Route(
        method="POST",
        path="/v1/templates",
        operation="templates.change",
        words="Make a template, as a draft.",
        handler=create,
        body=NewTemplate,
        answer=TemplateInfo,
        status=201,
    ),
    Route(
        method="GET",
        path=TEMPLATE,
        operation="templates.see",
        words="Show a template.",
        handler=show,
        answer=TemplateInfo,
    ),
    _change("versions", "Give a template its next version. Instances keep theirs.", new_version, TemplateBody),
    _change("activate", "Let a draft be started.", activate, ReasonBody),
    _change("pause", "Let nothing be started of it until it is resumed.", pause, ReasonBody),
    _change("resume", "Let a paused template be started again.", resume, ReasonBody),
    _change("archive", "End a template for good. Its instances go on.", archive, ReasonBody),
    Route(
        method="POST",
        path=f"{TEMPLATE}/start",
        operation="templates.start",
        words="Start an instance. Over a cap it is queued.",
        handler=start,
        body=StartInstance,
        answer=StartedRun,
        status=201,
        headers=(IDEMPOTENCY_KEY, PREFER),
    ),
    Route(
        method="GET",
        path=f"{TEMPLATE}/instances",
        operation="templates.see",
        words="List the instances of a template, newest first, with the states of their steps.",
        handler=instances,
        query=InstanceQuery,
        answer=Page[TemplateInstance],
    ),
    Route(
        method="GET",
        path="/v1/instances/{run}",
        operation="templates.see",
        words="Show an instance: its state, and those of its steps.",
        handler=instance,
        answer=TemplateInstance,
    ),
    Route(
        method="POST",
        path="/v1/emit",
        operation="events.emit",
        words="Tell the tenant's templates that something happened; each that hears it starts one instance.",
        handler=emit,
        body=EmitBody,
        answer=EmittedInfo,
    ),
)
