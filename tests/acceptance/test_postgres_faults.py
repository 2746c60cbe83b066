"""PostgreSQL fails under load: in crashes, and for a long time. The workers recover without help."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.testing.postgres import PostgresServer
from holdfast.testing.replication import STANDBY, Replicated, Standby, joint_url, pair
from tests.acceptance import storm_app
from tests.acceptance.evidence import check_steps, check_store, results_of, rows_of
from tests.acceptance.processes import WorkerGroup, eventually, start_all, until_completed
from tests.acceptance.test_kills import workers_on
from tests.scope import SEED, volume

RUNS = 300
OUTAGE_SECONDS = volume(8.0, 20.0)


async def _until_under_way(group: WorkerGroup, app: Holdfast) -> None:
    async def moving() -> bool:
        completed: int = (await app.store.facts()).runs.get("completed", 0)
        return completed > 0 and all(member.ready for member in group.members)

    await eventually(moving, "runs to be under way")


async def _check(app: Holdfast, log: Path) -> None:
    assert await results_of(app, await rows_of(app)) == {f"r-{n}": storm_app.expected(n) for n in range(RUNS)}
    await check_steps(app, log)
    await check_store(app)


async def _crashes(server: PostgresServer, folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    url = server.schema_url()
    async with Holdfast(url, worker=False) as app:
        await start_all(app, storm_app.total_of, RUNS)
        with workers_on(url, folder, "--concurrency", "4") as group:
            for _ in range(2):
                group.start()
            await _until_under_way(group, app)
            for _ in range(3):
                await asyncio.sleep(chance.uniform(0.05, 0.4))
                await asyncio.to_thread(server.stop, "immediate")
                await asyncio.to_thread(server.start)
            await until_completed(app, RUNS)
            assert all(member.alive for member in group.members)
            group.stop()
        await _check(app, folder / "steps.log")


def test_a_server_that_crashes_under_load_only_costs_time(tmp_path: Path, own_postgres: PostgresServer) -> None:
    """``pg_ctl stop -m immediate`` and start, three times: the same worker processes finish every run."""
    asyncio.run(_crashes(own_postgres, tmp_path, SEED))


async def _outage(server: PostgresServer, folder: Path) -> None:
    url = server.schema_url()
    async with Holdfast(url, worker=False) as app:
        await start_all(app, storm_app.total_of, RUNS)
        with workers_on(url, folder, "--concurrency", "4") as group:
            member = group.start()

            async def answered() -> bool:
                return "the store answers again" in member.output

            await _until_under_way(group, app)
            await asyncio.to_thread(server.stop, "immediate")
            waiting = asyncio.create_task(app.run("r-1").signal("nobody", "waits for this"))
            await asyncio.sleep(OUTAGE_SECONDS)  # the outage itself: longer than leases and timeouts
            assert "does not answer" in member.output or "Connect call failed" in member.output
            await asyncio.to_thread(server.start)
            await until_completed(app, RUNS)
            await eventually(answered, "the worker to say that the store answers again")
            assert "Traceback" not in member.output
            await asyncio.wait([waiting])
            group.stop()
        await _check(app, folder / "steps.log")


@pytest.mark.long
def test_a_long_outage_is_logged_and_survived_without_help(tmp_path: Path, own_postgres: PostgresServer) -> None:
    """Many seconds without a server, with leases of two: the worker logs it, continues by itself, finishes all."""
    asyncio.run(_outage(own_postgres, tmp_path))


async def _promotion(primary: Replicated, standby: Standby, folder: Path, seed: int) -> None:
    url = joint_url(primary.url(), primary, standby)
    async with Holdfast(url, worker=False) as app:
        await start_all(app, storm_app.total_of, RUNS)
        with workers_on(url, folder, "--concurrency", "4") as group:
            for _ in range(2):
                group.start()
            await _until_under_way(group, app)
            await asyncio.sleep(random.Random(seed).uniform(0.05, 0.4))
            await asyncio.to_thread(primary.stop, "immediate")
            await asyncio.to_thread(standby.promote)
            await until_completed(app, RUNS)
            assert all(member.alive for member in group.members)
            assert not any("IS BEHIND" in member.output for member in group.members)
            group.stop()
        await _check(app, folder / "steps.log")


@pytest.mark.long
def test_a_synchronous_standby_promoted_under_load_has_everything(tmp_path: Path) -> None:
    """The primary is killed, and the standby takes its place: the same worker processes finish every run."""
    with pair() as (primary, standby):
        primary.wait_for(STANDBY)
        asyncio.run(_promotion(primary, standby, tmp_path, SEED))
