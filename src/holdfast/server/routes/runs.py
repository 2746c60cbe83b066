"""Runs: starting, listing, showing and steering them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from holdfast.client.runs.progress import RunDetails, RunProgress
from holdfast.client.runs.retries import RetryChoice
from holdfast.client.runs.starter import NotedOptions
from holdfast.client.views.cursors import Page
from holdfast.client.views.runs import RunInfo
from holdfast.client.views.values import read_plain
from holdfast.errors import MalformedRequest
from holdfast.runs.birth import Trigger
from holdfast.server.call import Answered, RouteCall
from holdfast.server.fields import Name, ReasonBody, Text, Value
from holdfast.server.route import IDEMPOTENCY_KEY, PREFER, TRACE, Nothing, Route
from holdfast.server.run_filters import RunListing
from holdfast.store.protocol import RunCount


class TriggerBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The cause of a start: its type, such as `webhook`, and its own reference there."""

    type: Text
    ref: Text


class StartRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to start, and with what. A function takes `args` and `kwargs`; a definition one value, or named ones."""

    workflow: Name
    args: list[Value] = []
    kwargs: dict[str, Value] = {}
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=512)] | None = None
    priority: Annotated[int, msgspec.Meta(gt=-(2**31), lt=2**31)] = 0
    attributes: dict[str, Text] = {}
    workspace: Text = ""
    trigger: TriggerBody | None = None


class StartedRun(msgspec.Struct, frozen=True):
    """A run that is durable. `progress` is how it stands, where the request asked to wait."""

    id: str
    tenant: str
    progress: RunProgress | None = None


class SignalBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A signal. With an `id` a repetition is delivered once; with `expected_version` only a run that has so many events
    takes it in; with a `wait_token` only one that still waits there; with a `key` only a definition that waits for this
    name and key."""

    name: Text
    value: Value = None
    key: Value = None
    id: Name | None = None
    expected_version: int | None = None
    wait_token: str | None = None


class RetryBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether the retry is only planned, with `tree` whether failed children are retried with it.

    Of results that were kept: which are done `again`, which to `keep` whatever is asked now, and with `new` that none
    counts.
    """

    dry_run: bool = False
    again: tuple[Name, ...] = ()
    keep: tuple[Name, ...] = ()
    new: bool = False
    tree: bool = False


class RetriedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The calls that are done again, by name. Those in `kept` are not if they are called with the input that they had.

    Timers of `slept` seconds run again. `children` are the runs that are retried with it.
    """

    run: str
    dry_run: bool
    again: tuple[str, ...]
    kept: tuple[str, ...] = ()
    slept: tuple[float, ...] = ()
    children: tuple[str, ...] = ()


class ForkBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the new run goes on: behind the journal's events before `sequence`."""

    sequence: int
    id: Name | None = None


class SteeredRun(msgspec.Struct, frozen=True):
    """A run that was steered. `progress` is how it stands, where the request asked to wait."""

    run: str
    progress: RunProgress | None = None


async def list_runs(call: RouteCall[RunListing, None]) -> Page[RunInfo]:
    query = call.query
    return await call.client.page(limit=query.limit, after=query.after, **query.filters(call.tenant))


class CountsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far each number is counted: one above `most` means that there are more."""

    most: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] | None = None


async def count(call: RouteCall[CountsQuery, None]) -> list[RunCount]:
    return list(await call.client.counts(tenant=call.tenant, most=call.query.most))


async def start(call: RouteCall[Nothing, StartRun]) -> Answered:
    body = call.body
    key = call.header("Idempotency-Key")
    if body.id is not None and key is not None and body.id != key:
        problem = "it differs from the id of the body: give one of them"
        raise MalformedRequest("the run has two ids", [("header/Idempotency-Key", problem)])
    await call.client.starter.check_served(body.workflow, call.tenant)
    options = NotedOptions(
        id=body.id if body.id is not None else key,
        tenant=call.tenant,
        priority=body.priority,
        attributes=body.attributes,
        workspace=body.workspace,
        actor=call.by,
        trigger=None if body.trigger is None else Trigger(body.trigger.type, body.trigger.ref),
    )
    args, kwargs = tuple(map(read_plain, body.args)), {name: read_plain(each) for name, each in body.kwargs.items()}
    handle = await call.client.starter.start(body.workflow, args, kwargs, options)
    view = StartedRun(handle.id, handle.tenant, await call.progress(handle))
    return Answered(view, {"Location": call.address("runs", handle.id), **call.waited})


async def show(call: RouteCall[Nothing, None]) -> RunDetails:
    return await call.run.details()


async def signal(call: RouteCall[Nothing, SignalBody]) -> Answered:
    body = call.body
    value, key = read_plain(body.value), read_plain(body.key)
    expected, token = body.expected_version, body.wait_token
    await call.run.signal(
        body.name, value, key=key, id=body.id, expected_version=expected, wait_token=token, by=call.by
    )
    return await _steered(call)


class CancelBody(ReasonBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a run is asked to stop, and whether it ends without waiting for its children."""

    leave_children: bool = False


