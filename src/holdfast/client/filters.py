"""The filters of ``list`` and ``page``, and the rows of the runs that they choose. All of them hold."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Final, TypedDict, Unpack

from holdfast.client.pages import Find, rows_of
from holdfast.client.views.cursors import read_cursor
from holdfast.client.views.states import STATES, narrowed
from holdfast.client.views.times import microseconds
from holdfast.errors import InvalidRequest
from holdfast.store.protocol import MACHINE, Cursor, Query, Run, Status, Store

RUNS: Final = "runs"


class RunFilters(TypedDict, total=False):
    """What the wanted runs have in common. ``kind`` is function, definition or machine: without it the lanes of
    machines are listed only where paused or parked runs are asked for."""

    tenant: str | None
    status: Status | None
    state: str | None
    workflow: str | None
    attributes: Mapping[str, str] | None
    parent: str | None
    created_after: datetime | None
    created_before: datetime | None
    ended_after: datetime | None
    ended_before: datetime | None
    workspace: str | None
    actor: str | None
    reference: str | None
    parked: bool | None
    kind: str | None


def query_of(filters: RunFilters) -> Query:
    """The store's query. Raises InvalidRequest for an unknown state."""
    state = filters.get("state")
    if state is not None and state not in STATES:
        raise InvalidRequest(f"a run's state is one of {', '.join(STATES)}, not {state!r:.60}")
    query = Query(
        tenant=filters.get("tenant"),
        status=filters.get("status"),
        workflow=filters.get("workflow"),
        attributes=filters.get("attributes") or {},
        parent=filters.get("parent"),
        created_after=_time(filters.get("created_after")),
        created_before=_time(filters.get("created_before")),
        ended_after=_time(filters.get("ended_after")),
        ended_before=_time(filters.get("ended_before")),
        workspace=filters.get("workspace"),
        actor=filters.get("actor"),
        reference=filters.get("reference"),
        parked=filters.get("parked"),
        program_kind=filters.get("kind"),
        other_kind_than=None if _shows_lanes(filters) else MACHINE,
    )
    return narrowed(query, state)


def _shows_lanes(filters: RunFilters) -> bool:
    """Whether lanes of machines are listed: where they are asked for by their kind, and where what is held up is. A
    machine has many, which wait for events most of the time, and its cells are listed by themselves."""
    held_up = filters.get("parked") or filters.get("status") == "paused" or filters.get("state") == "failed_retryable"
    return filters.get("kind") is not None or bool(held_up)


def _time(time: datetime | None) -> int | None:
    return None if time is None else microseconds(time.astimezone())


def finder(store: Store, filters: RunFilters) -> Find[Run]:
    """Reads the rows that match, newest first. Raises InvalidRequest for an unknown state."""
    query = query_of(filters)

    async def find(limit: int, place: Cursor | None) -> Sequence[Run]:
        return await store.find(query, limit, place)

    return find


def run_rows(
    store: Store, *, limit: int | None = None, after: str | None = None, **filters: Unpack[RunFilters]
) -> AsyncIterator[Run]:
    """The rows of the runs that match, newest first; behind ``after``, which is the ``next`` of a page."""
    return rows_of(finder(store, filters), limit, read_cursor(RUNS, after))
