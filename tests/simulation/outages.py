"""Outages in virtual time: whole workers that lose their store for a while, each for as long as chance will have it.

The law: after an outage of any length no live worker that beats within three seconds of the store's return loses a run.
Its steps go on meanwhile, and are recorded afterwards: none is begun a second time. A worker that has really died in
the outage is still found, and its runs go on elsewhere.

``python -m tests.simulation.outages SEED COUNT`` plays seeds.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from collections import Counter
from typing import Any, Final, Literal

from holdfast import Holdfast, WorkerOptions, step, step_info, workflow
from holdfast.errors import StoreUnavailable
from holdfast.store.memory import MemoryStore
from holdfast.store.outage import SETTLING_SECONDS, Outage
from holdfast.testing.virtual import EPOCH_MICROSECONDS, VirtualClock, VirtualLoop
from holdfast.worker.presence.heart import LoopPulse
from tests.simulation.faults import Graves
from tests.simulation.violation import Violation

Manner = Literal["refused", "silent", "late"]
"""A call during the outage fails at once, or waits and then fails, or is made at once and answered at the end."""

LEASE_SECONDS: Final = 6.0
RETURN_SECONDS: Final = SETTLING_SECONDS - 0.6
"""A worker that can reach the store so soon after its return beats in time: a beat that failed is repeated after half a
second."""

BEGUN: Counter[str] = Counter()


@step(name="simulated.outlast", retries=0)
async def outlast(seconds: float) -> float:
    BEGUN[step_info().key] += 1
    await asyncio.sleep(seconds)
    return seconds


@workflow(name="simulated.outlasting")
async def outlasting(seconds: list[float]) -> float:
    return sum([await outlast(each) for each in seconds])


class Way:
    """A worker's way to the store."""

    def __init__(self, world: OutageWorld) -> None:
        self._world = world
        self.outage = Outage()
        self.dead = False
        self.away_until = 0.0
        self.manner: Manner = "refused"

    def twin(self) -> Way:
        return self

    async def open(self, *, migrate: bool = True) -> None:
        await self._pass(lambda: asyncio.sleep(0))

    async def close(self) -> None:
        """The store stays open for the others."""

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._world.store, name)
        if not asyncio.iscoroutinefunction(operation):
            return operation

        async def call(*args: Any, **named: Any) -> Any:
            answer = await self._pass(lambda: operation(*args, **named))
            if name == "rescue":
                self._world.rescued(answer or [])
            return answer

        return call

    async def _pass(self, operation: Any) -> Any:
        await self._delay(0.001)
        loop = asyncio.get_running_loop()
        if (left := self.away_until - loop.time()) <= 0:
            return await operation()
        if (manner := self.manner) == "refused":
            raise StoreUnavailable("no way to the store")
        answer = await operation() if manner == "late" else None
        await self._delay(left)
        if manner == "silent":
            raise StoreUnavailable("no answer came")
        return answer

    async def _delay(self, seconds: float) -> None:
        if not self.dead:
            await asyncio.sleep(seconds)
        if self.dead:
            await self._world.graves.rest()


