"""The list of runs: what needs attention, the search box, and acts on all runs of a filter."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

import msgspec
from starlette.datastructures import FormData
from starlette.responses import RedirectResponse, Response

from holdfast.client.bulk import BulkAction, steer_many
from holdfast.runs.losses import losses_in
from holdfast.server.call import RouteCall
from holdfast.server.console.page import ConsoleForm, ConsolePage, Context, Done, ShownInstead
from holdfast.server.console.search import QUALIFIERS, place_of, read_search, write_search
from holdfast.server.console.templating import MOST_COUNTED, Paths
from holdfast.server.console.typed import reason_of
from holdfast.server.decoder import read_query
from holdfast.server.fields import Text
from holdfast.server.run_filters import RunFilter, RunListing
from holdfast.store.protocol import ENDED

SHOWN: Final = 50
PARKED_SHOWN: Final = 50
ACTIONS: Final[tuple[BulkAction, ...]] = ("cancel", "pause", "resume", "retry")
TABS: Final[Mapping[str, Mapping[str, str]]] = {
    "All": {},
    "Running": {"status": "running"},
    "Waiting": {"status": "waiting"},
    "Parked": {"parked": "true"},
    "Failed": {"status": "failed"},
    "Completed": {"status": "completed"},
    "Cancelled": {"status": "cancelled"},
}


class RunsQuery(RunListing, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which runs; ``q`` is what was typed into the search box."""

    q: Text | None = None


async def load(call: RouteCall[RunsQuery, None]) -> Context | Response:
    query = call.query
    if query.q is not None:
        run, filters = await place_of(call, read_search(query.q))
        path = Paths(call.request.scope.get("root_path", ""))
        return RedirectResponse(path("runs", **filters) if run is None else path("runs", run), 303)
    client, tenant = call.client, call.tenant
    limit = min(query.limit, SHOWN) if query.limit == RunsQuery().limit else query.limit
    page = await client.page(limit=limit, after=query.after, **query.filters(tenant))
    counts: dict[str, int] = {}
    for each in await client.counts(tenant=tenant, most=MOST_COUNTED):
        counts[each.status] = counts.get(each.status, 0) + each.count
    for status, lanes in (await client.machines.lane_counts(tenant=tenant)).items():
        if counts.get(status, 0) <= MOST_COUNTED and status != "paused":  # a paused lane is listed, too
            counts[status] = max(0, counts.get(status, 0) - lanes)
    parked = await client.page(tenant=tenant, parked=True, limit=PARKED_SHOWN) if counts.get("paused") else None
    pairs = filter_pairs(query)
    return {
        "runs": page.items,
        "next": page.next,
        "counts": counts,
        "total": sum(counts.values()),
        "moving": sum(count for status, count in counts.items() if status not in ENDED),
        "parked": 0 if parked is None else len(parked.items),
        "lost": await losses_in(client.store, client.clock.now(), tenant),
        "parked_more": parked is not None and parked.next is not None,
        "search": write_search(query),
        "filter": urlencode(pairs),
        "filter_pairs": pairs,
        "is_first": query.after is None,
        "tabs": TABS,
        "tab": next((name for name, each in TABS.items() if dict(pairs) == dict(each)), None),
        "qualifiers": QUALIFIERS,
        "workflows": sorted(client.catalogue.serves().functions),
        "actions": ACTIONS,
        "events": Paths(call.request.scope.get("root_path", ""))("v1", "events", "runs", **_grouped(pairs)),
    }


def filter_pairs(query: RunFilter) -> list[tuple[str, str]]:
    """The filters of a query as its address has them."""
    given = msgspec.to_builtins(msgspec.convert(query, RunFilter, from_attributes=True))
    return [
        (name, str(each).lower() if isinstance(each, bool) else str(each))
        for name, value in given.items()
        for each in (value if isinstance(value, list) else [value])
        if each is not None
    ]


def _grouped(pairs: list[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


async def _steer(action: BulkAction, call: RouteCall[Any, None], typed: FormData) -> Done | ShownInstead:
    """Act on all runs of a filter: first it is shown which they are, then it is done."""
    reason = reason_of(typed)
    chosen = read_query(parse_qsl(str(typed.get("filter", ""))), RunFilter)
    result = await steer_many(
        call.client,
        action,
        chosen.filters(call.tenant),
        reason=reason,
        by=call.by,
        dry_run=typed.get("confirmed") != "yes",
        limit=call.settings.bulk_limit,
    )
    filter = urlencode(filter_pairs(chosen))
    context = {"result": result, "filter": filter, "reason": reason, "search": write_search(chosen)}
    return ShownInstead(template="bulk.html", context=context)


RUNS = ConsolePage(
    path="/runs",
    operation="runs.see",
    words="What needs attention, and all runs.",
    load=load,
    template="runs.html",
    data="/v1/runs",
    query=RunsQuery,
)

PAGES = (RUNS,)
FORMS = tuple(
    ConsoleForm(
        path=f"/bulk/runs/{action}",
        operation=f"runs.{action}",
        words=f"{action.capitalize()} all runs of a filter, after a dry run.",
        act=partial(_steer, action),
        page=RUNS,
    )
    for action in ACTIONS
)
