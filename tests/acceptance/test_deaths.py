"""Steps that end their process: what ends only the attempt, and what counts against the run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.client.views.timeline import fold
from holdfast.runs.journals import read
from tests.acceptance.processes import Crew, eventually, until, until_status

LIMIT = 3

APP = f"""
import os
import sys
from pathlib import Path

from holdfast import Holdfast, RetryPolicy, WorkerOptions, step, step_info, workflow

app = Holdfast("sqlite:///unused.db", options=WorkerOptions(crash_limit={LIMIT}, lease_seconds=2), worker=False)


def note(word):
    with Path(os.environ["NOTES"]).open("a") as notes:
        notes.write(word + "\\n")


@step(name="deaths.exit", retry=RetryPolicy(max_attempts=3, initial=0.05, jitter=0))
async def leave():
    note("exit")
    sys.exit(7)


@step(name="deaths.die")
async def die():
    note("die")
    os._exit(9)


@step(name="deaths.once", retries=1)
async def once(again):
    info = step_info()
    note(str(info.attempt) + ":" + str(info.begun_before))
    if not info.begun_before and info.attempt == 1:
        os._exit(9)
    if info.attempt < again:
        raise ValueError("once more")


@step(name="deaths.queued_once", queue="deaths", retries=1)
async def queued_once(again):
    info = step_info()
    note(str(info.attempt) + ":" + str(info.begun_before))
    if not info.begun_before and info.attempt == 1:
        os._exit(9)
    if info.attempt < again:
        raise ValueError("once more")


@step(name="deaths.first")
async def first():
    note("first:" + str(step_info().begun_before))


@workflow(name="deaths.repeating")
async def repeating(queued, again):
    await first()
    await (queued_once if queued else once)(again)


@workflow(name="deaths.leaving")
async def leaving():
    await leave()


@workflow(name="deaths.dying")
async def dying():
    await die()
"""


def _crew(tmp_path: Path, url: str) -> tuple[Crew, Path]:
    app, notes = tmp_path / "deaths_app.py", tmp_path / "notes.txt"
    app.write_text(APP, encoding="utf-8")
    notes.touch()
    return Crew(app, url, tmp_path, NOTES=str(notes)), notes


def _words(notes: Path) -> list[str]:
    return notes.read_text(encoding="utf-8").split()


def test_a_step_that_exits_fails_and_its_worker_lives(tmp_path: Path, url: str) -> None:
    """``sys.exit()`` is an exception like any other: it is tried as often as the policy says, by one worker."""

    async def main(crew: Crew, notes: Path) -> None:
        async with Holdfast(url, worker=False) as client:
            run = await client.start("deaths.leaving", id="run")
            worker = crew.hire()
            await until_status(run, "failed")
            assert "SystemExit" in str((await run.info()).error)
            assert _words(notes) == ["exit"] * 3
            assert worker.alive
        crew.retire()

    crew, notes = _crew(tmp_path, url)
    with crew:
        asyncio.run(main(crew, notes))


def test_a_step_that_kills_its_process_counts_against_the_run(tmp_path: Path, url: str) -> None:
    """A worker after the other dies of it, until the run has cost as many as the crash limit says and is parked."""

    async def main(crew: Crew, notes: Path) -> None:
        async with Holdfast(url, worker=False) as client:
            run = await client.start("deaths.dying", id="run")
            for _ in range(LIMIT + 3):
                worker = crew.hire()

                async def over() -> bool:
                    return not worker.alive or await run.status() == "paused"  # noqa: B023

                await eventually(over, "a death")
                if await run.status() == "paused":
                    break
            assert "poison" in str((await run.info()).pause)
            assert LIMIT <= len(_words(notes)) <= LIMIT + 1

    crew, notes = _crew(tmp_path, url)
    with crew:
        asyncio.run(main(crew, notes))


@pytest.mark.parametrize("queued", [False, True])
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_step_that_is_begun_again_is_told_so(
    tmp_path: Path, request: pytest.FixtureRequest, url: str, store: str, queued: bool
) -> None:
    """Only the attempt that the dead worker may have begun; neither the step before it nor the attempt after it."""
    if store == "postgres":
        url = request.getfixturevalue("postgres").schema_url()

    async def main(crew: Crew, notes: Path) -> None:
        async with Holdfast(url, worker=False) as client:
            run = await client.start("deaths.repeating", queued, 2, id="run")
            worker = crew.hire()
            until(lambda: not worker.alive, "the worker to die of it")
            crew.members.remove(worker)
            crew.hire()
            await until_status(run, "completed")
            assert _words(notes) == ["first:False", "1:False", "1:True", "2:False"]
            assert (await run.verify()).good
            items = fold([entry async for entry in read(client.store, await run.info())])
            assert [attempt for item in items for attempt, _ in item.repeats] == [1]
        crew.retire()

    crew, notes = _crew(tmp_path, url)
    with crew:
        asyncio.run(main(crew, notes))
