"""A simulation of tenants: users of all levels, who are promoted, demoted and disabled at any time; templates,
instances within caps, and schedules; processes of people and whole workers, which die around every commit.

When the faults have ended, everything must come to its end, and the laws of ``check_templates`` must hold.

``python -m tests.simulation.templated SEED [COUNT]`` plays seeds.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from holdfast import Holdfast, WorkerOptions, step
from holdfast.errors import HoldfastError, TemplateConflict
from holdfast.people.tenants import TenantQuota
from holdfast.programs.machine.kind import Machines
from holdfast.store import protocol as p
from holdfast.testing.virtual import VirtualClock, VirtualLoop
from holdfast.worker.presence.heart import LoopPulse
from tests.seeds import play_seeds
from tests.simulation.check_templates import OPERATOR, Ground, check_laws
from tests.simulation.faults import Faults, FaultyStore, Graves, SimulatedStore
from tests.simulation.lockstep import true_store
from tests.simulation.simulate import _abandon
from tests.simulation.violation import Violation

FAULTY_SECONDS: Final = 240.0
QUIET_SECONDS: Final = 3600.0
"""Within this time after the last fault, everything has come to its end."""
OPTIONS: Final = WorkerOptions(lease_seconds=6.0, retention_days=None, grace_seconds=1.0, crash_limit=1000)
ATTEMPTS: Final = 3
STEPS: Final = ("s1", "s2", "s3", "s4")
TENANTS: Final = ("t1", "t2")
LEVELS: Final = {"ruler": 6, "god": 5, "poet": 5, "admin": 4, "clerk": 4, "guest": 3}
TEMPLATES: Final = ("wf1", "wf2", "wf3")

_grounds: dict[asyncio.AbstractEventLoop, Ground] = {}


@step(name="templated.work")
async def work(tenant: str, run: str, name: str) -> None:
    """A step that takes its time, and fails at times."""
    await _grounds[asyncio.get_running_loop()].perform(tenant, run, name)


def definition_of(needs: dict[str, list[str]], name: str) -> dict[str, Any]:
    """A definition of a graph."""
    nodes = {
        each: {
            "step": "templated.work",
            "with": {"tenant": "=run.tenant", "run": "=run.id", "name": each},
            "retry": {"max": ATTEMPTS, "first": "2s", "jitter": 0.5},
            **({"needs": before} if before else {}),
        }
        for each, before in needs.items()
    }
    return {"holdfast": "definition/1", "name": name, "version": 1, "steps": [{"all": {"graph": nodes}}]}


class TenantStore(SimulatedStore):
    """It sees the most runs of each tenant that were ever under way at once."""

    def __init__(self, clock: Callable[[], int]) -> None:
        super().__init__(clock)
        self.most: Counter[str] = Counter()

    async def claim(self, *args: Any, **kwargs: Any) -> Any:
        claimed = await super().claim(*args, **kwargs)
        busy = Counter(
            row.key.tenant for row in self._tables.runs.values() if row.begun_at is not None and row.ended_at is None
        )
        for tenant, count in busy.items():
            self.most[tenant] = max(self.most[tenant], count)
        return claimed


class Process:
    """One process, until it dies: a worker, or somebody's program without one."""

    def __init__(self, simulation: TenantSimulation, *, worker: bool) -> None:
        source, loop = simulation.source, asyncio.get_running_loop()
        self.is_worker = worker
        self._simulation = simulation
        self.store = FaultyStore(simulation.store, simulation.faults, simulation.reached, simulation.graves, self.die)  # type: ignore[arg-type]
        self.app = Holdfast(
            self.store,  # type: ignore[arg-type]  # every operation is forwarded by name
            worker=worker,
            clock=VirtualClock(loop),
            entropy=random.Random(source.random()),
            options=OPTIONS,
            pulse=LoopPulse,
        )
        self.app.machine_kind = Machines({})  # whatever machines other tests have declared

    def die(self) -> None:
        self.store.dead = True
        self._simulation.replace(self)


