"""The runs that a claim may lease where tenants have limits, inside a transaction that the store has begun.

Runs that have begun, and children, need no place; a queued root run must be admitted. The queue is read by lines, one
for each tenant, workspace, workflow and template. Runs of one line are equal for caps and fairness, so the first few
of each line are enough, even if many runs of a workflow at its cap come first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.store import protocol as p
from holdfast.store.admission import MINUTE, Candidate, Load, Loads, admit, loads_of
from holdfast.store.caps import laid_over
from holdfast.store.sqlite.sql import GATE


def limits_in(connection: sqlite3.Connection, limits: p.Limits | None) -> p.Limits | None:
    """The limits with the caps that people have set."""
    return laid_over(limits, connection.execute(GATE["set_caps"]).fetchall())


def claim(
    connection: sqlite3.Connection,
    going: str,
    worker: str,
    serves: p.Serves,
    limit: int,
    now: int,
    limits: p.Limits,
) -> tuple[list[tuple[Any, ...]], int | None]:
    """The leased rows, and when a rate lets the next run begin. ``going`` claims the runs that need no place."""
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
    found: list[tuple[int, int, Candidate]] = []
    for line in _lines(connection):
        tenant, workspace, workflow, kind = line
        if serves.takes(kind, workflow):
            for template in _templates(connection, line):
                for priority, ready_at, run in connection.execute(GATE["line"], (*line, template, room)).fetchall():
                    key = p.Key(tenant, run)
                    found.append((-priority, ready_at, Candidate(key, workflow, workspace, priority, template)))
    found.sort(key=lambda each: (*each[:2], each[2].key, each[2].workflow, each[2].workspace))
    return [candidate for *_, candidate in found]


def _templates(connection: sqlite3.Connection, line: tuple[str, str, str, str]) -> Iterator[str]:
    last: str | int = -1
    while (row := connection.execute(GATE["next_template"], (*line, last)).fetchone()) is not None:
        (last,) = row
        yield str(last)


def _lines(connection: sqlite3.Connection) -> Iterator[tuple[str, str, str, str]]:
    last = ("", "", "", "")
    while (last := connection.execute(GATE["next_line"], last).fetchone()) is not None:
        yield last


def _loads(connection: sqlite3.Connection, tenant: str, limits: p.TenantLimits, now: int) -> Loads:
    """A tenant's runs under way, by template where a cap needs that. The times of starts are read only for a rate."""
    counts = "under_way_of_templates" if limits.templates else "under_way"
    found = [(tenant, *counted, ()) for counted in connection.execute(GATE[counts], (tenant,)).fetchall()]
    if limits.has_rate:
        recent = connection.execute(GATE["begun_since"], (tenant, now - MINUTE)).fetchall()
        found += [(tenant, *place, 0, (at,)) for *place, at in recent]
    return loads_of(found)
