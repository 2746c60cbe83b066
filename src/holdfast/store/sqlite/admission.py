"""Which runs a claim may have where tenants have limits, inside a transaction that the store has begun.

What has begun goes on, and children do; a root run that is queued must be admitted. The queue is read by lines, one for
each tenant, workspace and workflow: runs of one line differ in nothing that caps or fairness ask for, so the first few
of each are enough, however many of a workflow at its cap stand in front of the others.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.store import protocol as p
from holdfast.store.admission import MINUTE, Candidate, Load, Loads, admit, loads_of
from holdfast.store.sqlite.sql import GATE


def claim(
    connection: sqlite3.Connection,
    going: str,
    worker: str,
    serves: p.Serves,
    limit: int,
    now: int,
    limits: p.Limits,
) -> tuple[list[tuple[Any, ...]], int | None]:
    """The rows leased, and when a rate lets the next run begin. ``going`` claims what needs no place."""
    names, kinds = (msgspec.json.encode(each).decode() for each in (serves.functions, serves.kinds))
    claimed = connection.execute(going, (worker, names, limit, now, kinds)).fetchall()
    room = limit - len(claimed)
    if room <= 0:
        return claimed, None
    line = _line(connection, serves, room)
    loads: dict[tuple[str, str], Load] = {}
    for tenant in {candidate.key.tenant for candidate in line}:
        loads |= _loads(connection, tenant, limits.of(tenant), now)
    admitted = admit(line, loads, limits, room, now)
    for key in admitted.keys:
        claimed += connection.execute(GATE["begin"], (*key, worker, now)).fetchall()
    return claimed, admitted.next_at


def _line(connection: sqlite3.Connection, serves: p.Serves, room: int) -> list[Candidate]:
    found: list[tuple[int, int, p.Key, str, str]] = []
    for line in _lines(connection):
        tenant, workspace, workflow, kind = line
        if serves.takes(kind, workflow):
            for priority, ready_at, run in connection.execute(GATE["line"], (*line, room)).fetchall():
                found.append((-priority, ready_at, p.Key(tenant, run), workflow, workspace))
    return [Candidate(key, workflow, space, -priority) for priority, _, key, workflow, space in sorted(found)]


def _lines(connection: sqlite3.Connection) -> Iterator[tuple[str, str, str, str]]:
    last = ("", "", "", "")
    while (last := connection.execute(GATE["next_line"], last).fetchone()) is not None:
        yield last


def _loads(connection: sqlite3.Connection, tenant: str, limits: p.TenantLimits, now: int) -> Loads:
    """What a tenant has under way; when runs began is read only where a rate asks for it."""
    found = [(tenant, *counted, ()) for counted in connection.execute(GATE["under_way"], (tenant,)).fetchall()]
    if any(cap.max_runs_per_min is not None for cap in (limits.cap, *limits.workflows.values())):
        recent = connection.execute(GATE["begun_since"], (tenant, now - MINUTE)).fetchall()
        found += [(tenant, workflow, "", 0, (at,)) for workflow, at in recent]
    return loads_of(found)
