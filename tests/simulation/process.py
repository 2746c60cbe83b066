"""One worker's process in the simulation, and where its steps and acts happen."""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast import Holdfast, OutcomeUnknown, TerminalError, WorkerOptions, step_info
from holdfast.journal.promise import PromiseId
from holdfast.programs.function.actions import Action
from holdfast.programs.function.decorators import STEPS
from holdfast.programs.machine.kind import Machines
from holdfast.store import protocol as p
from holdfast.testing.virtual import VirtualClock
from holdfast.worker.presence.heart import LoopPulse
from holdfast.worker.steps.performance import StepInfo, _current
from tests.laws.programs import Unlucky, World, play, world
from tests.simulation.broken import Broken
from tests.simulation.faults import FaultyStore
from tests.simulation.gated import DEPLOYED
from tests.simulation.outside import Deed
from tests.simulation.rules import POLICIES
from tests.simulation.workload import QUEUE, act, queued
from tests.strands import strands

if TYPE_CHECKING:
    from tests.simulation.world import Simulation

LEASE_SECONDS: Final = 6.0
LARGE: Final = 40_000
"""A result of this many characters does not fit into a receipt."""

OPTIONS = WorkerOptions(
    queues={QUEUE: 2},  # not those that other tests in this process have declared
    capacity=20,
    lease_seconds=LEASE_SECONDS,
    warm_limit=2,
    retention_days=None,
    grace_seconds=5.0,
    crash_limit=1000,
    checkpoint_events=7,
)


class Nowhere(World):
    """Outside every process. A step here belongs to no worker, so no law could be checked on it."""

    async def perform(self, key: str, fails: int) -> str:
        raise Broken(f"step {key} happened outside every process")


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

    async def act(self, action: Action[..., Any], arguments: dict[str, Any], lane: str, manner: str) -> str:
        """Act on the outside, in the manner that the plan says. The process may die before or after the act is done."""
        simulation, process = self.simulation, self.process
        loop, source = asyncio.get_running_loop(), simulation.source
        if process.store.dead:
            await simulation.graves.rest()
        performance = _current("an act")
        self._may_begin(f"act {action.name}", msgspec.structs.replace(step_info(), key=performance.name))
        deed = simulation.outside.begin(process, action, arguments, performance, process.rules.lanes[lane], loop.time())
        simulation.reached[f"act begun: {manner}"] += 1
        await asyncio.sleep(source.uniform(7, 25) if manner == "slow" else source.choice((0.001, 0.1, 0.5, 2.0)))
        if process.store.dead or simulation.faults.happens(simulation.faults.die_acting):
            await self._end_here("died before an act was done")
        deed.ended = loop.time()
        self._fail(deed, manner, performance.attempt)
        deed.result = f"{deed.place[1]} by act {deed.number}" + ("." * LARGE if manner == "large" else "")
        if simulation.faults.happens(simulation.faults.die_acting):
            await self._end_here("died after an act was done")
        if manner == "lost" and simulation.outside.is_first(deed):
            raise OutcomeUnknown("no answer came")
        return deed.result

    async def _end_here(self, how: str) -> None:
        if not self.process.store.dead:
            self.simulation.reached[how] += 1
            self.process.die()
        await self.simulation.graves.rest()

    def _fail(self, deed: Deed, manner: str, attempt: int) -> None:
        """Raise what the manner says: then the act is not done."""
        if manner.startswith("fails") and attempt <= int(manner.split()[1]):
            raise Unlucky(manner)
        if manner == "terminal" or (manner == "terminal once" and self.simulation.outside.is_first(deed)):
            raise TerminalError("it never works")
        if manner == "silent" and self.simulation.outside.is_first(deed):
            raise TimeoutError("nobody answered")

    async def look(self, action: Action[..., Any], name: str) -> str | None:
        """A probe: look up what was done under this name."""
        if self.process.store.dead:
            await self.simulation.graves.rest()
        key = action.proposal_of({"name": name, "lane": "", "manner": ""}, _current("a probe").name).key
        await asyncio.sleep(self.simulation.source.choice((0.001, 0.1, 2.0)))
        self.simulation.reached["probed"] += 1
        self.simulation.situations.probed(step_info().tenant, key, _current("a probe").promise)
        if self.simulation.faults.happens(0.1):
            raise Unlucky("the probe")
        return self.simulation.outside.result((step_info().tenant, key))

    def _may_begin(self, key: str, info: StepInfo) -> None:
        """Check the laws that hold when an attempt begins."""
        store = self.simulation.store
        worker = self.process.app.worker
        if info.key in store.completed:
            raise Broken(f"step {key} of run {info.run} began again after its completion was recorded")
        if (info.key, info.attempt) not in store.intended:
            raise Broken(f"step {key} of run {info.run} began before its intent was durable")
        key_of, position = p.Key(info.tenant, info.run), PromiseId.parse(info.key.partition(":")[0]).path[-1]
        if self.simulation.defined and not self._is_asked_for(key_of, position, info):
            raise Broken(f"step {key} of run {info.run} began, and its run waits for it no more (N3)")
        if worker is None or not store.may_do(worker.id, key_of, position, queued=info.step == queued.name):
            raise Broken(f"step {key} of run {info.run} began in a worker that no longer had the lease")

    def _is_asked_for(self, run: p.Key, position: int, info: StepInfo) -> bool:
        """Whether the run that this worker holds waits for the call, or has only just given it up.

        Work from a queue may be of anybody's run.
        """
        worker = self.process.app.worker
        held = None if worker is None else worker.advancer.held.get(run)
        if held is None or held.committing or info.step == queued.name:
            return True
        return any(position in (wait.position, wait.place) for wait in held.live.waits())


class Process:
    """One worker process. Everything in it runs in its own context, so that a step knows its process."""

    def __init__(self, simulation: Simulation) -> None:
        loop = asyncio.get_running_loop()
        source = simulation.source
        self.store = FaultyStore(simulation.store, simulation.faults, simulation.reached, simulation.graves, self.die)
        self.simulation = simulation
        # No two clocks agree to the microsecond: else two decisions of two workers could be the same record by chance.
        self.clock = VirtualClock(loop, source.choice((0.0, 0.0, 2.5, -2.5)) + 1e-6 * len(simulation.lives))
        self.rules = simulation.rules_of_a_process()
        self.born = loop.time()
        self.died: float | None = None
        simulation.lives.append(self)
        self.app = Holdfast(
            self.store,  # type: ignore[arg-type]  # every operation is forwarded by name
            clock=self.clock,
            entropy=random.Random(source.random()),
            options=OPTIONS,
            pulse=LoopPulse,
            workflows=[act, play, strands],
            policy=POLICIES[self.rules.name] if simulation.governed else None,
        )
        self.app.machine_kind = Machines({})  # whatever machines other tests have declared
        self.is_deployed = simulation.governed and source.random() < simulation.deployed
        if self.is_deployed:
            assert self.app.definitions is not None  # made now: they go on with the code that every process has
            self.app._steps = {**STEPS, **DEPLOYED}
        self._context = contextvars.copy_context()
        self._context.run(world.set, Body(simulation, self))

    def ended_before(self, time: float) -> bool:
        return self.died is not None and self.died < time

    async def inside(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run something in this process, as its own code would: what it begins belongs to this process."""
        await asyncio.get_running_loop().create_task(work, context=self._context)

    def die(self) -> None:
        self.store.dead = True
        self.died = asyncio.get_running_loop().time()
        self.simulation.reached["worker died"] += 1
        self.simulation.replace(self)
