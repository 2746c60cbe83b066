"""Workers that do not have a machine: its lanes are not theirs, and wait for one that has it."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast import Holdfast
from holdfast.runs.lanes import is_lane
from holdfast.store import protocol as p
from tests.unit.machines.crawlers import Asked, Log, deaf, site
from tests.unit.machines.workers import PLAIN, worker_with
from tests.unit.worker.ground import Ground


async def _lanes(app: Holdfast) -> list[p.Run]:
    return [run for run in await app.store.find(p.Query("default"), 100) if is_lane(run.key.run)]


def test_a_worker_without_machines_takes_no_lane() -> None:
    """It may serve the queue of a machine's effects all the same."""

    async def main(ground: Ground) -> None:
        async with worker_with(ground, options=replace(PLAIN, queues={"crawl": 1})) as carrier:
            async with worker_with(ground, [site], worker=False) as sender:
                await sender.emit(Asked("a", "queued", [1]))
            for _ in range(20):
                await carrier.changed(1)
            assert [(run.owner, run.pause, run.consumed) for run in await _lanes(carrier)] == [(None, None, 0)]
            async with worker_with(ground, [site], options=replace(PLAIN, queues={})) as app:
                while await app.cell(site, "a").state() != Log([[0, 1, ["a", 1]], [0, "a crawled"]]):
                    await app.changed(0.5)

    Ground(None).play(main)


def test_a_lane_whose_machine_no_worker_has_waits_for_one_that_has_it() -> None:
    """A worker with other machines says so, and nobody needs to resume the lane."""

    async def main(ground: Ground) -> None:
        async with worker_with(ground, [deaf]) as other:
            async with worker_with(ground, [site], worker=False) as sender:
                await sender.emit(Asked("a", "here", [1]))
            while (await _lanes(other))[0].pause is None:
                await other.changed(0.5)
            (lane,) = await _lanes(other)
            assert lane.pause is not None
            assert "no machine 'crawl.site'" in lane.pause
            async with worker_with(ground, [site]) as app:
                while await app.cell(site, "a").state() != Log([[0, 1, ["a", 1]], [0, "a crawled"]]):
                    await app.changed(0.5)

    Ground(None).play(main)
