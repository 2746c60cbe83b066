"""Forking a machine: its cells, from roots of its lanes, begin again in another tenant or on another engine.

Each cell is sent to its lane there as an event of its own, so the journals there tell where the cells come from, and
can be replayed and verified like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.cells.tree import key_hash
from holdfast.client.operators import operator_note
from holdfast.client.people.permission import judged_now
from holdfast.errors import EngineError, InvalidRequest, TenantNotFound
from holdfast.journal import events as e
from holdfast.lanes.counts import LaneCounts
from holdfast.lanes.roots import RootContent, make_root, read_cells
from holdfast.programs.machine.lanes.envelopes import Adoption, HeldPart, is_order
from holdfast.programs.machine.machine import Machine
from holdfast.runs.journals import check_chain
from holdfast.runs.lanes import LANE_HEIR, LaneMessage, lane_id, lane_of, lane_start, place_of, read_start
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

_AT_ONCE: Final = 500
_PART_BYTES: Final = 1 << 16
_ROOTS: Final = 1000
_TRIES: Final = 20
_LOOK_SECONDS: Final = 0.05


class ForkedMachine(msgspec.Struct, frozen=True):
    """A machine whose cells were copied: how many, whereto, and from which version of each lane."""

    machine: str
    tenant: str
    cells: int
    versions: dict[str, int]


async def fork_machine(
    app: Holdfast, machine: Machine[Any], into: str | Holdfast, at: datetime | None, tenant: str, by: str | None
) -> ForkedMachine:
    """See ``AppMachines.fork``. Raises TenantNotFound for another's tenant."""
    if app.binding is not None and judged_now(app.binding).caller.tenant != tenant:
        raise TenantNotFound(f"there is no tenant {tenant!r} for you: leave the tenant out.")
    target, owner = (app, into) if isinstance(into, str) else (into, tenant)
    target.check_open()
    if target.whole_store is app.whole_store and owner == tenant:
        raise InvalidRequest("a machine is forked into another tenant, or into another engine: name one")
    there = target.machine_kind.machines.get(machine.name)
    if there is None:
        raise InvalidRequest(f"the other engine has no machine {machine.name!r}: import the module that has it")
    if await target.whole_store.count_cells(owner, machine.name):
        raise InvalidRequest(f"machine {machine.name} has cells in tenant {owner} already: fork it into an empty one")
    roots = await _roots(app, machine.name, tenant, at)
    await LaneCounts(target.whole_store, target.clock).confirm(owner, {machine.name: there.lanes})
    count, ends = 0, dict[p.Key, int]()
    for root in roots:
        source = f"{root.lane} of tenant {tenant}, version {root.version}"
        content = await read_cells(app.whole_store, root.key, root.root)
        for lane, position in (await _deliver(target, owner, there, content, source)).items():
            ends[lane] = max(position, ends.get(lane, 0))
        count += len(content.cells)
    await _note(target, owner, machine.name, tenant, count, by)
    if target.worker is not None:
        await _taken_in(target, ends)
    return ForkedMachine(machine.name, owner, count, {root.lane: root.version for root in roots})


async def _roots(app: Holdfast, machine: str, tenant: str, at: datetime | None) -> list[p.RootRow]:
    """The root of each lane that has cells: of now, or the last one of that time."""
    store, found = app.whole_store, []
    table = await LaneCounts(store, app.clock).table(tenant, machine)
    if table is None:
        return []
    lanes = range(table.total) if at is None else table.lanes_at(_moment(at))
    for run in await store.get([p.Key(tenant, lane_id(machine, index)) for index in lanes]):
        if run.split == p.INHERITS:
            raise InvalidRequest(f"the lanes of machine {machine} are being split: fork it when they have their cells")
        root = await _present(app, run.key) if at is None else await _past(store, run, _moment(at))
        if root is not None:
            found.append(root)
    return found


async def _present(app: Holdfast, lane: p.Key) -> p.RootRow | None:
    for _ in range(_TRIES):
        made = await make_root(app.whole_store, app.clock, lane)
        if made is not None or not await app.whole_store.roots(lane, 1):
            return made
    raise EngineError(f"no root of {lane.run} could be made: others made them as fast")


