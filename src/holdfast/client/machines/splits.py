"""Splitting the lanes of a machine: each is divided among new ones, while events come and are handled.

One commit sends what comes from then on to the new lanes, in whose inboxes it waits; and orders the old ones to hand
their cells over, which they do in turns of their own. So nothing is lost or overtaken, whoever dies when.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.client.items import Change, change_item, found
from holdfast.client.machines.blockers import MOST_LANES
from holdfast.errors import EngineError, InvalidRequest
from holdfast.lanes.counts import LANE_COUNT, LaneCounts, LaneSplit, LaneTable, read_table
from holdfast.programs.machine.lanes.envelopes import SplitOrder
from holdfast.programs.machine.machine import Machine
from holdfast.runs.lanes import LaneMessage, lane_id, lane_start
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

SPLIT: Final = "split_lanes"
"""The audit's word for it."""


async def split_lanes(
    app: Holdfast, machine: Machine[Any], lanes: int, tenant: str, by: str | None, reason: str
) -> None:
    """See ``AppMachines.split``."""
    if not machine.is_keyed:
        raise InvalidRequest(f"machine {machine.name} has one cell, and no keys: its lane cannot be split")
    name, counts = machine.name, LaneCounts(app.whole_store, app.clock, app.machine_kind.counted)
    await counts.confirm(tenant, {name: machine.lanes})
    engine = app if app.binding is None else app.binding.engine

    async def change(present: p.ItemRow | None) -> Change:
        missing = EngineError(f"the number of lanes of machine {name} in tenant {tenant} is gone")
        table = read_table(found(present, missing))
        _check(name, table, lanes)
        old = range(table.first, table.total)
        heirs = range(table.total, table.total + lanes)
        await _check_rest(app, tenant, name, old)
        now = app.clock.now()
        starts = [lane_start(tenant, name, index, now, is_heir=table.first > 0) for index in old]
        starts += [lane_start(tenant, name, index, now, is_heir=True) for index in heirs]
        await asyncio.gather(*map(engine.committer.commit, starts))
        after = msgspec.structs.replace(table, splits=(*table.splits, LaneSplit(lanes, now)))
        details = {"machine": name, "before": str(table.in_force), "lanes": str(lanes)}
        return Change(msgspec.json.encode(after), details=details, beside=_acts(tenant, name, table, lanes, now))

    await change_item(app, p.ItemKey(tenant, LANE_COUNT, name), SPLIT, change, by=by, reason=reason)


def _check(machine: str, table: LaneTable, lanes: int) -> None:
    present = table.in_force
    if type(lanes) is not int or lanes <= present or lanes % present:
        raise InvalidRequest(
            f"machine {machine} has {present} lanes: they are split into a multiple of that, such as {2 * present}, "
            f"not {lanes!r:.40}"
        )
    if table.total + lanes > MOST_LANES:
        raise InvalidRequest(
            f"with {lanes:,} lanes more, those that were split included, machine {machine} would have "
            f"{table.total + lanes:,}, and the limit is {MOST_LANES:,}: name a smaller number"
        )


async def _check_rest(app: Holdfast, tenant: str, machine: str, lanes: range) -> None:
    runs = await app.whole_store.get([p.Key(tenant, lane_id(machine, index)) for index in lanes])
    if any(run.split == p.INHERITS for run in runs):
        raise InvalidRequest(
            f"the lanes of machine {machine} are being split already: `holdfast machines show {machine}` shows how far "
            "that is; split them again when it is done"
        )


def _acts(tenant: str, machine: str, table: LaneTable, lanes: int, now: int) -> list[p.Act]:
    """What the commit of a split does: from then on the new lanes get what comes."""
    first, each = table.total, lanes // table.in_force
    acts: list[p.Act] = []
    for number, index in enumerate(range(table.first, table.total)):
        heirs = first + number * each
        order = LaneMessage(machine, index, SplitOrder(first, lanes, heirs, heirs + each).write())
        deliver = order.deliver(tenant, now)
        acts += [deliver, p.MarkSplit(deliver.key, p.split_mark(first, lanes))]
    heirs_of_all = (p.Key(tenant, lane_id(machine, index)) for index in range(first, first + lanes))
    return [*acts, *(p.MarkSplit(key, p.INHERITS) for key in heirs_of_all)]
