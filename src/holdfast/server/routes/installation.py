"""The installation: workers, what is parked, how long things are kept, what can be started, and who you are."""

from __future__ import annotations

from importlib import metadata

import msgspec

from holdfast.client.filters import RunFilters
from holdfast.client.views.cursors import Page
from holdfast.client.views.health import HealthInfo
from holdfast.client.views.runs import RunInfo
from holdfast.client.views.workers import WorkerInfo
from holdfast.people.permissions import LEAST, in_scope
from holdfast.programs.function.reversal import REVERSE
from holdfast.server.call import RouteCall
from holdfast.server.fields import PageQuery
from holdfast.server.route import Nothing, Route
from holdfast.store.protocol import UnavailableDefinition


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """Who you are here, and the operations that you may ask for. Unbound, you are the operator of the server."""

    user: str
    tenant: str
    level: int | None
    groups: tuple[str, ...]
    token: str | None
    operations: tuple[str, ...]


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The server. `workflows` and `definitions` are those that it knows itself; workers may serve more. `unavailable`
    are definitions that it was given and could not accept."""

    version: str
    read_only: bool
    has_worker: bool
    workflows: tuple[str, ...]
    definitions: tuple[str, ...]
    unavailable: tuple[UnavailableDefinition, ...]
    wait_seconds: float
    levels: dict[str, int]


class RetentionInfo(msgspec.Struct, frozen=True):
    """How long ended runs are kept by workers like this server's; null is for ever."""

    days: float | None


async def me(call: RouteCall[Nothing, None]) -> Me:
    caller = await call.client.whoami()
    if caller is None:
        tenant = call.client.tenant_of(call.tenant)
        return Me(user=call.by or "", tenant=tenant, level=None, groups=(), token=None, operations=tuple(sorted(LEAST)))
    mine = (name for name, least in LEAST.items() if least <= caller.level and in_scope(name, caller.scope))
    return Me(
        user=caller.user,
        tenant=caller.tenant,
        level=caller.level,
        groups=caller.groups,
        token=caller.token,
        operations=tuple(sorted(mine)),
    )


async def describe(call: RouteCall[Nothing, None]) -> ServerInfo:
    client = call.client
    functions = {*client.catalogue.serves().functions} - {REVERSE}
    return ServerInfo(
        version=metadata.version("holdfast"),
        read_only=call.settings.read_only,
        has_worker=client.worker is not None,
        workflows=tuple(sorted(functions)),
        definitions=tuple(each.reference for each in client.definitions),
        unavailable=tuple(each.brief for each in client.definitions.unavailable),
        wait_seconds=call.settings.wait_seconds,
        levels=dict(LEAST),
    )


async def workers(call: RouteCall[Nothing, None]) -> list[WorkerInfo]:
    return list(await call.client.workers())


async def health(call: RouteCall[Nothing, None]) -> HealthInfo:
    return await call.client.health(tenant=call.tenant)


async def parked(call: RouteCall[PageQuery, None]) -> Page[RunInfo]:
    filters = RunFilters(tenant=call.tenant, parked=True)
    return await call.client.page(limit=call.query.limit, after=call.query.after, **filters)


async def retention(call: RouteCall[Nothing, None]) -> RetentionInfo:
    return RetentionInfo(call.client.options.retention_days)


ROUTES = (
    Route(
        method="GET",
        path="/v1/me",
        operation="users.see_self",
        words="Who you are here, and what you may do.",
        handler=me,
        answer=Me,
    ),
    Route(
        method="GET",
        path="/v1/metadata",
        operation="workers.see",
        words="The server: its version, its limits, what it can start, and the level that each operation needs.",
        handler=describe,
        answer=ServerInfo,
    ),
    Route(
        method="GET",
        path="/v1/workers",
        operation="workers.see",
        words="The workers that are alive, and what they serve.",
        handler=workers,
        answer=list[WorkerInfo],
    ),
    Route(
        method="GET",
        path="/v1/health",
        operation="workers.see",
        words="How the work stands: the workers with their leases, what is ready and since when, the next timer, "
        "queues, what is parked, and how long things are kept.",
        handler=health,
        answer=HealthInfo,
    ),
    Route(
        method="GET",
        path="/v1/parked",
        operation="runs.see",
        words="The runs that the engine parked, each with the reason: nothing moves them until somebody acts.",
        handler=parked,
        query=PageQuery,
        answer=Page[RunInfo],
    ),
    Route(
        method="GET",
        path="/v1/retention",
        operation="workers.see",
        words="How long ended runs are kept.",
        handler=retention,
        answer=RetentionInfo,
    ),
)