def _moment(at: datetime) -> int:
    if at.tzinfo is None:
        raise InvalidRequest("a time without a time zone means another one for everybody: give at= one")
    return round(at.timestamp() * 1e6)


async def _past(store: p.Store, run: p.Run, moment: int) -> p.RootRow | None:
    kept = await store.roots(run.key, _ROOTS)
    inherited = await _inherited_at(store, run)
    for root in kept:
        if inherited <= root.at <= moment:
            return root
    if run.created_at > moment or (inherited and not kept):
        return None
    since = f"the first is of {kept[-1].at} µs since 1970" if kept else "there is none yet"
    raise InvalidRequest(f"no root of {run.key.run} is kept from that time ({since}): name a later time, or none")


async def _inherited_at(store: p.Store, run: p.Run) -> int:
    """When a lane had all cells of the one that was split; 0 for a lane that inherits nothing."""
    async for entry in check_chain(store, run):
        event = entry.event
        if isinstance(event, e.ExecutionStarted) and not read_start(event.input)[1]:
            return 0
        if isinstance(event, e.SignalReceived) and event.signal_name == LANE_HEIR and is_order(event.payload.data):
            return entry.timestamp
    return run.created_at


async def _deliver(
    target: Holdfast, tenant: str, machine: Machine[Any], content: RootContent, source: str
) -> dict[p.Key, int]:
    """Send cells to their lanes, behind what is held for them; gives the last position in each lane's inbox."""

    def letter(key: bytes, what: Adoption | HeldPart, number: str = "") -> LaneMessage:
        lane, name = lane_of(key, machine.lanes), f"fork:{key_hash(key).hex()}{number}"
        return LaneMessage(machine.name, lane, what.write(), name, place_of(key))

    parts = [
        letter(key, part, f":{part.first}") for key in content.cells for part in _parts(key, content.held.get(key, {}))
    ]
    cells = [letter(key, Adoption(key, record, source)) for key, record in content.cells.items()]
    now, ends = target.clock.now(), dict[p.Key, int]()
    for lane in sorted({each.lane for each in cells}):
        await target.committer.commit(lane_start(tenant, machine.name, lane, now))
    for letters in (parts, cells):
        await _send(target, tenant, letters, now, ends)
    for lane_key in ends:
        target.delivered(lane_key)
    return ends


async def _send(
    target: Holdfast, tenant: str, letters: Sequence[LaneMessage], now: int, ends: dict[p.Key, int]
) -> None:
    for first in range(0, len(letters), _AT_ONCE):
        changes = [letter.deliver(tenant, now) for letter in letters[first : first + _AT_ONCE]]
        answers = await asyncio.gather(*map(target.committer.commit, changes))
        for change, answer in zip(changes, answers, strict=True):
            if not isinstance(answer, p.Delivered | p.Repeated):
                raise EngineError(f"a cell for {change.key.run} was answered {answer!r}")
            if isinstance(answer, p.Delivered):
                lane_key = change.key if answer.heir is None else p.Key(tenant, answer.heir)
                ends[lane_key] = max(answer.position, ends.get(lane_key, 0))


def _parts(key: bytes, held: Mapping[int, bytes]) -> list[HeldPart]:
    """What is held for a cell, as its lane there hears it."""
    parts: list[HeldPart] = []
    size = _PART_BYTES
    for number in sorted(held):
        if size >= _PART_BYTES:
            parts.append(HeldPart(key, number, []))
            size = 0
        parts[-1].events.append(held[number])
        size += len(held[number])
    return parts


async def _note(target: Holdfast, tenant: str, machine: str, source: str, count: int, by: str | None) -> None:
    details = {"machine": machine, "from": source, "cells": str(count)}
    await target.committer.commit(operator_note(target, tenant, "fork_cells", by, None, "", details))
    target.wake_sealer()


async def _taken_in(target: Holdfast, ends: Mapping[p.Key, int]) -> None:
    for lane, position in ends.items():
        while True:
            (run,) = await target.whole_store.get([lane])
            if run.consumed >= position or run.pause is not None:
                break
            await asyncio.sleep(_LOOK_SECONDS)