class OutageWorld:
    """What one seed decides: workers, runs and outages."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.graves = Graves()
        self.reached: Counter[str] = Counter()
        self.ways: dict[str, Way] = {}  # by the worker's id
        self._starting: set[asyncio.Task[None]] = set()
        self._wronged: list[str] = []  # workers that were declared dead in vain
        self._excused: set[str] = set()  # workers that could not beat in time

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        self.store = MemoryStore(lambda: EPOCH_MICROSECONDS + round(loop.time() * 1e6))
        await self.store.open()
        self.client = Holdfast(self.store, worker=False, clock=VirtualClock(loop), entropy=random.Random(1))
        await self.client.open()
        for _ in range(self.source.choice((2, 3, 4))):
            await self._begin_worker()
        handles = []
        for number in range(6):
            seconds = [self.source.choice((0.5, 5.0, 20.0)) for _ in range(self.source.choice((1, 3)))]
            handles.append(await self.client.start(outlasting, seconds, id=f"run-{number}"))
        await asyncio.sleep(self.source.uniform(0.0, 12.0))
        for _ in range(self.source.choice((1, 2, 3))):
            await self._suffer()
            # Before all are back, another outage would be the same one: whoever has not beaten is cut off for longer.
            await asyncio.sleep(self.source.uniform(SETTLING_SECONDS + 1.0, 15.0))
        async with asyncio.timeout(1000):
            for handle in handles:
                await handle.result()
            await asyncio.gather(*self._starting)
        self._check()

    async def _suffer(self) -> None:
        """One outage. The store is back at one moment, and its workers reach it then or a little later."""
        loop, source = asyncio.get_running_loop(), self.source
        length = source.choice((source.uniform(0.2, 3.0), source.uniform(3.0, 9.0), source.uniform(9.0, 60.0)))
        back = loop.time() + length
        for id, way in self._living():
            way.manner = source.choice(("refused", "silent", "late"))
            way.away_until = back + source.choice((0.0, source.uniform(0.0, RETURN_SECONDS)))
            if source.random() < 0.1:
                way.away_until = back + source.uniform(RETURN_SECONDS, 30.0)
                self._excused.add(id)
                self.reached["came back late"] += 1
        self.reached[f"outage of {'few' if length < LEASE_SECONDS else 'many'} seconds"] += 1
        if source.random() < 0.4 and len(self._living()) > 1:
            await asyncio.sleep(source.uniform(0.0, length))
            _, way = source.choice(self._living())
            way.dead = True
            self.reached["died"] += 1
        if source.random() < 0.4:
            self._later(max(0.0, back - loop.time()) + source.choice((0.001, source.uniform(0.0, 1.0))))
        await asyncio.sleep(max(0.0, back - loop.time()))

    def _living(self) -> list[tuple[str, Way]]:
        return [(id, way) for id, way in self.ways.items() if not way.dead]

    def _later(self, seconds: float) -> None:
        """A new worker begins then, perhaps at the moment of the store's return."""

        async def begin() -> None:
            await asyncio.sleep(seconds)
            await self._begin_worker()

        self.reached["began at the return"] += 1
        task = asyncio.get_running_loop().create_task(begin())
        self._starting.add(task)

    async def _begin_worker(self) -> None:
        loop, way = asyncio.get_running_loop(), Way(self)
        app = Holdfast(
            way,  # type: ignore[arg-type]  # every operation is forwarded by name
            clock=VirtualClock(loop),
            entropy=random.Random(self.source.random()),
            options=WorkerOptions(lease_seconds=LEASE_SECONDS, retention_days=None, capacity=4, evidence=False),
            pulse=LoopPulse,
            workflows=[outlasting],
        )
        await app.open()
        assert app.worker is not None
        self.ways[app.worker.id] = way

    def rescued(self, workers: list[str]) -> None:
        """A worker was declared dead."""
        for id in workers:
            way = self.ways[id]
            if not way.dead and id not in self._excused:
                self._wronged.append(id)
            self.reached["was found dead" if way.dead else "was given up"] += 1

    def _check(self) -> None:
        if self._wronged:
            raise Violation(f"{self._wronged} lived, came back in time, and was declared dead")
        if not self._excused and not any(way.dead for way in self.ways.values()):
            if again := [key for key, count in BEGUN.items() if count > 1]:
                raise Violation(f"steps were begun again, though nobody had died: {again}")
            self.reached["nothing was repeated"] += 1


def simulate_outages(seed: int) -> Counter[str]:
    """Play one seed; gives what was reached. Raises Violation, with the seed in its note."""
    BEGUN.clear()
    loop = VirtualLoop()
    world = OutageWorld(seed)
    loop.set_exception_handler(lambda *_: None)  # of workers that died
    try:
        loop.run_until_complete(world.run())
    except BaseException as error:
        error.add_note(f"seed {seed}: python -m tests.simulation.outages {seed} 1")
        raise
    finally:
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with contextlib.suppress(BaseException):
                task.get_coro().close()  # type: ignore[union-attr]
        loop.close()
    return world.reached


def main(seed: int, count: int) -> None:
    total: Counter[str] = Counter()
    for number in range(seed, seed + count):
        total += simulate_outages(number)
    for what, times in sorted(total.items()):
        print(f"{times:8d}  {what}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
