"""The same programs on the whole engine: real workers on virtual time that die around their commits, from one seed.

Signals, cancellations and deaths come at any time, until everything is healed. When all runs have ended they are
judged: each journal that the store has is replayed, to learn what its program saw.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import random
from collections import Counter
from collections.abc import Coroutine
from typing import Any, Final

from holdfast import Holdfast, WorkerOptions
from holdfast.errors import HoldfastError, RunEnded, TaskClosed, TaskForbidden
from holdfast.journal.promise import PromiseId
from holdfast.kernel.execution import Execution
from holdfast.programs.function.loop import dispose_all
from holdfast.store import protocol as p
from holdfast.testing.virtual import EPOCH_MICROSECONDS, VirtualClock, VirtualLoop
from holdfast.worker.presence.heart import LoopPulse
from tests.laws.sagas import tree as t
from tests.laws.sagas.forms import People
from tests.laws.sagas.judge import judge
from tests.laws.sagas.judge_forms import judge_forms
from tests.laws.sagas.lives import Life, origin_of
from tests.laws.sagas.play import SAID, World, begun, play, world
from tests.laws.sagas.violation import Violation
from tests.simulation.faults import Faults, FaultyStore, Graves
from tests.simulation.lockstep import true_store

FAULTY_SECONDS: Final = 25.0
HORIZON_SECONDS: Final = 2000.0
OPTIONS: Final = WorkerOptions(
    queues={}, capacity=20, lease_seconds=6.0, warm_limit=2, retention_days=None, grace_seconds=5.0, crash_limit=1000
)


class Body(World):
    """Where one worker's steps happen: they take time, and end with their process."""

    def __init__(self, whole: Whole, process: Process) -> None:
        super().__init__()
        self._whole = whole
        self._process = process

    async def perform(self, name: str, *args: Any) -> str:
        await asyncio.sleep(self._whole.source.choice((0.001, 0.001, 0.1, 0.5, 2.0)))
        if self._process.store.dead:
            await self._whole.graves.rest()
        return await self._whole.world.perform(name, *args)


class Process:
    """One worker process. Everything in it runs in its own context, so that a step knows its process."""

    def __init__(self, whole: Whole) -> None:
        loop = asyncio.get_running_loop()
        self._whole = whole
        self.store = FaultyStore(whole.store, whole.faults, whole.reached, whole.graves, self.die)
        self.app = Holdfast(
            self.store,  # type: ignore[arg-type]  # every operation is forwarded by name
            clock=VirtualClock(loop),
            entropy=random.Random(whole.source.random()),
            options=OPTIONS,
            pulse=LoopPulse,
            workflows=[play],
        )
        self._context = contextvars.copy_context()
        self._context.run(world.set, Body(whole, self))

    async def open(self) -> None:
        await asyncio.get_running_loop().create_task(self.app.open(), context=self._context)

    def die(self) -> None:
        self.store.dead = True
        self._whole.replace(self)


