"""The simulation: whole workers in one process on virtual time, over a store that fails on purpose, from one seed.

The workers are the real ones. A dead worker is one whose store handle never answers again and whose steps stop where
they are; it is replaced after a while by a new one, as a supervisor would. After the faults have ended, everything must
come to rest, and then the laws are checked: see ``check``.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import random
from collections import Counter
from collections.abc import Coroutine
from typing import Any

from holdfast import Holdfast, RunHandle, WorkerOptions, step_info
from holdfast.errors import RunEnded, RunNotFound
from holdfast.journal.promise import PromiseId
from holdfast.store import protocol as p
from holdfast.testing.virtual import EPOCH_MICROSECONDS, VirtualClock
from holdfast.worker.heart import LoopPulse
from holdfast.worker.performer import StepInfo
from tests.laws.programs import Unlucky, World, play, world
from tests.simulation.faults import Faults, FaultyStore, Graves, Recorder
from tests.simulation.workload import Planner, act, queued

LEASE_SECONDS = 6.0
FAULTY_SECONDS = 60.0
HORIZON_SECONDS = 4000.0

OPTIONS = WorkerOptions(
    capacity=20,
    lease_seconds=LEASE_SECONDS,
    warm_limit=2,
    retention_days=None,
    grace_seconds=5.0,
    crash_limit=1000,
)


class Violation(AssertionError):
    """A law was broken."""


class Nowhere(World):
    """Outside of every process. A step that happens here belongs to no worker, so no law could be checked on it."""

    async def perform(self, key: str, fails: int) -> str:
        raise SystemExit(f"step {key} happened outside of every process")


class Body(World):
    """Where one worker's steps happen."""

    def __init__(self, simulation: Simulation, process: Process) -> None:
        super().__init__()
        self.simulation = simulation
        self.process = process

    async def perform(self, key: str, fails: int) -> str:
        simulation, info = self.simulation, step_info()
        self._may_begin(key, info)
        simulation.begun[info.key] += 1
        simulation.reached["step begun"] += 1
        await asyncio.sleep(simulation.source.choice((0.001, 0.1, 0.5, 2.0)))
        if self.process.store.dead:
            await simulation.graves.rest()
        if info.attempt <= fails:
            raise Unlucky(key)
        simulation.succeeded[info.key] += 1
        return key

    def _may_begin(self, key: str, info: StepInfo) -> None:
        """The laws of an attempt's beginning. SystemExit, because an error would be the step's own failure."""
        store = self.simulation.store
        worker = self.process.app.worker
        if info.key in store.completed:
            raise SystemExit(f"step {key} of run {info.run} began again after its completion was recorded")
        if (info.key, info.attempt) not in store.intended:
            raise SystemExit(f"step {key} of run {info.run} began before its intent was durable")
        key_of, position = p.Key(info.tenant, info.run), PromiseId.parse(info.key).path[-1]
        if worker is None or not store.may_do(worker.id, key_of, position, queued=info.step == queued.name):
            raise SystemExit(f"step {key} of run {info.run} began in a worker that no longer had the lease")


