"""How the lanes of a machine stand: how many have begun, which are paused, and how far a split is."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.lanes.counts import LaneCounts, LaneTable
from holdfast.programs.machine.machine import Machine
from holdfast.runs.clock import Clock
from holdfast.runs.lanes import lane_id, parse_lane
from holdfast.store import protocol as p

_PAGE: Final = 500
_MOST: Final = 10_000
"""So many cells that are not handed over are counted."""


class LaneStanding(msgspec.Struct, frozen=True):
    """See ``MachineInfo``."""

    lanes: int
    begun: int
    paused: dict[str, str]
    moving: int = 0
    unmoved: int = 0
    forwarding: int = 0


async def lane_standing(store: p.Store, clock: Clock, machine: Machine[Any], tenant: str) -> LaneStanding:
    """How a tenant's lanes of a machine stand now."""
    table = await LaneCounts(store, clock).table(tenant, machine.name) or LaneTable(machine.lanes)
    runs = await store.get([p.Key(tenant, lane_id(machine.name, index)) for index in range(table.total)])
    paused = {run.key.run: run.pause for run in runs if run.pause is not None}
    begun = sum((parse_lane(run.key.run) or ("", 0))[1] >= table.first for run in runs)
    if not table.splits:
        return LaneStanding(table.in_force, begun, paused)
    old = [run for run in runs if p.is_split(run.split)]
    moving = sum(run.split == p.INHERITS for run in runs)
    unmoved = await _unmoved(store, machine.name, old) if moving else 0
    forwarding = sum(_waits_for_effects(run) for run in old)
    return LaneStanding(table.in_force, begun, paused, moving, unmoved, forwarding)


def _waits_for_effects(run: p.Run) -> bool:
    """Whether a lane waits for more than messages and timers, or is at work."""
    waits = msgspec.json.decode(run.waiting) if run.waiting else []
    return run.standing == "running" or any(each.get("kind") not in ("receive", "timer") for each in waits)


async def _unmoved(store: p.Store, machine: str, old: list[p.Run]) -> int:
    count = 0
    for run in old:
        after: p.CellCursor | None = p.CellCursor(run.key.run, b"")
        while after is not None and count < _MOST:
            rows = await store.find_cells(p.CellQuery(run.key.tenant, machine), _PAGE, after)
            own = [row for row in rows if row.lane == run.key.run]
            count += len(own)
            after = p.CellCursor(own[-1].lane, own[-1].key) if len(own) == _PAGE else None
    return count
