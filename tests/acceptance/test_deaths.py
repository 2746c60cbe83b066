"""Steps that end their process: some end only the attempt, others count as a crash of the run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.client.views.timeline import fold
from holdfast.runs.journals import read, row_of
from tests.acceptance.processes import WorkerGroup, eventually, until, until_status
from tests.scope import one_stays

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


def _group(tmp_path: Path, url: str) -> tuple[WorkerGroup, Path]:
    app, notes = tmp_path / "deaths_app.py", tmp_path / "notes.txt"
    app.write_text(APP, encoding="utf-8")
    notes.touch()
    return WorkerGroup(app, url, tmp_path, NOTES=str(notes)), notes


def _lines(notes: Path) -> list[str]:
    return notes.read_text(encoding="utf-8").split()


def test_a_step_that_exits_fails_and_its_worker_lives(tmp_path: Path, url: str) -> None:
    """``sys.exit()`` is like any other exception: the step is tried as often as its policy allows, by one worker."""

    async def main(group: WorkerGroup, notes: Path) -> None:
        async with Holdfast(url, worker=False) as client:
            run = await client.start("deaths.leaving", id="run")
            worker = group.start()
            await until_status(run, "failed")
            assert "SystemExit" in str((await run.info()).error)
            assert _lines(notes) == ["exit"] * 3
            assert worker.alive
        group.stop()

    group, notes = _group(tmp_path, url)
    with group:
        asyncio.run(main(group, notes))


def test_a_step_that_kills_its_process_counts_against_the_run(tmp_path: Path, url: str) -> None:
    """It kills one worker after the other, until the run has reached the crash limit and is parked."""

    async def main(group: WorkerGroup, notes: Path) -> None:
        async with Holdfast(url, worker=False) as client:
            run = await client.start("deaths.dying", id="run")
            for _ in range(LIMIT + 3):
                worker = group.start()

                async def over() -> bool:
                    return not worker.alive or await run.status() == "paused"  # noqa: B023

                await eventually(over, "a death")
                if await run.status() == "paused":
                    break
            assert "poison" in str((await run.info()).pause_reason)
            assert LIMIT <= len(_lines(notes)) <= LIMIT + 1

    group, notes = _group(tmp_path, url)
    with group:
        asyncio.run(main(group, notes))


@pytest.mark.parametrize("queued", [False, True])
@pytest.mark.parametrize("store", one_stays(["sqlite", "postgres"]))
def test_a_step_that_is_begun_again_can_see_it(
    tmp_path: Path, request: pytest.FixtureRequest, url: str, store: str, queued: bool
) -> None:
    """``begun_before`` is true only in the attempt that the dead worker may have begun."""
    if store == "postgres":
        url = request.getfixturevalue("postgres").schema_url()

    async def main(group: WorkerGroup, notes: Path) -> None:
        async with Holdfast(url, worker=False) as client:
            run = await client.start("deaths.repeating", queued, 2, id="run")
            worker = group.start()
            until(lambda: not worker.alive, "the step to kill its worker")
            group.members.remove(worker)
            group.start()
            await until_status(run, "completed")
            assert _lines(notes) == ["first:False", "1:False", "1:True", "2:False"]
            assert (await run.verify()).good
            items = fold([entry async for entry in read(client.store, await row_of(client.store, run.key))])
            assert [attempt for item in items for attempt, _ in item.repeats] == [1]
        group.stop()

    group, notes = _group(tmp_path, url)
    with group:
        asyncio.run(main(group, notes))