class Process:
    """One worker process. All that it does happens in its own context, so that a step knows where it happens."""

    def __init__(self, simulation: Simulation) -> None:
        loop = asyncio.get_running_loop()
        source = simulation.source
        self.store = FaultyStore(simulation.store, simulation.faults, simulation.reached, simulation.graves, self.die)
        self.simulation = simulation
        self.clock = VirtualClock(loop, source.choice((0.0, 0.0, 2.5, -2.5)))
        self.app = Holdfast(
            self.store,  # type: ignore[arg-type]  # every operation is forwarded by name
            clock=self.clock,
            entropy=random.Random(source.random()),
            options=OPTIONS,
            pulse=LoopPulse,
            workflows=[act, play],
        )

        self._context = contextvars.copy_context()
        self._context.run(world.set, Body(simulation, self))

    async def inside(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do something in this process, as its own code would: what that begins, begins there."""
        await asyncio.get_running_loop().create_task(work, context=self._context)

    def die(self) -> None:
        self.store.dead = True
        self.simulation.reached["worker died"] += 1
        self.simulation.replace(self)


class Simulation:
    """Everything that one seed decides."""

    def __init__(self, seed: int, steps: int = 3) -> None:
        self.seed = seed
        self.source = random.Random(seed)
        self.faults = Faults(self.source)
        self.reached: Counter[str] = Counter()
        self.graves = Graves()
        self.begun: Counter[str] = Counter()
        self.succeeded: Counter[str] = Counter()
        self.processes: list[Process] = []
        self.tasks: set[asyncio.Task[Any]] = set()
        self.size = steps
        self.handles: list[RunHandle[Any]] = []
        self.accepted: dict[tuple[str, str], list[str]] = {}
        self._numbers = itertools.count(1)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        world.set(Nowhere())
        self.store = Recorder(lambda: EPOCH_MICROSECONDS + round(loop.time() * 1e6))
        await self.store.open()
        self.client = Holdfast(
            self.store, worker=False, clock=VirtualClock(loop), entropy=random.Random(self.seed), workflows=[act, play]
        )
        await self.client.open()
        for _ in range(self.source.choice((1, 2, 3))):
            self.spawn(self._boot(0.0))
        await asyncio.sleep(0.01)
        self._start_runs()
        self.spawn(self._disturb())
        await asyncio.sleep(FAULTY_SECONDS)
        await self._heal()
        await self._come_to_rest()

    def spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    # -- processes -------------------------------------------------------------------------------------------------

    async def _boot(self, delay: float) -> None:
        await asyncio.sleep(delay)
        process = Process(self)
        self.processes.append(process)
        await process.inside(process.app.open())

    def replace(self, process: Process) -> None:
        if process in self.processes:
            self.processes.remove(process)
        self.spawn(self._boot(self.source.uniform(0.1, 10)))

    # -- what the outside does -------------------------------------------------------------------------------------

    def _start_runs(self) -> None:
        names = [f"run-{number}" for number in range(self.source.randint(1, 4))]
        for name in names:
            plan = Planner(self.source, f"{name}:", names).plan(self.size)
            self.spawn(self._start(name, plan))

    async def _start(self, name: str, plan: Any) -> None:
        """Started by the client, or through a worker's process, which may die of it: then it is tried again."""
        await asyncio.sleep(self.source.choice((0.0, 0.0, 1.0, 20.0)))
        priority = self.source.choice((0, 0, 5))
        if self.processes and self.source.random() < 0.5:
            process = self.source.choice(self.processes)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(15):
                    await process.inside(process.app.start(act, plan, id=name, priority=priority))
        self.handles.append(await self.client.start(act, plan, id=name, priority=priority))

    async def _disturb(self) -> None:
        """Signals, cancellations, pauses, frozen processes and sudden deaths."""
        source = self.source
        while not self.faults.healed:
            await asyncio.sleep(source.expovariate(0.4))
            if not self.handles:
                continue
            handle = source.choice(self.handles)
            roll = source.random()
            with contextlib.suppress(RunEnded, RunNotFound):
                if roll < 0.5:
                    await self._signal(handle, source.choice(("left", "right")))
                elif roll < 0.55:
                    await handle.cancel("the simulation says so")
                    self.reached["cancel"] += 1
                elif roll < 0.65:
                    await handle.pause("the simulation says so")
                    self.reached["pause"] += 1
                elif roll < 0.8:
                    await handle.resume()
                elif roll < 0.9 and self.processes:
                    process = source.choice(self.processes)
                    process.store.frozen_until = asyncio.get_running_loop().time() + source.uniform(1, 20)
                    self.reached["frozen"] += 1
                elif self.processes:
                    self.reached["killed"] += 1
                    source.choice(self.processes).die()

    async def _signal(self, handle: RunHandle[Any], name: str) -> None:
        """Each signal says something else, so that none can be lost or doubled unseen."""
        text = f"signal {next(self._numbers)}"
        await handle.signal(name, text)
        self.accepted.setdefault((handle.id, name), []).append(text)

    # -- the end ---------------------------------------------------------------------------------------------------

    async def _heal(self) -> None:
        self.faults.healed = True
        for process in self.processes:
            process.store.frozen_until = 0.0
        if not self.processes:
            await self._boot(0.0)

    async def _come_to_rest(self) -> None:
        """Send what is waited for until every run has ended."""
        deadline = asyncio.get_running_loop().time() + HORIZON_SECONDS
        while asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(5)
            open_runs = [run async for run in self.client.list() if run.standing not in p.ENDED]
            if not open_runs and len(self.handles) and not self._starting():
                return
            for run in open_runs:
                await self._nudge(run)
        stuck = [f"{run.key.run}: {await self.client.run(run.key.run).explain()}" for run in open_runs]
        raise Violation(f"{len(open_runs)} runs do not end: {stuck}")

    def _starting(self) -> bool:
        return any(task.get_coro().__name__ == "_start" for task in self.tasks)  # type: ignore[union-attr]

    async def _nudge(self, run: p.Run) -> None:
        handle = self.client.run(run.key.run)
        if run.pause is not None and run.pause != "the simulation says so":
            raise Violation(f"run {run.key.run} was parked: {run.pause}")
        with contextlib.suppress(RunEnded, RunNotFound):
            if run.pause is not None:
                await handle.resume()
            for name in ("left", "right"):
                await self._signal(handle, name)