class Whole:
    """One program on one engine. Everything that happens comes from the seed."""

    def __init__(self, tree: t.Node, seed: int) -> None:
        self.source = source = random.Random(f"whole {seed}")
        self.world = World()
        self.graves = Graves()
        self.reached: Counter[str] = Counter()
        self.faults = Faults(source)
        self.log: list[str] = []
        if any(isinstance(node, t.Ask) for node in t.walk(tree)):
            self.faults.govern()
        self._tree = tree
        self._cancels = source.choice((0.0, 0.0, 0.05, 0.2))
        self._deaths = source.choice((0.0, 0.05, 0.2))
        self._retries = source.choice((0, 1, 1, 2))
        self._sent = itertools.count(1)
        self._loop = VirtualLoop()
        self._processes: list[Process] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.store = true_store(lambda: EPOCH_MICROSECONDS + round(self._loop.time() * 1e6))

    def play(self) -> None:
        """Play until every run has ended, and judge each; retry the first as often as the seed says."""
        try:
            self._run(self._begin())
            while True:
                self._run(self._live())
                for run in list(self.store._tables.runs.values()):
                    lives = self._lives(run.key)
                    judge(run.key.run, lives)
                    judge_forms(run.key.run, lives, self._forms(run.key))
                if not self._run(self._again()):
                    return
        finally:
            self._abandon()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return self._loop.run_until_complete(work)
        except KeyboardInterrupt as error:
            if error.args != (SAID,):
                raise
            raise Violation("L5", "run run: KeyboardInterrupt of a body came out of the engine") from None

    def _abandon(self) -> None:
        """End whatever is still going on with the loop, dead processes included. No error of it is reported."""
        self._loop.set_exception_handler(lambda *_: None)
        dispose_all()
        for task in asyncio.all_tasks(self._loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with contextlib.suppress(BaseException):
                task.get_coro().close()  # type: ignore[union-attr]
        self._loop.close()
        begun.clear()

    # -- what happens ----------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        await self.store.open()
        clock = VirtualClock(self._loop)
        self._client = Holdfast(self.store, worker=False, clock=clock, entropy=self.source, workflows=[play])
        await self._client.open()
        self._people = People(self._client)
        for _ in range(self.source.choice((1, 2))):
            self._spawn(self._boot(0.0))  # it may die while it opens
        await self._client.start(play, self._tree, id="run")

    async def _boot(self, delay: float) -> None:
        await asyncio.sleep(delay)
        process = Process(self)
        self._processes.append(process)
        await process.open()

    def replace(self, process: Process) -> None:
        """A process has died; a supervisor starts another one."""
        self.log.append(f"{self._loop.time():8.3f} a worker dies")
        if process in self._processes:
            self._processes.remove(process)
        self._spawn(self._boot(self.source.uniform(0.1, 8)))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _live(self) -> None:
        """Disturb it for a while, then let every run end."""
        heals = self._loop.time() + FAULTY_SECONDS
        self.faults.healed = False
        while self._loop.time() < heals and (going := self._going()):
            await asyncio.sleep(self.source.expovariate(1.5))
            await self._disturb(self.source.choice(going))
        self.faults.healed = True
        deadline = self._loop.time() + HORIZON_SECONDS
        while going := self._going():
            if self._loop.time() > deadline:
                raise Violation("end", f"the runs do not end: { {run.key.run: run.waiting for run in going} }")
            await asyncio.sleep(3)
            for run in going:
                if run.pause is not None:
                    raise Violation("L6", f"run {run.key.run} is parked: {run.pause}")
                for name in t.SIGNALS:
                    if self.source.random() < 0.5:
                        await self._signal(run.key, name)
                await self._fill_in(run.key, 0.8)

    async def _disturb(self, run: p.Run) -> None:
        if self.source.random() < self._deaths and self._processes:
            self.source.choice(self._processes).die()
        if self.source.random() < self._cancels:
            with contextlib.suppress(RunEnded):
                await self._client.run(run.key.run).cancel()
                self.log.append(f"{self._loop.time():8.3f} {run.key.run}: cancel")
        for name in t.SIGNALS:
            for _ in range(self.source.choice((0, 0, 0, 1, 1, 2))):
                await self._signal(run.key, name)
        await self._fill_in(run.key, 0.3)

    async def _fill_in(self, key: p.Key, probability: float) -> None:
        """People answer forms of the run, or claim one."""
        for task in self._forms(key):
            if task.status != "requested" or self.source.random() >= probability:
                continue
            with contextlib.suppress(TaskClosed, TaskForbidden):
                if task.owner is None and self.source.random() < 0.2:
                    await self._people.claim(task)
                else:
                    word = await self._people.answer(task)
                    self.log.append(f"{self._loop.time():8.3f} {key.run}: {task.summary} is answered {word}")

    def _forms(self, key: p.Key) -> list[p.TaskRow]:
        return [task for task in self.store._tables.tasks.values() if task.run == key.run]

    async def _signal(self, key: p.Key, name: str) -> None:
        value = f"s{next(self._sent)}"
        with contextlib.suppress(RunEnded):
            await self._client.run(key.run).signal(name, value)
            self.log.append(f"{self._loop.time():8.3f} {key.run}: signal {name} {value}")

    async def _again(self) -> bool:
        main = (await self.store.get([p.Key("default", "run")]))[0]
        if main.standing == "completed" or not self._retries:
            return False
        self._retries -= 1
        try:
            await self._client.run("run").retry()
        except HoldfastError as error:
            self.log.append(f"retry refused: {error}")
            return False
        self.log.append(f"{self._loop.time():8.3f} run: retry")
        return True

    def _going(self) -> list[p.Run]:
        return [run for run in self.store._tables.runs.values() if run.standing not in p.ENDED]

    # -- what came of it -------------------------------------------------------------------------------------------

    def _lives(self, key: p.Key) -> list[Life]:
        """Every generation of a run, each replayed to learn what its program saw."""
        lives: list[Life] = []
        for generation, entries in enumerate(self.store.generations(key)):
            root = PromiseId(self.store._roots[key, generation])
            begun.clear()
            try:
                blobs = {digest: data for (_, digest), data in self.store._tables.blobs.items()}
                execution = Execution.rebuild(root, play.program(), entries, 0, self.source, blobs)
                more = execution.advance([], 0, resume=False).events
            except HoldfastError as error:
                raise Violation("L6", f"run {key.run} replays to something else: {error}") from None
            if more or not execution.ended:
                raise Violation("L6", f"run {key.run}, generation {generation} replays to another end")
            notes = list(begun[-1].notes) if begun else []
            execution.program.close()
            lives.append(Life(origin_of(generation, (key, generation) in self.store.retried), entries, notes, blobs))
        return lives
