"""A new version is rolled out while runs are under way: old and new code in processes of their own, on one store."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, RunHandle
from holdfast.store import protocol as p
from tests.acceptance.processes import Crew, eventually, until, until_status

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
        self.old, self.new = (self._crew(folder, name, code) for name, code in (("old", OLD), ("new", NEW)))

    def _crew(self, folder: Path, name: str, code: str) -> Crew:
        place = folder / name
        place.mkdir()
        (place / "rollout_app.py").write_text(code, encoding="utf-8")
        return Crew(place / "rollout_app.py", self.url, place, NOTES=str(self.notes), VERSION=name)

    def words(self) -> list[str]:
        return self.notes.read_text(encoding="utf-8").split()

    def release(self) -> None:
        Path(f"{self.notes}.release").touch()


@pytest.fixture(params=["sqlite", "postgres"])
def rollout(request: pytest.FixtureRequest, tmp_path: Path, url: str) -> Rollout:
    if request.param == "postgres":
        url = request.getfixturevalue("postgres").schema_url()
    return Rollout(tmp_path, url)


async def left_to_old_code(rollout: Rollout, client: Holdfast) -> tuple[RunHandle[Any], Any]:
    """A run that new code began and left waiting, and a worker of old code, alone with it."""
    first = rollout.new.hire()
    run = await client.start("rollout.order", id="run")
    await until_status(run, "waiting")
    rollout.new.kill(first)
    old = rollout.old.hire()
    until(lambda: old.ready, "the old worker")
    return run, old


def test_an_old_worker_hands_over_what_the_new_code_has_recorded(rollout: Rollout) -> None:
    """The marker of ``patched()`` is unknown to the old code: the old worker says so, and the new one goes on."""

    async def main() -> None:
        async with Holdfast(rollout.url, worker=False) as client:
            run, _ = await left_to_old_code(rollout, client)
            second = rollout.new.hire()
            until(lambda: second.ready, "the new worker")
            for number in range(5):
                await client.start("rollout.order", id=f"other {number}")
            await run.signal("go")
            await until_status(run, "completed")
            assert (await run.verify()).good
            assert rollout.words().count("new.last") == 1
            others = [client.run(f"other {number}") for number in range(5)]
            for other in others:
                await other.signal("go")
            for other in others:
                await until_status(other, "completed")

    with rollout.old, rollout.new:
        asyncio.run(main())


def test_a_new_worker_hands_over_what_its_code_has_changed(rollout: Rollout) -> None:
    """The other order: an old worker's step is not in the new code. It is given back to the old worker that lives."""

    async def main() -> None:
        async with Holdfast(rollout.url, worker=False) as client:
            first = rollout.new.hire()
            run = await client.start("rollout.step", id="run")
            until(lambda: "new.slow" in rollout.words(), "the step to begin")
            old, second = rollout.old.hire(), rollout.new.hire()
            until(lambda: old.ready and second.ready, "the other workers")
            rollout.new.kill(first)
            rollout.release()
            await until_status(run, "completed")
            assert set(rollout.words()) == {"new.slow"}, "the old code did nothing to it"
            assert (await run.verify()).good

    with rollout.old, rollout.new:
        asyncio.run(main())


def test_a_run_is_handed_over_and_told_so(rollout: Rollout) -> None:
    """Whoever does not fit says why in its log, and ``explain`` tells it for as long as nobody has taken the run."""

    async def main() -> None:
        async with Holdfast(rollout.url, worker=False) as client:
            first = rollout.new.hire()
            run = await client.start("rollout.order", id="run")
            await until_status(run, "waiting")
            rollout.new.kill(first)
            workers = [rollout.old.hire(), rollout.old.hire()]
            until(lambda: all(worker.ready for worker in workers), "the old workers")
            await run.signal("go")
            await until_status(run, "paused")
            said = "".join(worker.words for worker in workers)
            assert "is handed to a worker whose code fits" in said
            assert "nondeterminism" in str((await run.info()).pause)
            assert "recorded" in str((await run.info()).pause), "the difference is shown"
            rollout.new.hire()
            for worker in workers:
                rollout.old.kill(worker)
            await run.resume()
            await until_status(run, "completed")

    with rollout.old, rollout.new:
        asyncio.run(main())


def test_a_run_whose_last_hope_dies_is_parked(rollout: Rollout) -> None:
    """The worker that it was handed to dies before it tried: it is not left for ever to nobody."""

    async def main() -> None:
        async with Holdfast(rollout.url, worker=False) as client:
            run, _ = await left_to_old_code(rollout, client)
            row = p.WorkerRow("silent", "host", 1, ("rollout.order",), (), time.time_ns() // 1000, 0)
            await client.store.register(row, 3.0)  # it lives as far as anyone knows, and takes nothing
            await run.signal("go")

            async def declined() -> bool:
                return "whose code fits its journal" in await run.explain()

            await eventually(declined, "the run to be handed over")
            await until_status(run, "paused", 30)
            assert "nondeterminism" in str((await run.info()).pause)

    with rollout.old, rollout.new:
        asyncio.run(main())


def test_alone_a_worker_parks_at_once(rollout: Rollout) -> None:
    """As ever: nobody else could try."""

    async def main() -> None:
        async with Holdfast(rollout.url, worker=False) as client:
            run, old = await left_to_old_code(rollout, client)

            async def is_alone() -> bool:
                return len(await client.store.workers()) == 1

            await eventually(is_alone, "the killed worker to be forgotten")
            await run.signal("go")
            await until_status(run, "paused")
            assert "is handed to" not in old.words

    with rollout.old, rollout.new:
        asyncio.run(main())
