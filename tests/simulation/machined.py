"""A simulation of machines: cells of equal keys in two tenants, whose events ask for effects, ring timers, emit, delete
and end cells, raise and kill; people who send twice, release, drop, redeliver, pause, resume, answer and apply a new
version of the code; and whole workers, which die around every commit.

When the faults have ended and everything is mended, everything must come to rest, and the laws of ``check_machines``
must hold.

``python -m tests.simulation.machined SEED [COUNT]`` plays seeds.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import random
from collections import Counter
from collections.abc import Coroutine, Iterator
from typing import Any, Final
from unittest import mock

import msgspec

from holdfast import Holdfast, WorkerOptions, step_info
from holdfast.cells.cell import decode_cell
from holdfast.errors import CellFull, HoldfastError
from holdfast.journal.promise import PromiseId
from holdfast.programs.machine.kind import Machines
from holdfast.programs.machine.lanes import cell_turn
from holdfast.runs.lanes import is_lane, lane_id
from holdfast.store import protocol as p
from holdfast.testing.virtual import VirtualClock, VirtualLoop
from holdfast.worker.lanes import cell_supplier
from holdfast.worker.presence.heart import LoopPulse
from holdfast.worker.steps.performance import _current
from tests.seeds import play_seeds
from tests.simulation import books, broken
from tests.simulation.books import FIRST, MACHINE, VERSIONS, Told
from tests.simulation.check_machines import Deed, World, check_laws
from tests.simulation.faults import Faults, FaultyStore, Graves
from tests.simulation.lockstep import true_store
from tests.simulation.rules import Demand, Rules
from tests.simulation.simulate import _abandon
from tests.simulation.world import Violation

FAULTY_SECONDS: Final = 100.0
QUIET_SECONDS: Final = 300.0
"""Within this time after the last fault, everything has come to rest."""
HOPS: Final = 12
HELD: Final = 3
HELD_AT_ONCE: Final = 2
"""So many held events are handled in one turn."""
OPTIONS: Final = WorkerOptions(
    lease_seconds=6.0, retention_days=None, grace_seconds=1.0, crash_limit=4, checkpoint_events=30, warm_limit=1
)
TENANTS: Final = ("t1", "t2")
KEYS: Final = tuple(f"k{number}" for number in range(6))
POLICY: Final = Rules(
    "books", {"free": Demand("allow"), "asked": Demand("needs_approval"), "never": Demand("deny")}
).policy()
LANES: Final = ("free", "free", "free", "asked", "asked", "never")
MANNERS: Final = ("", "", "", "slow", "fails once", "fails", "terminal")


class Process:
    """One process, until it dies: a worker, or somebody's program without one."""

    def __init__(self, simulation: MachineSimulation, version: int, *, worker: bool) -> None:
        source, loop = simulation.source, asyncio.get_running_loop()
        self.is_worker = worker
        self.version = version
        self.simulation = simulation
        self.store = FaultyStore(simulation.store, simulation.faults, simulation.reached, simulation.graves, self.die)
        self.app = Holdfast(
            self.store,  # type: ignore[arg-type]  # every operation is forwarded by name
            worker=worker,
            clock=VirtualClock(loop, source.choice((0.0, 0.0, 1.5, -1.5))),
            entropy=random.Random(source.random()),
            options=msgspec.structs.replace(OPTIONS, cached_cells=source.choice((8, 4096))),
            pulse=LoopPulse,
            policy=POLICY,
        )
        self.app.machine_kind = Machines({MACHINE: VERSIONS[version]}, held_limit=HELD)
        self._context = contextvars.copy_context()
        self._context.run(books.place.set, self)

    async def inside(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run something in this process: what it begins belongs to it."""
        return await asyncio.get_running_loop().create_task(work, context=self._context)

    def die(self) -> None:
        if not self.store.dead:
            self.store.dead = True
            self.simulation.replace(self)

    # -- what handlers and effects do ------------------------------------------------------------------------------

    def obey(self, word: str) -> None:
        if self.simulation.faults.healed:
            return
        if word == "raise":
            self.simulation.reached["a handler raised"] += 1
            raise ValueError("it was told to")
        if self.is_worker:
            self.simulation.reached["a handler killed its worker"] += 1
            self.die()

    async def perform(self, name: str, id: str, life: str, manner: str, *, acts: bool) -> str:
        simulation, info = self.simulation, step_info()
        if self.store.dead:
            await simulation.graves.rest()
        key = str(_current("an effect").promise)
        if not acts and info.key in simulation.store.completed:
            raise broken.Broken(f"effect {id} of {name} began again after its completion was recorded")
        if not acts and (info.key, info.attempt) not in simulation.store.intended:
            raise broken.Broken(f"effect {id} of {name} began before its turn was durable")
        deed = Deed(info.tenant, name, id, life, acts, key)
        simulation.world.begun.append(deed)
        await asyncio.sleep(simulation.source.choice((0.001, 0.1, 0.5, 2.0)))
        if not (acts and manner == "slow" and sum(each.promise == key for each in simulation.world.begun) > 1):
            await books.perform(manner, info.attempt)
        if self.store.dead or simulation.faults.happens(simulation.faults.die_acting):
            self.die()
            await simulation.graves.rest()
        simulation.world.done.append(deed)
        if simulation.faults.happens(simulation.faults.die_acting):
            self.die()
            await simulation.graves.rest()
        books.lose_answer(manner)
        return deed.result


class MachineSimulation:
    """Everything that one seed decides."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.faults = Faults(self.source)
        self.faults.govern()
        self.faults.reads |= {"due_items", "item", "cells", "due_cells", "next_wake", "code"}
        self.reached: Counter[str] = Counter()
        self.graves = Graves()
        self.processes: list[Process] = []
        self.tasks: set[asyncio.Task[Any]] = set()
        self.rolls = self.source.random() < 0.5  # whether the second version comes
        self.versions = [1]
        self.world = World()
        self._made = 0
        self._worker_id = 0

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        self.context = contextvars.copy_context()
        self.clock = VirtualClock(loop)
        self.store = true_store(self.clock.now)
        await self.store.open()
        self.client = self._program(1)
        await self.client.open()
        for worker in (True,) * self.source.choice((1, 2, 3)) + (False,):
            self.spawn(self._boot(self.source.uniform(0, 5), worker=worker))
        for people in (self._send, self._send, self._meddle, self._meddle, self._answer):
            self.spawn(people())
        if self.rolls:
            self.spawn(self._roll_out())
        await asyncio.sleep(FAULTY_SECONDS)
        await self._come_to_rest()
        await check_laws(self.client, self.store, self.world, replays=not self.rolls)

    def _program(self, version: int) -> Holdfast:
        """A program of the operator's, whose store never fails."""
        self._worker_id += 1
        source = random.Random(self._worker_id)
        app = Holdfast(self.store, worker=False, clock=self.clock, entropy=source, policy=POLICY)
        app.machine_kind = Machines({MACHINE: VERSIONS[version]}, held_limit=HELD)
        return app

    def spawn(self, work: Any) -> None:
        # Not as a task of whoever asks for it: a step takes what it has begun with it when it ends.
        asyncio.get_running_loop().call_soon(self._spawn, work, context=self.context)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.world.troubles.append(error)

    async def _boot(self, delay: float, *, worker: bool) -> None:
        await asyncio.sleep(delay)
        process = Process(self, self.source.choice(self.versions), worker=worker)
        self.processes.append(process)
        await process.inside(process.app.open())

    def replace(self, process: Process) -> None:
        self.reached["a worker died" if process.is_worker else "a program of people died"] += 1
        if process in self.processes:
            self.processes.remove(process)
        self.spawn(self._boot(self.source.uniform(0.1, 15), worker=process.is_worker))

    # -- people ----------------------------------------------------------------------------------------------------

    async def _through(self, act: Any) -> Any:
        """Do it in some process, which may die over it; else as the operator."""
        if self.processes and self.source.random() < 0.4:
            process = self.source.choice(self.processes)
            with contextlib.suppress(TimeoutError, HoldfastError):
                async with asyncio.timeout(15):
                    return await process.inside(act(process.app))
        return await act(self.client)

    async def _send(self) -> None:
        source = self.source
        while not self.faults.healed:
            await asyncio.sleep(source.expovariate(0.8))
            self._made += 1
            word = self._word()
            to = source.choice(LANES if word.startswith(("act", "both")) else KEYS)
            event = Told(source.choice(KEYS), f"e{self._made}", word, to)
            tenant = source.choice(TENANTS)
            self.world.sent.append((tenant, event))
            for _ in range(source.choice((1, 1, 1, 2))):  # the same event again is heard once
                await self._taken_in(event, tenant)

    async def _taken_in(self, event: Told, tenant: str) -> None:
        """Send it until it is taken in: while its parked cell is full, it waits outside."""
        while True:
            try:
                await self._through(lambda app: app.emit(event, id=event.id, tenant=tenant))
                return
            except CellFull:
                self.reached["a cell was full"] += 1
                await asyncio.sleep(1)

    def _word(self) -> str:
        source = self.source
        kind = source.choice(WORDS)
        if kind in ("work", "act", "both"):
            return f"{kind}:{source.choice((*MANNERS, 'lost') if kind == 'act' else MANNERS)}"
        return f"{kind}:{'.' * source.randrange(12)}" if kind == "later" else kind

    async def _meddle(self) -> None:
        while not self.faults.healed:
            await asyncio.sleep(self.source.expovariate(0.5))
            act = self.source.choice(
                (self._release, self._release, self._redeliver, self._pause, self._resume, self._kill)
            )
            try:
                await act(self.source.choice(TENANTS))
            except HoldfastError as error:
                self.reached[f"{error.code} at {act.__name__}"] += 1

    async def _parked(self, tenant: str) -> list[str]:
        rows = await self.store.find_cells(p.CellQuery(tenant, MACHINE, "parked"), 1000)
        assert FIRST.key_schema is not None
        return [FIRST.key_schema.decode(row.key) for row in rows]

    async def _release(self, tenant: str) -> None:
        if parked := await self._parked(tenant):
            key, drop = self.source.choice(parked), self.source.random() < 0.4
            await self._through(lambda app: app.cell(MACHINE, key, tenant=tenant).release(drop=drop))
            self.reached["a cell was released"] += 1

    async def _redeliver(self, tenant: str) -> None:
        letters = [each async for each in self.client.machines.dead_letters(tenant=tenant)]
        letters = [each for each in letters if "Lost" not in each.schema]
        if letters:
            letter = self.source.choice(letters)
            await self._through(lambda app: app.machines.redeliver(letter, tenant=tenant))
            self.reached["a dead letter was redelivered"] += 1

    def _lane(self, tenant: str) -> Any:
        return self.client.run(lane_id(MACHINE, self.source.randrange(2)), tenant=tenant)

    async def _pause(self, tenant: str) -> None:
        await self._lane(tenant).pause("the simulation says so")
        self.reached["a lane was paused"] += 1

    async def _resume(self, tenant: str) -> None:
        await self._lane(tenant).resume()

    async def _kill(self, _: str) -> None:
        if self.processes:
            self.source.choice(self.processes).die()

    async def _answer(self) -> None:
        """They approve, reject, and say truly what became of an act."""
        while not self.faults.healed:
            await asyncio.sleep(self.source.expovariate(0.3))
            await self._answer_all(0.6)

    async def _answer_all(self, likely: float = 1.0) -> None:
        for tenant in TENANTS:
            async for task in self.client.tasks.list(tenant=tenant):
                if self.source.random() >= likely:
                    continue
                try:
                    if task.kind == "outcome":
                        await self._report(task)
                    elif self.source.random() < 0.7:
                        await self.client.tasks.approve(task.id, by="ann", tenant=tenant)
                    else:
                        await self.client.tasks.reject(task.id, by="ann", tenant=tenant)
                    self.reached[f"a task was answered: {task.kind}"] += 1
                except HoldfastError as error:
                    self.reached[f"{error.code} at {task.kind}: {error}"] += 1

    async def _report(self, task: Any) -> None:
        receipt = await self.store.receipt(task.tenant, task.details["receipt"])
        assert receipt is not None
        deed = self.world.deed_of(str(PromiseId(receipt.root).child(receipt.position)))
        if deed is not None:
            await self.client.tasks.happened(task.id, by="ann", result=deed.result, tenant=task.tenant)
        else:
            await self.client.tasks.did_not_happen(task.id, by="ann", tenant=task.tenant)

    async def _roll_out(self) -> None:
        """The second version comes: some workers have it, then it is applied in one tenant."""
        await asyncio.sleep(self.source.uniform(10, 40))
        self.versions = [1, 2]
        author = self._program(2)
        await author.open()
        await asyncio.sleep(self.source.uniform(0, 15))
        proposal = None
        while not self.faults.healed:
            try:
                if proposal is None:
                    proposal = (await author.machines.propose(tenant="t1", by="ann")).id
                    await author.machines.shadow(proposal, tenant="t1", by="ann")
                    await author.machines.approve(proposal, tenant="t1", by="bob")
                await author.machines.apply(proposal, tenant="t1", by="bob")
                self.reached["a manifest was applied"] += 1
                self.world.applied["t1"] = self.clock.now()
                return
            except HoldfastError as error:
                self.reached[f"{error.code} at apply"] += 1
                if error.code == "proposal_conflict":
                    proposal = None
            await asyncio.sleep(self.source.uniform(1, 5))

    # -- the end ---------------------------------------------------------------------------------------------------

    async def _come_to_rest(self) -> None:
        self.faults.healed = True
        if self.rolls:
            self.versions = [2]
            self.client = self._program(2)
            await self.client.open()
            for process in [each for each in self.processes if each.version == 1]:
                process.die()
        if not any(process.is_worker for process in self.processes):
            await self._boot(0.0, worker=True)
        end = asyncio.get_running_loop().time() + QUIET_SECONDS
        while left := await self._left():
            if self.world.troubles:
                raise self.world.troubles[0]
            if asyncio.get_running_loop().time() > end:
                raise Violation(f"it never comes to rest: {left[:8]}")
            for tenant in TENANTS:
                for run in await self.store.find(p.Query(tenant), 100):
                    if is_lane(run.key.run) and run.pause is not None and not run.pause.startswith("manifest: "):
                        await self.client.run(run.key.run, tenant=tenant).resume()
                for key in await self._parked(tenant):
                    with contextlib.suppress(HoldfastError):
                        await self.client.cell(MACHINE, key, tenant=tenant).release()
            await self._answer_all()
            await asyncio.sleep(5)

    async def _left(self) -> list[str]:
        found = [text for task in self.tasks if "._boot" not in (text := str(task.get_coro()))]
        for tenant in TENANTS:
            for run in await self.store.find(p.Query(tenant), 100):
                if run.arrived > run.consumed or run.pause is not None:
                    found.append(f"{run.key} {run.arrived - run.consumed} events, {run.pause}")
            for row in await self.store.find_cells(p.CellQuery(tenant, MACHINE), 1000):
                record = decode_cell(row.record)
                if record.intents or record.timers or record.status == "parked" or record.held_count:
                    found.append(
                        f"{tenant} {row.key!r} {record.status} {record.reason} {record.intents} {record.timers}"
                    )
            found += [f"task {task.id}" async for task in self.client.tasks.list(tenant=tenant)]
        return found


WORDS: Final = (
    *("note", "pass", "pass", "work", "work", "work", "act", "act", "act", "both", "later", "later", "raise", "delete"),
    *("note", "pass", "work", "work", "act", "act", "both", "later", "raise", "delete", "delete", "note"),
    *("note", "pass", "work", "circle", "lost", "kill", "complete", "fail"),
)


@contextlib.contextmanager
def _small_limits() -> Iterator[None]:
    with (
        mock.patch.object(cell_turn, "HOPS_LIMIT", HOPS),
        mock.patch.object(cell_turn, "HELD_BEFORE", HELD),
        mock.patch.object(cell_supplier, "HELD_AT_ONCE", HELD_AT_ONCE),
    ):
        yield


def simulate_machines(seed: int) -> Counter[str]:
    """Play one seed; gives what was reached. Raises Violation, with the seed in its note."""
    loop = VirtualLoop()
    simulation = MachineSimulation(seed)
    broken.noted.clear()
    try:
        with _small_limits():
            loop.run_until_complete(simulation.run())
        if broken.noted:
            raise Violation(broken.noted[0])
    except BaseException as error:
        error.add_note(f"seed {seed}: python -m tests.simulation.machined {seed}")
        raise
    finally:
        _abandon(loop)
    return simulation.reached + simulation.world.reached


if __name__ == "__main__":
    play_seeds(simulate_machines)