async def cancel(call: RouteCall[Nothing, CancelBody]) -> Answered:
    body = call.body
    await call.run.cancel(body.reason or "cancelled by request", by=call.by, leave_children=body.leave_children)
    return await _steered(call)


async def pause(call: RouteCall[Nothing, ReasonBody]) -> Answered:
    await call.run.pause(call.body.reason or "paused by request", by=call.by)
    return await _steered(call)


async def resume(call: RouteCall[Nothing, Nothing]) -> Answered:
    await call.run.resume(by=call.by)
    return await _steered(call)


async def retry(call: RouteCall[Nothing, RetryBody]) -> RetriedRun:
    body = call.body
    chosen = RetryChoice(again=body.again, keep=body.keep, new=body.new, tree=body.tree)
    plan = await call.run.plan_retry(**chosen)
    if not body.dry_run:
        await call.run.retry(by=call.by, **chosen)
    return RetriedRun(
        run=call.run.id,
        dry_run=body.dry_run,
        again=plan.again,
        kept=plan.kept,
        slept=plan.slept,
        children=plan.children,
    )


async def fork(call: RouteCall[Nothing, ForkBody]) -> Answered:
    handle = await call.run.fork(call.body.sequence, id=call.body.id, by=call.by)
    view = StartedRun(handle.id, handle.tenant, await call.progress(handle))
    return Answered(view, {"Location": call.address("runs", handle.id), **call.waited})


async def _steered(call: RouteCall[Any, Any]) -> Answered:
    return Answered(SteeredRun(call.run.id, await call.progress(call.run)), call.waited)


RUN = "/v1/runs/{run}"

ROUTES = (
    Route(
        method="GET",
        path="/v1/runs",
        operation="runs.see",
        words="List runs, newest first, that match all filters.",
        handler=list_runs,
        query=RunListing,
        answer=Page[RunInfo],
    ),
    Route(
        method="POST",
        path="/v1/runs",
        operation="runs.start",
        words="Start a run of a function or a definition (`name`, `name@3`, `name@^2`). It is durable when this is "
        "answered. Its id, in the body or as `Idempotency-Key`, is the key of idempotency: the same id with the same "
        "arguments finds the same run, and is answered alike.",
        handler=start,
        body=StartRun,
        answer=StartedRun,
        status=201,
        headers=(IDEMPOTENCY_KEY, PREFER, TRACE),
    ),
    Route(
        method="GET",
        path="/v1/counts/runs",
        operation="runs.see",
        words="The number of runs by status. With `most` no number is counted further than one above it, which is "
        "quick however many there are; a million runs are counted in a fifth of a second.",
        handler=count,
        query=CountsQuery,
        answer=list[RunCount],
    ),
    Route(
        method="GET",
        path=RUN,
        operation="runs.see",
        words="Show a run: its row, why it is not moving, its open tasks, its result.",
        handler=show,
        answer=RunDetails,
    ),
    Route(
        method="POST",
        path=f"{RUN}/signal",
        operation="runs.signal",
        words="Send a signal to a run. The audit records who sent it.",
        handler=signal,
        body=SignalBody,
        answer=SteeredRun,
        headers=(PREFER,),
    ),
    Route(
        method="POST",
        path=f"{RUN}/cancel",
        operation="runs.cancel",
        words="Ask a run to stop; its cleanup runs first.",
        handler=cancel,
        body=CancelBody,
        answer=SteeredRun,
        headers=(PREFER,),
    ),
    Route(
        method="POST",
        path=f"{RUN}/pause",
        operation="runs.pause",
        words="Stop a run, once the steps that it has begun are done, until it is resumed.",
        handler=pause,
        body=ReasonBody,
        answer=SteeredRun,
        headers=(PREFER,),
    ),
    Route(
        method="POST",
        path=f"{RUN}/resume",
        operation="runs.resume",
        words="Let a paused or parked run continue.",
        handler=resume,
        body=Nothing,
        answer=SteeredRun,
        headers=(PREFER,),
    ),
    Route(
        method="POST",
        path=f"{RUN}/retry",
        operation="runs.retry",
        words="Let a failed or cancelled run continue from its failure, or answer one that is parked because it calls "
        "something with another input than before its retry; `dry_run` only says what is done again.",
        handler=retry,
        body=RetryBody,
        answer=RetriedRun,
    ),
    Route(
        method="POST",
        path=f"{RUN}/fork",
        operation="runs.fork",
        words="Start a new run from a prefix of this one's journal.",
        handler=fork,
        body=ForkBody,
        answer=StartedRun,
        status=201,
        headers=(PREFER,),
    ),
)
