"""Workers killed with SIGKILL and stopped with SIGTERM, at any moment, again and again."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.testing.postgres import PostgresServer
from tests.acceptance import storm_app
from tests.acceptance.evidence import (
    begun_more_than_once,
    check_steps,
    check_store,
    interrupted,
    read_log,
    results_of,
    rows_of,
)
from tests.acceptance.processes import (
    WorkerGroup,
    WorkerProcess,
    eventually,
    sqlite_url,
    start_all,
    storm,
    until_completed,
)
from tests.scope import SEED, one_stays, volume

PORTION = 20
"""So many runs are started before each kill."""
ALONE, THREE = volume(5, 10), volume(7, 14)
"""How many kills a single worker gets, and three workers."""
APP = Path(storm_app.__file__)


def workers_on(url: str, folder: Path, *options: str) -> WorkerGroup:
    return WorkerGroup(
        APP,
        url,
        folder,
        "--lease-seconds",
        "2",
        "--grace-seconds",
        "20",
        *options,
        STORM_LOG=str(folder / "steps.log"),
    )


def _stormed(folder: Path, url_of: Callable[[Path], str], workers: int, kills: int, workflow: str) -> Path:
    """Let a storm pass, and another one where no kill came during a step: such a one proves nothing."""
    for number in range(4):
        place = folder / f"storm-{number}"
        place.mkdir()
        if asyncio.run(_survive(url_of(place), place, workers, kills, SEED + number, workflow)):
            return place
    raise AssertionError("no kill came during a step, in four storms: this test proves nothing")


async def _survive(url: str, folder: Path, workers: int, kills: int, seed: int, workflow: str) -> bool:
    """Whether a kill came during a step. The laws hold in any case."""
    runs = PORTION * kills
    async with Holdfast(url, worker=False) as app:

        async def feed(kill: int) -> None:
            await start_all(app, getattr(storm_app, workflow), PORTION, first=PORTION * kill)

        with workers_on(url, folder, "--concurrency", "4") as group:
            await storm(group, workers, kills, seed, seconds=(0.0, 0.5), feed=feed)
            await until_completed(app, runs)
            group.stop()
        rows = await rows_of(app)
        assert await results_of(app, rows) == {f"r-{n}": storm_app.expected(n) for n in range(runs)}
        lines = await check_steps(app, folder / "steps.log")
        await check_store(app)
        return interrupted(lines) > 0


def _alive_files(folder: Path) -> list[Path]:
    return list(folder.glob("*.alive"))


def _let_age(files: list[Path]) -> None:
    for file in files:
        os.utime(file, (0, 0))


async def _swept(folder: Path) -> None:
    """The next worker removes the files of workers that died before they were registered."""
    _let_age(_alive_files(folder))
    async with Holdfast(sqlite_url(folder / "storm.db"), workflows=[storm_app.part]):

        async def only_its_own() -> bool:
            return len(_alive_files(folder)) == 1

        await eventually(only_its_own, "the files of dead workers to be removed")
    assert _alive_files(folder) == []


@pytest.mark.parametrize(("workers", "kills", "workflow"), one_stays([(3, THREE, "mixed"), (1, ALONE, "total_of")]))
def test_a_storm_of_kills_on_sqlite_loses_nothing_and_repeats_nothing(
    tmp_path: Path, workers: int, kills: int, workflow: str
) -> None:
    """Every run ends with the right result, and no step begins after its completion was recorded."""
    place = _stormed(tmp_path, lambda folder: sqlite_url(folder / "storm.db"), workers, kills, workflow)
    with sqlite3.connect(place / "storm.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    asyncio.run(_swept(place))


@pytest.mark.long
def test_a_storm_of_kills_on_postgresql_loses_nothing_and_repeats_nothing(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """The same law with three workers on one server."""
    _stormed(tmp_path, lambda _: postgres.schema_url(), 3, THREE, "mixed")


async def _relay(url: str, folder: Path, seed: int) -> None:
    """One worker after the other is stopped, at a random moment or right after a step began; the next one continues."""
    chance = random.Random(seed)
    runs, log = volume(40, 60), folder / "steps.log"
    async with Holdfast(url, worker=False) as app:
        await start_all(app, storm_app.mixed, runs)
        with workers_on(url, folder, "--concurrency", "4") as group:
            for turn in range(volume(4, 6)):
                before = len(read_log(log))
                member = group.start()

                async def under_way(member: WorkerProcess = member, least: int = before + turn % 2) -> bool:
                    return member.ready and len(read_log(log)) >= least

                await eventually(under_way, "the worker to be at work")
                await asyncio.sleep(chance.uniform(0.0, 0.15) * ((turn + 1) % 2))
                group.stop()
                assert [run.id for run in await rows_of(app) if run.worker is not None] == []
                assert interrupted(read_log(log)) == 0
            group.start()
            await until_completed(app, runs)
            group.stop()
        rows = await rows_of(app)
        assert await results_of(app, rows) == {f"r-{n}": storm_app.expected(n) for n in range(runs)}
        assert begun_more_than_once(await check_steps(app, log)) == []
        await check_store(app)


async def _stop_inside_steps(url: str, folder: Path) -> None:
    runs, log = 20, folder / "steps.log"
    async with Holdfast(url, worker=False) as app:
        await start_all(app, storm_app.patiently, runs, 0.4)
        with workers_on(url, folder) as group:
            member = group.start()

            async def all_began() -> bool:
                return len(read_log(log)) >= runs

            await eventually(all_began, "a step of each run to begin")
            group.stop()
            assert f"finishing {runs} steps" in member.output
            assert interrupted(read_log(log)) == 0
            assert len(read_log(log)) == 2 * runs, "a stopping worker began another step"
            group.start()
            await until_completed(app, runs)
            group.stop()
        assert len(await check_steps(app, log)) == 4 * runs
        await check_store(app)


def test_steps_under_way_when_a_stop_comes_end_and_are_never_run_again(tmp_path: Path) -> None:
    """Each step begins once and ends once: the stopped worker ends the first of each run, the next one the second."""
    asyncio.run(_stop_inside_steps(sqlite_url(tmp_path / "storm.db"), tmp_path))


def test_a_graceful_stop_at_any_moment_hands_back_and_runs_nothing_twice(tmp_path: Path) -> None:
    """On SIGTERM, steps that end within the grace time are recorded; the next worker does the rest."""
    asyncio.run(_relay(sqlite_url(tmp_path / "storm.db"), tmp_path, SEED))


@pytest.mark.long
def test_a_graceful_stop_on_postgresql_runs_nothing_twice(tmp_path: Path, postgres: PostgresServer) -> None:
    """The same on PostgreSQL."""
    asyncio.run(_relay(postgres.schema_url(), tmp_path, SEED))
