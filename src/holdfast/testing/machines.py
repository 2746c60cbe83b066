"""An engine for tests of machines: the real one, on virtual time, in memory, in one process.

``machine_engine`` is used inside ``run_virtually``. Send events, let time pass, and look at cells:

    async def main() -> None:
        async with machine_engine([order]) as engine:
            await engine.send(Placed("o1", 500))
            await engine.rest()
            assert (await engine.state(order, "o1")).stage == "paid"

    run_virtually(main())

A transition alone needs no engine: ``order.step(state, event)``.
"""

from __future__ import annotations

import asyncio
import datetime
import random
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from holdfast.cells.cell import CellRecord, decode_cell
from holdfast.client.engine import Holdfast
from holdfast.client.machines.sender import SentEvent
from holdfast.gate.policy.policy import Policy
from holdfast.programs.function.registry import Registry
from holdfast.programs.machine.kind import Machines
from holdfast.programs.machine.lanes.held_events import in_flight
from holdfast.programs.machine.machine import MACHINES, Machine
from holdfast.runs.lanes import is_lane, lane_id
from holdfast.store import protocol as p
from holdfast.testing.engine import PATIENT, OnTheSpot, PunctualStore, calm_pulse, calmly, virtual_clock
from holdfast.worker.options import WorkerOptions

S = TypeVar("S")

PATIENCE: Final = datetime.timedelta(hours=1)
"""How much virtual time may pass until everything is handled."""

_LOOK_SECONDS: Final = 0.01
_PAGE: Final = 1000


class _MachineApp(Holdfast):
    """An engine that has only the machines that it was given."""

    only: Iterable[Machine[Any]] | None = None

    @cached_property
    def machine_kind(self) -> Machines:
        return Machines(MACHINES if self.only is None else Registry("machine", list(self.only)))


class MachineEngine:
    """An engine with machines, for a test. ``app`` is the engine itself, with all that an engine can do."""

    def __init__(self, make: Callable[[], Holdfast]) -> None:
        self._make = make
        self._open = AsyncExitStack()
        self.app: Holdfast

    async def start(self) -> None:
        """Open the engine. ``machine_engine`` does it."""
        self.app = self._make()
        await self._open.enter_async_context(calmly(self.app))

    async def stop(self) -> None:
        """Close the engine. What it has in its store stays there."""
        await self._open.aclose()

    async def restart(self) -> None:
        """End this engine, and begin another one on what the first has kept: as after a new deployment."""
        await self.stop()
        await self.start()

    async def send(self, *events: Any, id: str | None = None) -> SentEvent:
        """Send events, in this order. All are handled when this returns; what their cells ask for may be under way.

        ``id`` is that of a single event: sent again with it, it is not handled again. Gives what was sent last.
        """
        sent = [await self.app.machines.send(event, id=id) for event in events]
        for each in sent:
            for place in each.places:
                if place.position is not None:
                    await self._handled(each.tenant, place.machine, place.lane, place.position)
        return sent[-1]

    async def pass_time(self, time: datetime.timedelta) -> None:
        """Let so much virtual time pass. Timers that come in it are handled."""
        await asyncio.sleep(time.total_seconds())

    async def rest(self, patience: datetime.timedelta = PATIENCE) -> None:
        """Wait until every event is handled and no effect is under way. Timers of cells are not waited for.

        Raises TimeoutError where that takes longer than ``patience``, in virtual time.
        """
        async with asyncio.timeout(patience.total_seconds()):
            while await self._is_busy():  # noqa: ASYNC110  # virtual time: looking again costs nothing
                await asyncio.sleep(_LOOK_SECONDS)

    async def state(self, machine: Machine[S], key: Any = None) -> S | None:
        """The state of a cell; None where there is none."""
        return await self.app.cell(machine, key).state()

    async def record(self, machine: Machine[Any], key: Any = None) -> CellRecord | None:
        """All that is kept of a cell: its status and reason, what it waits for, its timers."""
        return await self.app.cell(machine, key).record()

    async def dead_letters(self) -> list[p.DeadRow]:
        """The events that no cell could handle."""
        return await self.app.store.dead_letters(self._tenant, _PAGE)

    @property
    def _tenant(self) -> str:
        return self.app.tenant_of(None)

    async def _handled(self, tenant: str, machine: str, lane: int, position: int) -> None:
        async with asyncio.timeout(PATIENCE.total_seconds()):
            while True:
                (run,) = await self.app.store.get([p.Key(tenant, lane_id(machine, lane))])
                if run.consumed >= position:
                    return
                await asyncio.sleep(_LOOK_SECONDS)

    async def _is_busy(self) -> bool:
        runs = await self.app.store.find(p.Query(self._tenant), _PAGE)
        if any(is_lane(run.key.run) and run.arrived > run.consumed for run in runs):
            return True
        for machine in self.app.machines:
            rows = await self.app.store.find_cells(p.CellQuery(self._tenant, machine.name), _PAGE)
            lanes = await self.app.store.get([p.Key(self._tenant, row.lane) for row in rows])
            roots = {run.key.run: run.root for run in lanes}
            if any(in_flight(decode_cell(row.record), roots[row.lane]) for row in rows):
                return True
        return False


@asynccontextmanager
async def machine_engine(
    machines: Sequence[Machine[Any]] | None = None,
    *,
    seed: int = 0,
    options: WorkerOptions = PATIENT,
    policy: str | Path | Policy | None = None,
    store: p.Store | None = None,
) -> AsyncIterator[MachineEngine]:
    """An engine with these machines and a worker on the running virtual loop; by default with all that are imported.

    The same seed gives the same ids and the same randomness. ``store`` is one of yours, instead of one in memory.
    Raises InvalidRequest on a loop whose time is real.
    """
    clock = virtual_clock()
    kept = store or PunctualStore(clock)

    def make() -> Holdfast:
        app = _MachineApp(
            kept,
            clock=clock,
            entropy=random.Random(seed),
            options=msgspec.structs.replace(options, declared_schedules=False),
            pulse=calm_pulse,
            threads=OnTheSpot(),
            policy=policy,
        )
        app.only = machines
        return app

    engine = MachineEngine(make)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()