class TenantSimulation:
    """Everything that one seed decides."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.faults = Faults(self.source)
        self.faults.reads |= {"due_items", "next_due_item", "item"}
        self.reached: Counter[str] = Counter()
        self.graves = Graves()
        self.processes: list[Process] = []
        self.tasks: set[asyncio.Task[Any]] = set()
        self.caps = {tenant: self.source.randint(1, 3) for tenant in TENANTS}
        self._made = 0

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        self.clock = VirtualClock(loop)
        self.store = true_store(self.clock.now, TenantStore)
        self.ground = _grounds[loop] = Ground(self.source, self.caps, ATTEMPTS)
        await self.store.open()
        self.operator = Holdfast(self.store, worker=False, clock=self.clock, entropy=random.Random(1))
        await self.operator.open()
        for tenant, cap in self.caps.items():
            await self.operator.tenants.create(tenant, limits=TenantQuota(max_concurrency=cap))
            for name, level in LEVELS.items():
                await self.operator.users.create(name, level=level, tenant=tenant)
        for worker in (True,) * self.source.choice((1, 2, 3)) + (False, False):
            self.spawn(self._boot(self.source.uniform(0, 5), worker=worker))
        for people in (self._work, self._work, self._work, self._rule):
            self.spawn(people())
        await asyncio.sleep(FAULTY_SECONDS)
        await self._come_to_an_end()
        await check_laws(self.operator, self.store, self.ground, self.store.most)

    def spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _boot(self, delay: float, *, worker: bool) -> None:
        await asyncio.sleep(delay)
        process = Process(self, worker=worker)
        self.processes.append(process)
        await process.app.open()

    def replace(self, process: Process) -> None:
        self.reached["a worker died" if process.is_worker else "a program of people died"] += 1
        if process in self.processes:
            self.processes.remove(process)
        self.spawn(self._boot(self.source.uniform(0.1, 20), worker=process.is_worker))

    async def _come_to_an_end(self) -> None:
        """T-37 to T-40: with a worker and without faults, whatever is under way ends."""
        self.faults.healed = True
        if not any(process.is_worker for process in self.processes):
            await self._boot(0.0, worker=True)
        end = asyncio.get_running_loop().time() + QUIET_SECONDS
        while left := await self._left():
            if asyncio.get_running_loop().time() > end:
                raise Violation(f"never ended (T-37 to T-40): {left}")
            await self._resume_all()
            await asyncio.sleep(5)

    async def _resume_all(self) -> None:
        """What waits for a paused template waits as long as people want. An act of theirs may still be on its way."""
        for tenant in TENANTS:
            async for info in self.operator.templates.list(tenant=tenant, status="paused"):
                with contextlib.suppress(TemplateConflict):
                    await self.operator.templates.resume(info.id, tenant=tenant, by=OPERATOR)

    async def _left(self) -> list[str]:
        rows = await self.store.find(p.Query(), 100_000)
        runs = [f"{row.key} {row.standing}" for row in rows if row.ended_at is None]
        schedules = [
            f"schedule {info.id} of {tenant} is {info.status}"
            for tenant in TENANTS
            async for info in self.operator.schedules.list(tenant=tenant)
            if info.status in ("active", "waiting")
        ]
        return runs + schedules

    # -- people --------------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Somebody does something, in a program that may die meanwhile."""
        while not self.faults.healed:
            await asyncio.sleep(self.source.expovariate(0.5))
            programs = [each for each in self.processes if not each.is_worker]
            if programs:
                self.spawn(self._act(self.source.choice(programs).app))

    async def _act(self, app: Holdfast) -> None:
        tenant, user = self.source.choice(TENANTS), self.source.choice((*LEVELS, "god", "god", "admin", "poet"))
        client = app.acting_as(user, tenant=tenant)
        word = self.source.choice(WORDS)
        try:
            await getattr(self, f"_{word}")(client, self.source.choice(TEMPLATES))
            self.reached[f"did {word}"] += 1
        except HoldfastError as error:
            self.reached[f"{error.code} at {word}"] += 1

    async def _create(self, client: Holdfast, template: str) -> None:
        self._made += 1
        order = self.source.sample(STEPS, self.source.randint(1, len(STEPS)))
        needs = {each: [o for o in order[:place] if self.source.random() < 0.4] for place, each in enumerate(order)}
        await client.templates.create(template, source=definition_of(needs, f"{template}-{self._made}"))

    async def _activate(self, client: Holdfast, template: str) -> None:
        await client.templates.activate(template)

    async def _pause(self, client: Holdfast, template: str) -> None:
        await client.templates.pause(template)

    async def _resume(self, client: Holdfast, template: str) -> None:
        await client.templates.resume(template)

    async def _archive(self, client: Holdfast, template: str) -> None:
        if self.source.random() < 0.2:
            await client.templates.archive(template)

    async def _start(self, client: Holdfast, template: str) -> None:
        self._made += 1
        await client.templates.start(template, id=f"r{self._made}")

    async def _cancel(self, client: Holdfast, template: str) -> None:
        runs = [info async for info in client.list() if info.status not in ("completed", "failed", "cancelled")]
        if runs and self.source.random() < 0.5:
            await client.run(self.source.choice(runs).id).cancel()

    async def _schedule(self, client: Holdfast, template: str) -> None:
        self._made += 1
        at = datetime.datetime.fromtimestamp(self.clock.now() / 1e6 + self.source.uniform(-5, 60), datetime.UTC)
        await client.schedules.create(f"{template}-at-{self._made}", template=template, at=at)

    async def _rule(self) -> None:
        """The operator promotes, demotes, disables and enables, while others act."""
        while not self.faults.healed:
            await asyncio.sleep(self.source.expovariate(0.4))
            tenant, user = self.source.choice(TENANTS), self.source.choice(list(LEVELS))
            with contextlib.suppress(HoldfastError):
                match self.source.choice(("level", "home", "home", "home", "disable", "enable", "enable")):
                    case "level":
                        await self.operator.users.set_level(user, self.source.randint(1, 6), tenant=tenant)
                    case "home":
                        await self.operator.users.set_level(user, LEVELS[user], tenant=tenant)
                    case "disable":
                        await self.operator.users.disable(user, tenant=tenant)
                    case _:
                        await self.operator.users.enable(user, tenant=tenant)
                self.reached["changed a user"] += 1


WORDS: Final = ("create", "create", "activate", "activate", "pause", "resume", "resume", "archive", "cancel") + (
    "start", "schedule",
) * 3  # fmt: skip


def simulate_tenants(seed: int) -> Counter[str]:
    """Play one seed; gives what was reached. Raises Violation, with the seed in its note."""
    loop = VirtualLoop()
    simulation = TenantSimulation(seed)
    try:
        loop.run_until_complete(simulation.run())
    except BaseException as error:
        error.add_note(f"seed {seed}: python -m tests.simulation.templated {seed}")
        raise
    finally:
        _grounds.pop(loop, None)
        _abandon(loop)
    return simulation.reached + simulation.ground.reached


if __name__ == "__main__":
    play_seeds(simulate_tenants)
