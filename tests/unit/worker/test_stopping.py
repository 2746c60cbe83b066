"""A worker that stops waits for what has begun, and not a moment longer."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Holdfast, WorkerOptions, step, workflow
from holdfast.runs.clock import SYSTEM_CLOCK
from holdfast.store.committer import Committer
from holdfast.store.memory import MemoryStore
from holdfast.store.protocol import Answer
from holdfast.testing.stores.samples import start
from holdfast.testing.virtual import VirtualClock, run_virtually
from holdfast.worker.presence.heart import LoopPulse

SECONDS = 1.2345


@step(name="stopping.slow")
async def slow() -> str:
    await asyncio.sleep(SECONDS)
    return "done"


@workflow(name="stopping.work")
async def work() -> str:
    return await slow()


@pytest.mark.parametrize(("grace", "expected", "status"), [(10.0, SECONDS, "completed"), (1.0, 1.0, "running")])
def test_a_stop_takes_as_long_as_what_is_under_way(grace: float, expected: float, status: str) -> None:
    """It ends with the last step, whose end is durable by then, or with the grace time."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        clock = VirtualClock(loop)
        store = MemoryStore(clock.now)
        options = WorkerOptions(grace_seconds=grace)
        app = Holdfast(store, clock=clock, pulse=LoopPulse, options=options, workflows=[work])
        async with app:
            run = await app.start(work, id="one")
            began = loop.time()
            assert app.worker is not None
            await app.worker.stop()
            assert loop.time() - began == pytest.approx(expected, abs=1e-6)
            assert await run.status() in (status, "queued")

    run_virtually(main())


class SlowStore(MemoryStore):
    """Its commits take a moment."""

    async def commit(self, batch: object) -> list[Answer]:
        await asyncio.sleep(SECONDS)
        return await super().commit(batch)  # type: ignore[arg-type]


def test_flushed_waits_for_the_answers_and_no_longer() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        store = SlowStore(SYSTEM_CLOCK.now)
        await store.open()
        committer = Committer(store)
        answers: list[object] = []
        for run in ("one", "two"):
            committer.submit(start(run), answers.append)
            await asyncio.sleep(0)
        began = loop.time()
        await committer.flushed()
        assert len(answers) == 2
        assert loop.time() - began == pytest.approx(2 * SECONDS, abs=1e-6)
        await committer.flushed()

    run_virtually(main())
