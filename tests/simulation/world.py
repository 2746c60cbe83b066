"""The simulation: whole workers in one process on virtual time, over a store that fails on purpose, from one seed.

The workers are the real ones. A dead worker is one whose store handle never answers again and whose steps stop where
they are; it is replaced after a while by a new one, as a supervisor would. After the faults have ended, everything must
come to rest, and then the laws are checked: see ``check``.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from holdfast import Holdfast, RunHandle
from holdfast.errors import RunEnded, RunNotFound
from holdfast.programs.definition.interpreter.routine import Routine
from holdfast.runs.signals import keyed
from holdfast.store import protocol as p
from holdfast.testing.virtual import EPOCH_MICROSECONDS, VirtualClock
from tests.definitions import Tools
from tests.laws.programs import play, world
from tests.simulation.defined import KEYS, Definer
from tests.simulation.faults import Faults, Graves
from tests.simulation.lockstep import true_store
from tests.simulation.operators import Operators
from tests.simulation.outside import Outside
from tests.simulation.people import NAMES, People
from tests.simulation.process import Nowhere, Process
from tests.simulation.progress import Progress
from tests.simulation.rules import FEWER, RULES, STEERED_RULES, STRICT, TENANTS, Rules
from tests.simulation.situations import Situations
from tests.simulation.violation import Violation
from tests.simulation.workload import Planner, act
from tests.strands import script, strands

FAULTY_SECONDS = 60.0
HORIZON_SECONDS = 4000.0
REST_LOOKS = 20
STEERED = 100_000
"""From this seed on."""
DEFINED = 2_000_000
"""From this seed on runs are of definitions, steered by people, too."""


def is_governed(seed: int) -> bool:
    """Two seeds in five act on the outside, through the gate."""
    return seed % 5 in (1, 2) or is_steered(seed)


def is_steered(seed: int) -> bool:
    """The high seeds act on the outside for several tenants, and operators retry, fork and reverse."""
    return seed >= STEERED


def is_defined(seed: int) -> bool:
    """The highest seeds run definitions."""
    return seed >= DEFINED


class Simulation:
    """Everything that one seed decides."""

    def __init__(self, seed: int, steps: int = 3) -> None:
        self.seed = seed
        self.source = random.Random(seed)
        self.faults = Faults(self.source)
        self.reached: Counter[str] = Counter()
        self.graves = Graves()
        self.situations = Situations(self)
        self.begun: Counter[str] = Counter()
        self.succeeded: Counter[str] = Counter()
        self.processes: list[Process] = []
        self.tasks: set[asyncio.Task[Any]] = set()
        self.size = steps
        self.handles: list[RunHandle[Any]] = []
        self.troubles: list[BaseException] = []  # errors of clients and people
        self.lives: list[Process] = []  # every process that there was
        self.accepted: dict[tuple[p.Key, str], list[str]] = {}
        self._numbers = itertools.count(1)
        self.governed = is_governed(seed)
        self.steered = is_steered(seed)
        self.defined = is_defined(seed)
        self.routines: dict[str, Routine] = {}  # of definitions, by name
        self.tenants = TENANTS[: self.source.choice((1, 2, 3))] if self.steered else TENANTS[:1]
        chosen = STEERED_RULES if self.steered else RULES
        self.rules = self.source.choice(chosen) if self.governed else RULES[0]
        self.rolling = self.source.choice((0.0, 0.0, 0.5)) if self.governed else 0.0
        self.deployed = self.source.choice((0.0, 0.0, 0.5)) if self.governed else 0.0
        if self.governed:
            self.faults.govern()

    async def run(self) -> None:
        self.loop = loop = asyncio.get_running_loop()
        world.set(Nowhere())
        self.store = true_store(lambda: EPOCH_MICROSECONDS + round(loop.time() * 1e6))
        self.chronicle = self.store.chronicled(self.rules)
        self.store.situations = self.situations
        self.outside = Outside(self.chronicle)
        self.people = People(self)
        self.operators = Operators(self)
        await self.store.open()
        self.client = Holdfast(
            self.store,
            worker=False,
            clock=VirtualClock(loop),
            entropy=random.Random(self.seed),
            workflows=[act, play, strands],
        )
        await self.client.open()
        for _ in range(self.source.choice((1, 2, 3))):
            self.spawn(self.boot(0.0))
        await asyncio.sleep(0.01)
        self._start_runs()
        self.spawn(self._disturb())
        if self.governed:
            self.spawn(self.people.live())
        if self.steered:
            for _ in range(self.source.choice((1, 2))):
                self.spawn(self.operators.live())
        await asyncio.sleep(FAULTY_SECONDS)
        await self._heal()
        await self._come_to_rest()
        if self.steered:
            await self.operators.last()
            await self._come_to_rest()

    def spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.troubles.append(error)

    def rules_of_a_process(self) -> Rules:
        """The same policy for all processes, or a stricter one for some while it is rolled out."""
        if self.rolling and self.source.random() < self.rolling and self.rules.admits_all:
            return FEWER if self.steered else STRICT
        return self.rules

    # -- processes -------------------------------------------------------------------------------------------------

    async def boot(self, delay: float) -> None:
        await asyncio.sleep(delay)
        process = Process(self)
        self.processes.append(process)
        await process.inside(process.app.open())

    def replace(self, process: Process) -> None:
        if process in self.processes:
            self.processes.remove(process)
        self.spawn(self.boot(self.source.uniform(0.1, 10)))

    # -- what clients do -------------------------------------------------------------------------------------------

    def _start_runs(self) -> None:
        names = [f"run-{number}" for number in range(self.source.randint(1, 4))]
        if self.defined:
            self._start_definitions(names)
            return
        for name in names:
            plan = self._plan(name, names)
            for tenant in self.tenants:
                self.spawn(self._start(name, plan, tenant))
                if self.steered and self.source.random() < 0.5:
                    plan = self._plan(name, names)
        if not self.governed and not self.steered:
            source = random.Random(f"strands of {self.seed}")
            for name in [f"strands-{number}" for number in range(source.randint(0, 2))]:
                played = script(source, 10, prefix=f"{name}:", again=source.random() < 0.2)
                self.spawn(self._start(name, played, self.tenants[0], strands))

    def _start_definitions(self, names: list[str]) -> None:
        for number, name in enumerate(names):
            definer = Definer(self.source, names, lambda name=name: self._plan(name, names)[:2])  # type: ignore[misc]
            family = definer.family(f"sim.definition{number}", self.size)
            for document in family:
                accepted = self.client.definitions.add(document)
                routine = Routine(accepted.definition, accepted.digest, Tools())
                self.routines[accepted.definition.name] = routine
            for tenant in self.tenants:
                self.spawn(self._start(name, {}, tenant, family[-1]["name"], family))

    def _plan(self, name: str, names: list[str]) -> Any:
        planner = Planner(self.source, f"{name}:", names, governed=self.governed, steered=self.steered)
        return planner.plan(self.size)

    async def _start(
        self, name: str, plan: Any, tenant: str, workflow: Any = act, family: Sequence[dict[str, Any]] = ()
    ) -> None:
        """Start a run through the client, or first through a worker's process, which may die."""
        await asyncio.sleep(self.source.choice((0.0, 0.0, 1.0, 20.0)))
        priority = self.source.choice((0, 0, 5))
        actor = self.source.choice((None, *NAMES)) if self.governed else None
        how: Any = {"id": name, "priority": priority, "actor": actor, "tenant": tenant}
        if self.processes and self.source.random() < 0.5:
            process = self.source.choice(self.processes)
            for document in family:
                process.app.definitions.add(document)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(15):
                    await process.inside(process.app.start(workflow, plan, **how))
        self.handles.append(await self.client.start(workflow, plan, **how))

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
        await self.signal(handle, name, self.source.choice(KEYS) if self.defined else None)

    async def signal(self, handle: RunHandle[Any], name: str, key: str | None) -> None:
        """Each signal has another text, so that none can be lost or doubled unnoticed."""
        text = f"signal {next(self._numbers)}"
        await handle.signal(name, text, key=key)
        self.accepted.setdefault((handle.key, keyed(name, key)), []).append(text)

    # -- the end ---------------------------------------------------------------------------------------------------

    async def _heal(self) -> None:
        self.faults.healed = True
        for process in self.processes:
            process.store.frozen_until = 0.0
        if not self.processes:
            await self.boot(0.0)

    async def _come_to_rest(self) -> None:
        """Follow advice until every run has ended, and until what people are asked after its end is answered."""
        deadline = asyncio.get_running_loop().time() + HORIZON_SECONDS
        follower = Progress(self)
        while await follower.round() or self._starting() or self.operators.busy or not self.handles:
            if asyncio.get_running_loop().time() > deadline:
                raise Violation("what is advised never ends")
            await asyncio.sleep(5)
        if self.governed:
            await self._end_acts(follower)

    async def _end_acts(self, follower: Progress) -> None:
        """Wait for acts that no run waits for: their outcome is still recorded, or asked for, sealed and put into
        evidence."""
        for _ in range(REST_LOOKS):
            await asyncio.sleep(3)
            is_asked = await follower.round()
            if await self.store.orphaned_receipts(1):
                self.reached["asked after its end"] += 1
                continue
            if is_asked:
                continue
            busy = self.outside.under_way({process.app.worker.id for process in self.processes if process.app.worker})
            if not busy and not await self.store.evidence_due(1) and not await self.store.unsealed(1):
                return

    def _starting(self) -> bool:
        return any(task.get_coro().__name__ == "_start" for task in self.tasks)  # type: ignore[union-attr]
