"""The number of a machine's lanes is settled by its first event; a process that declares another one is refused."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.errors import InvalidFunction
from holdfast.programs.machine.handle import Cell
from holdfast.programs.machine.kind import Machines
from holdfast.programs.machine.machine import Machine
from holdfast.programs.machine.manifest import MachineLimits
from holdfast.runs.lanes import lane_id
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.testing.virtual import VirtualClock, run_virtually
from holdfast.worker.presence.heart import LoopPulse
from tests.unit.worker.ground import OPTIONS


@dataclass
class Rung:
    bell: str


@dataclass
class Echoed:
    bell: str


@dataclass
class Bell:
    count: int = 0


def _bell(lanes: int) -> Machine[Bell]:
    def bell(state: Bell | None, event: Rung, cell: Cell) -> Bell | None:
        cell.emit(Echoed(event.bell))
        return Bell((state or Bell()).count + 1)

    return Machine(
        bell,
        name="bell",
        key="bell",
        effects=(),
        emits=[Echoed],
        version=1,
        lanes=lanes,
        limits=MachineLimits(),
        migrate=None,
    )


def _echo(lanes: int) -> Machine[Bell]:
    def echo(state: Bell | None, event: Echoed, cell: Cell) -> Bell | None:
        return Bell((state or Bell()).count + 1)

    return Machine(
        echo,
        name="echo",
        key="bell",
        effects=(),
        emits=(),
        version=1,
        lanes=lanes,
        limits=MachineLimits(),
        migrate=None,
    )


async def _engine(store: p.Store, clock: VirtualClock, *machines: Machine[Any]) -> Holdfast:
    app = Holdfast(store, clock=clock, entropy=random.Random(1), pulse=LoopPulse, options=OPTIONS)  # type: ignore[arg-type]
    kind = Machines({each.name: each for each in machines})
    app.machine_kind.machines = kind.machines
    app.machine_kind.board = kind.board
    await app.open()
    return app


def test_another_number_of_lanes_is_refused_once_events_came() -> None:
    """Both where an event is sent and where a cell is read: its key would lead to another lane."""

    async def check() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        store = MemoryStore(clock.now)
        app = await _engine(store, clock, _bell(4), _echo(4))
        place = (await app.machines.send(Rung("b1"))).places[0]
        assert await app.machines.cell("bell", "b1").state(after=place) == Bell(1)
        await app.close()
        other = await _engine(store, clock, _bell(8), _echo(4))
        with pytest.raises(InvalidFunction, match=r"lanes=8, .* over 4 lanes.* Declare lanes=4 again"):
            await other.machines.send(Rung("b1"))
        with pytest.raises(InvalidFunction, match="lanes=8"):
            await other.machines.cell("bell", "b1").state()
        await other.close()
        same = await _engine(store, clock, _bell(4), _echo(4))
        place = (await same.machines.send(Rung("b1"))).places[0]
        assert await same.machines.cell("bell", "b1").state(after=place) == Bell(2)
        await same.close()

    run_virtually(check())


def test_a_lane_does_not_emit_to_a_machine_whose_number_changed() -> None:
    """Its event waits in its lane, which is parked with the reason, and no lane of the other machine is begun."""

    async def check() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        store = MemoryStore(clock.now)
        app = await _engine(store, clock, _bell(1), _echo(1))
        place = (await app.machines.send(Rung("b1"))).places[0]
        await app.machines.cell("bell", "b1").state(after=place)
        await app.close()
        other = await _engine(store, clock, _bell(1), _echo(9))
        await other.machines.send(Rung("b2"))
        lane = p.Key("default", lane_id("bell", 0))
        while (await store.get([lane]))[0].pause is None:
            await other.changed(0.1)
        assert "lanes=9" in ((await store.get([lane]))[0].pause or "")
        assert [run.key.run for run in await store.find(p.Query("default", workflow="echo"), 10)] == [
            lane_id("echo", 0)
        ]
        await other.close()

    run_virtually(check())
