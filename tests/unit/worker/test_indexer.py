"""The indexer makes the roots of lanes when they are due, and sweeps what no kept root needs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec.structs import replace

from holdfast.cells.cell import CellRecord, encode_cell
from holdfast.lanes.counts import LaneCounts
from holdfast.lanes.roots import KEPT_ROOTS
from holdfast.runs.lanes import lane_id
from holdfast.runs.role import Role
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.testing.stores.machines.cell_roots import put
from holdfast.testing.stores.samples import begun, start
from holdfast.testing.virtual import VirtualClock, run_virtually
from holdfast.worker.roles.indexer import EVENTS, LEFT_ALONE, LOOK_SECONDS, SECONDS, SWEPT_AT, Indexer

LANE = p.Key("acme", lane_id("orders", 0))


class Sealer(Role):
    woken = 0

    def wake(self) -> None:
        self.woken += 1


class Ground:
    """A store with one lane, leased to ``ann``, and an indexer of a worker."""

    def __init__(self, worker: str = "ann") -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.store = MemoryStore(self.clock.now)
        self.sealer = Sealer()
        self.indexer = Indexer(self.store, self.clock, worker, self.sealer)

    async def open(self) -> None:
        await self.store.open()
        await LaneCounts(self.store, self.clock).confirm("acme", {"orders": 1})
        await begun(self.store, start(LANE.run, owner="ann", at=self.clock.now()))

    async def write(self, cells: Mapping[bytes, int], events: int = 1) -> None:
        (run,) = await self.store.get([LANE])
        records: dict[bytes, bytes | None] = {
            key: encode_cell(CellRecord(key=key, state=bytes([state]))) for key, state in cells.items()
        }
        change = put(run, records)
        assert change.segment is not None
        change = replace(change, segment=replace(change.segment, count=events))
        (answer,) = await self.store.commit([change])
        assert isinstance(answer, p.Advanced)

    async def versions(self) -> list[int]:
        return [row.version for row in await self.store.roots(LANE, 1000)]


def test_a_lane_gets_a_root_some_time_after_its_last_one() -> None:
    """Not before, and not again while nothing is written."""

    async def check() -> None:
        ground = Ground()
        await ground.open()
        await ground.write({b"a": 1})
        assert await ground.indexer.round() == LOOK_SECONDS
        assert await ground.versions() == []
        await asyncio.sleep(SECONDS)
        for _ in range(2):
            await ground.indexer.round()
            (run,) = await ground.store.get([LANE])
            assert await ground.versions() == [run.version]
            await asyncio.sleep(SECONDS)
        assert ground.sealer.woken == 1
        (entry,) = await ground.store.entries(p.AuditQuery("acme", LANE.run), 10)
        assert entry.record["act"] == "root"
        assert entry.record["details"]["root"] == (await ground.store.roots(LANE, 1))[0].root.hex()

    run_virtually(check())


def test_a_busy_lane_gets_a_root_after_so_many_events() -> None:
    async def check() -> None:
        ground = Ground()
        await ground.open()
        await ground.write({b"a": 1}, events=EVENTS)
        await ground.indexer.round()
        assert len(await ground.versions()) == 1
        await ground.write({b"a": 2}, events=EVENTS - 1)
        await ground.indexer.round()
        assert len(await ground.versions()) == 1

    run_virtually(check())


def test_a_lane_is_left_to_the_worker_that_leases_it() -> None:
    """Unless that one has done nothing for long."""

    async def check() -> None:
        ground = Ground(worker="bob")
        await ground.open()
        await ground.write({b"a": 1}, events=2 * EVENTS)
        await asyncio.sleep(SECONDS)
        await ground.indexer.round()
        assert await ground.versions() == []
        await asyncio.sleep((LEFT_ALONE - 1) * SECONDS)
        await ground.indexer.round()
        assert len(await ground.versions()) == 1

    run_virtually(check())


def test_a_lane_with_many_roots_is_swept() -> None:
    """The last ones stay, with their nodes and records."""

    async def check() -> None:
        ground = Ground()
        await ground.open()
        for number in range(SWEPT_AT):
            await ground.write({b"a": number})
            await asyncio.sleep(SECONDS)
            await ground.indexer.round()
        assert len(await ground.versions()) == KEPT_ROOTS
        assert len(await ground.store.cell_node_names(LANE, 1000)) == 2 * KEPT_ROOTS

    run_virtually(check())


def test_a_lane_with_a_damaged_row_does_not_keep_the_others_from_their_roots() -> None:
    async def check() -> None:
        ground = Ground()
        await ground.open()
        await LaneCounts(ground.store, ground.clock).confirm("zeta", {"orders": 1})
        await ground.write({b"a": 1})
        other = p.Key("zeta", LANE.run)
        await begun(ground.store, replace(start(LANE.run, owner="ann", at=ground.clock.now()), key=other))
        (run,) = await ground.store.get([other])
        await ground.store.commit([put(run, {b"k": b"damaged"})])
        await asyncio.sleep(SECONDS)
        await ground.indexer.round()
        assert len(await ground.versions()) == 1
        assert await ground.store.roots(other, 10) == []

    run_virtually(check())
