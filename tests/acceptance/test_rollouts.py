"""A new version is rolled out while runs are under way: old and new code in separate processes, on one store."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, RunHandle
from holdfast.store import protocol as p
from tests.acceptance.processes import WorkerGroup, eventually, until, until_status
from tests.scope import one_stays

HEAD = """
import asyncio
import os
from pathlib import Path

from holdfast import Holdfast, WorkerOptions, patched, receive, step, workflow

app = Holdfast("sqlite:///unused.db", options=WorkerOptions(lease_seconds=2), worker=False)


def note(word):
    with Path(os.environ["NOTES"]).open("a") as notes:
        notes.write(os.environ["VERSION"] + "." + word + "\\n")


@step(name="rollout.first")
async def first():
    note("first")


@step(name="rollout.last")
async def last():
    note("last")
"""

OLD = (
    HEAD
    + """

@workflow(name="rollout.order")
async def order():
    await first()
    await receive("go")
    await last()


@workflow(name="rollout.step")
async def with_step():
    await first()
"""
)

NEW = (
    HEAD
    + """

@step(name="rollout.added")
async def added():
    note("added")


@step(name="rollout.slow")
async def slow():
    note("slow")
    while not Path(os.environ["NOTES"] + ".release").exists():
        await asyncio.sleep(0.02)


@workflow(name="rollout.order")
async def order():
    if patched("added"):
        await added()
    await first()
    await receive("go")
    await last()


@workflow(name="rollout.step")
async def with_step():
    await slow()
"""
)


class Rollout:
    """The two versions of an app on one store."""

    def __init__(self, folder: Path, url: str) -> None:
        self.url = url
        self.notes = folder / "notes.txt"
        self.notes.touch()
        self.old, self.new = (self._group(folder, name, code) for name, code in (("old", OLD), ("new", NEW)))

    def _group(self, folder: Path, name: str, code: str) -> WorkerGroup:
        place = folder / name
        place.mkdir()
        (place / "rollout_app.py").write_text(code, encoding="utf-8")
        return WorkerGroup(place / "rollout_app.py", self.url, place, NOTES=str(self.notes), VERSION=name)

    def lines(self) -> list[str]:
        return self.notes.read_text(encoding="utf-8").split()

    def release(self) -> None:
        Path(f"{self.notes}.release").touch()


@pytest.fixture(params=one_stays(["sqlite", "postgres"]))
def rollout(request: pytest.FixtureRequest, tmp_path: Path, url: str) -> Rollout:
    if request.param == "postgres":
        url = request.getfixturevalue("postgres").schema_url()
    return Rollout(tmp_path, url)


async def left_to_old_code(rollout: Rollout, client: Holdfast) -> tuple[RunHandle[Any], Any]:
    """A run that new code began and that waits, and a worker with old code, which is the only one."""
    first = rollout.new.start()
    run = await client.start("rollout.order", id="run")
    await until_status(run, "waiting")
    rollout.new.kill(first)
    old = rollout.old.start()
    until(lambda: old.ready, "the old worker")
    return run, old


def test_an_old_worker_hands_over_what_the_new_code_has_recorded(rollout: Rollout) -> None:
    """The old code lacks the ``patched()`` marker: the old worker hands the run back, and a new one continues it."""

    async def main() -> None:
        async with Holdfast(rollout.url, worker=False) as client:
            run, _ = await left_to_old_code(rollout, client)
            second = rollout.new.start()
            until(lambda: second.ready, "the new worker")
            for number in range(5):
                await client.start("rollout.order", id=f"other {number}")
            await run.signal("go")
            await until_status(run, "completed")
            assert (await run.verify()).good
            assert rollout.lines().count("new.last") == 1
            others = [client.run(f"other {number}") for number in range(5)]
            for other in others:
                await other.signal("go")
            for other in others:
                await until_status(other, "completed")

    with rollout.old, rollout.new:
        asyncio.run(main())


def test_an_old_worker_leaves_a_run_that_waits_for_a_new_step(rollout: Rollout) -> None:
    """The old worker lacks the step that the run waits for: it leaves the run to the new worker."""

    async def main() -> None:
        async with Holdfast(rollout.url, worker=False) as client:
            first = rollout.new.start()
            run = await client.start("rollout.step", id="run")
            until(lambda: "new.slow" in rollout.lines(), "the step to begin")
            old, second = rollout.old.start(), rollout.new.start()
            until(lambda: old.ready and second.ready, "the other workers")
            rollout.new.kill(first)
            rollout.release()
            await until_status(run, "completed")
            assert set(rollout.lines()) == {"new.slow"}, "the old code ran a step of it"
            assert (await run.verify()).good

    with rollout.old, rollout.new:
        asyncio.run(main())


def test_a_handover_is_logged_and_explained(rollout: Rollout) -> None:
    """A worker whose code does not fit logs the reason. If no worker's code fits, the run is parked with the diff."""

    async def main() -> None:
        async with Holdfast(rollout.url, worker=False) as client:
            first = rollout.new.start()
            run = await client.start("rollout.order", id="run")
            await until_status(run, "waiting")
            rollout.new.kill(first)
            workers = [rollout.old.start(), rollout.old.start()]
            until(lambda: all(worker.ready for worker in workers), "the old workers")
            await run.signal("go")
            await until_status(run, "paused")
            logs = "".join(worker.output for worker in workers)
            assert "is handed to a worker whose code fits" in logs
            assert "nondeterminism" in str((await run.info()).pause_reason)
            assert "recorded" in str((await run.info()).pause_reason), "the difference is shown"
            rollout.new.start()
            for worker in workers:
                rollout.old.kill(worker)
            await run.resume()
            await until_status(run, "completed")

    with rollout.old, rollout.new:
        asyncio.run(main())


def test_a_run_is_parked_when_the_last_worker_that_could_try_it_dies(rollout: Rollout) -> None:
    """The worker that it was handed to dies before it tries: the run does not wait for it forever."""

    async def main() -> None:
        async with Holdfast(rollout.url, worker=False) as client:
            run, _ = await left_to_old_code(rollout, client)
            row = p.WorkerRow("silent", "host", 1, ("rollout.order",), (), time.time_ns() // 1000, 0)
            await client.store.register(row, 600.0)  # it seems to be alive, and takes nothing
            await run.signal("go")

            async def declined() -> bool:
                return "whose code fits its journal" in await run.explain()

            await eventually(declined, "the run to be handed over")
            await client.store.beat("silent", 0.0)
            await until_status(run, "paused")
            assert "nondeterminism" in str((await run.info()).pause_reason)

    with rollout.old, rollout.new:
        asyncio.run(main())


def test_a_single_worker_parks_at_once(rollout: Rollout) -> None:
    """No other worker could try the run."""

    async def main() -> None:
        async with Holdfast(rollout.url, worker=False) as client:
            run, old = await left_to_old_code(rollout, client)

            async def is_alone() -> bool:
                return len(await client.store.workers()) == 1

            await eventually(is_alone, "the killed worker to be forgotten")
            await run.signal("go")
            await until_status(run, "paused")
            assert "is handed to" not in old.output

    with rollout.old, rollout.new:
        asyncio.run(main())
