"""Events whose process is killed: a worker starts what was left, once."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

from holdfast import Holdfast, workflow
from holdfast.client.templates.emitter import FINISH_SECONDS
from holdfast.runs.clock import SYSTEM_CLOCK
from tests.acceptance.processes import eventually, sqlite_url

DYING = """
import asyncio, os, signal, sys
from holdfast import Holdfast
from holdfast.client.templates.instance_starter import InstanceStarter
from holdfast.templates.template import EventRoute
from tests.acceptance.test_emitted_events import hear

commit, left = InstanceStarter.commit, [1]

async def until_killed(*args, **options):
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    left.pop()
    return await commit(*args, **options)

async def main():
    async with Holdfast(sys.argv[1], worker=False) as app:
        for name in ("one", "two", "three"):
            await app.templates.create(name, hear, route=EventRoute("paid"), by="ann")
            await app.templates.activate(name, by="ann")
        InstanceStarter.commit = until_killed
        await app.emit("paid", {"total": 7}, id="e1", by="ann")

asyncio.run(main())
"""


class _LaterClock:
    """A clock of the time when a worker may take an open event for left alone."""

    def now(self) -> int:
        return SYSTEM_CLOCK.now() + FINISH_SECONDS * 1_000_000


@workflow(name="emitted.hear")
async def hear(total: int) -> int:
    return total


def test_an_event_whose_process_is_killed_is_finished_by_a_worker(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "events.db")
    killed = subprocess.run([sys.executable, "-c", DYING, url], check=False)
    assert killed.returncode == -signal.SIGKILL

    async def main() -> None:
        async with Holdfast(url, worker=False) as app:
            assert [run.status async for run in app.list()] == ["queued"]
        async with Holdfast(url, workflows=[hear], clock=_LaterClock()) as app:

            async def all_done() -> bool:
                return [run.status async for run in app.list()] == ["completed"] * 3

            await eventually(all_done, "all instances")
            again = await app.emit("paid", {"total": 7}, id="e1", by="ann")
            assert (again.repeated, sorted(again.started)) == (True, sorted([run.id async for run in app.list()]))

    asyncio.run(main())
