"""By what runs are listed: the filters of ``list`` and ``page`` as the store's query. All of them hold."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, TypedDict

from holdfast.client.views.states import RUN_STATES, RunState, narrowed
from holdfast.errors import InvalidRequest
from holdfast.store.protocol import Query, Status

RUNS: Final = "runs"
PAGE: Final = 100


class RunFilters(TypedDict, total=False):
    """What the runs that are meant have in common."""

    tenant: str | None
    status: Status | None
    state: RunState | None
    workflow: str | None
    attributes: Mapping[str, str] | None
    parent: str | None
    created_after: datetime | None
    created_before: datetime | None
    ended_after: datetime | None
    ended_before: datetime | None
    workspace: str | None
    actor: str | None
    parked: bool | None


def query_of(filters: RunFilters) -> Query:
    """The store's query. Raises InvalidRequest for a state that there is not."""
    state = filters.get("state")
    if state is not None and state not in RUN_STATES:
        raise InvalidRequest(f"a run's state is one of {', '.join(RUN_STATES)}, not {state!r:.60}")
    query = Query(
        tenant=filters.get("tenant"),
        status=filters.get("status"),
        workflow=filters.get("workflow"),
        attributes=filters.get("attributes") or {},
        parent=filters.get("parent"),
        created_after=_microseconds(filters.get("created_after")),
        created_before=_microseconds(filters.get("created_before")),
        ended_after=_microseconds(filters.get("ended_after")),
        ended_before=_microseconds(filters.get("ended_before")),
        workspace=filters.get("workspace"),
        actor=filters.get("actor"),
        parked=filters.get("parked"),
    )
    return narrowed(query, state)


def _microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1e6)
