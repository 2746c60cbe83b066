"""Schedules in real processes that are killed: each tick is started once, and none is lost."""

from __future__ import annotations

import asyncio
import datetime
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.audit import records as r
from holdfast.audit.collector import entries_of
from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.store import protocol as p
from holdfast.testing.postgres import PostgresServer
from holdfast.worker.roles.scheduler import LOOK_SECONDS
from tests.acceptance import clockwork_app
from tests.acceptance.processes import WorkerGroup, eventually, sqlite_url
from tests.scope import one_stays

APP = Path(clockwork_app.__file__)
KILLS = 3
SOON = datetime.timedelta(seconds=LOOK_SECONDS / 2)
"""A scheduler that was not woken would look later."""


@pytest.fixture(params=one_stays(["sqlite", "postgres"]))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "clockwork.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.schema_url()


async def _acts(app: Holdfast, *words: str) -> list[r.Operated]:
    found = [r.decode(entry.body) async for entry in entries_of(app.store, p.AuditQuery(DEFAULT_TENANT))]
    return [each for each in found if isinstance(each, r.Operated) and each.act in words]


def test_killed_schedulers_start_each_tick_once(place: str, tmp_path: Path) -> None:
    """Two workers, of which one is killed again and again; a tick each second, by another process's clock."""

    async def main(group: WorkerGroup) -> None:
        async with Holdfast(place, worker=False) as app:
            await app.schedules.create("s", "strike", cron="* * * * * *", overlap="allow", catch_up="all")
            for _ in range(2):
                group.start()
            for kill in range(KILLS):
                await eventually(lambda kill=kill: _has(app, 2 * kill + 2), "ticks")  # type: ignore[misc]
                group.kill(group.members[0])
                group.start()
            await eventually(lambda: _has(app, 2 * KILLS + 2), "the last ticks")
            await app.schedules.pause("s")
            acts = await _acts(app, "trigger_scheduled", "skip_scheduled", "miss_scheduled", "refuse_scheduled")
            assert {each.act for each in acts} == {"trigger_scheduled"}
            ticks = [datetime.datetime.fromisoformat(each.details["tick"]) for each in acts]
            first = ticks[0]
            assert ticks == [first + datetime.timedelta(seconds=at) for at in range(len(ticks))]
            runs = {row.key.run for row in await app.store.find(p.Query(), 1_000)}
            assert runs == {each.run for each in acts}

    async def _has(app: Holdfast, count: int) -> bool:
        return len(await _acts(app, "trigger_scheduled")) >= count

    with WorkerGroup(APP, place, tmp_path) as group:
        asyncio.run(main(group))


def test_a_schedule_made_by_another_process_is_on_time(place: str) -> None:
    """Its worker sleeps, and is woken by a hint or by its own look; and a tick that waits starts at its run's end."""

    async def main() -> None:
        async with Holdfast(place, workflows=[clockwork_app.strike]) as app, Holdfast(place, worker=False) as other:
            at = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=1)
            await other.schedules.create("once", "strike", at=at)
            handle = app.run(f"once@{at.strftime('%Y-%m-%dT%H:%M:%S.%fZ')}")
            await eventually(lambda: _exists(app, handle.key), "the run")
            info = await handle.info()
            assert datetime.timedelta(0) <= info.created_at - at < SOON
            assert await handle.result() == 12

    async def _exists(app: Holdfast, key: p.Key) -> bool:
        return bool(await app.store.get([key]))

    asyncio.run(main())
