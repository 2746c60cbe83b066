"""The laws of roots: a root of a version has the cells exactly as the lane's journal has them there."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Sequence

import pytest

from holdfast.cells import tree
from holdfast.cells.cell import CellRecord, decode_entry, encode_cell
from holdfast.cells.growth import growth
from holdfast.journal.cbor import canonical
from holdfast.journal.promise import PromiseId
from holdfast.lanes import roots
from holdfast.lanes.roots import collect_garbage, make_root, read_cells
from holdfast.programs.machine.kind import Machines
from holdfast.programs.machine.lanes.checked_lane import check_lane
from holdfast.runs.journals import check_chain
from holdfast.runs.lanes import lane_id
from holdfast.store import protocol as p
from holdfast.store.memory.store import MemoryStore
from holdfast.testing.stores.machines.cell_roots import written
from holdfast.testing.stores.samples import NOW, key
from holdfast.testing.virtual import VirtualClock, run_virtually
from tests.laws.machines.bank import Account, Event, account, events
from tests.laws.machines.test_lanes import TENANT, Life
from tests.scope import each_seed

LANES = [p.Key(TENANT, lane_id(account.name, index)) for index in range(account.lanes)]


class RootedLife(Life):
    """A history in which roots are made at any time, beside the turns, by two who know nothing of each other."""

    def __init__(self, seed: int, keep: int) -> None:
        super().__init__(seed)
        self.made = 0
        self._keep = keep

    async def run(self, given: list[Event]) -> dict[str, Account]:
        makers: list[asyncio.Task[None]] = []
        life = asyncio.create_task(super().run(given))
        await asyncio.sleep(0)
        makers = [asyncio.create_task(self._make(random.Random(f"{self.seed} {each}"))) for each in range(2)]
        try:
            return await life
        finally:
            for maker in makers:
                maker.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await maker

    async def _make(self, chance: random.Random) -> None:
        while True:
            await asyncio.sleep(chance.random() * 2)
            lane = chance.choice(LANES)
            self.made += await make_root(self.store, self.clock, lane) is not None
            if chance.random() < 0.3:
                await collect_garbage(self.store, lane, keep=self._keep)

    async def cells_at(self, lane: p.Key, version: int) -> dict[bytes, CellRecord]:
        """The cells by the handlers alone, from the first part of the journal."""
        (run,) = await self.store.get([lane])
        entries = [entry async for entry in check_chain(self.store, run)][:version]
        board = Machines({account.name: account}).board
        return check_lane(PromiseId(run.root), entries, account, board, self.clock.now(), random.Random(0)).cells


def _root_of(cells: dict[bytes, CellRecord]) -> bytes:
    grown = growth((key, encode_cell(record)) for key, record in cells.items())
    return tree.apply(tree.EMPTY, grown.changes, {}.__getitem__).root


async def _history(life: RootedLife, given: list[Event]) -> int:
    await life.run(given)
    checked = 0
    for lane in LANES:
        await make_root(life.store, life.clock, lane)
        for row in await life.store.roots(lane, 1000):
            expected = await life.cells_at(lane, row.version)
            assert (row.root, row.cells) == (_root_of(expected), len(expected))
            await _assert_readable(life.store, row, expected)
            checked += 1
    return checked


async def _assert_readable(store: p.Store, row: p.RootRow, expected: dict[bytes, CellRecord]) -> None:
    names = await store.cell_node_names(row.key, 100_000)
    nodes = await store.cell_nodes(row.key, names)
    found = {}
    for _, data in tree.entries(row.root, nodes.__getitem__):
        entry = decode_entry(data)
        found[entry.key] = nodes[entry.record_hash]
    assert found == {key: encode_cell(record) for key, record in expected.items()}


@each_seed(0.7)
def test_a_root_has_the_cells_of_its_version_whatever_happens_meanwhile(seed: int) -> None:
    """Turns go on while it is made, engines die, and others make roots of the same lane; equal content, equal root."""
    chance = random.Random(seed)
    given = events(seed, chance.randint(5, 25))
    life = RootedLife(seed, keep=1000)

    run_virtually(_history(life, given))


def test_roots_are_made_meanwhile() -> None:
    """Otherwise the law above would prove nothing."""
    life = RootedLife(0, keep=1000)
    assert run_virtually(_history(life, events(0, 20))) > 0
    assert life.made > 0


@each_seed(0.5)
def test_garbage_is_what_no_kept_root_needs(seed: int) -> None:
    """Kept roots stay readable to the last record, and nothing else is left when the garbage is collected."""
    life = RootedLife(seed, keep=2)

    async def check() -> None:
        await _history(life, events(seed, 20))
        for lane in LANES:
            await collect_garbage(life.store, lane, keep=1)
            names = set(await life.store.cell_node_names(lane, 100_000))
            nodes = await life.store.cell_nodes(lane, list(names))
            needed = set()
            for row in await life.store.roots(lane, 10):
                for name, leaf in tree.walk([row.root], nodes.__getitem__):
                    needed |= {name, *(decode_entry(entry).record_hash for entry in leaf.values())}
            if len(await life.store.roots(lane, 10)) == 1:
                assert names - {tree.EMPTY} == needed - {tree.EMPTY}

    run_virtually(check())


def test_a_root_that_is_made_while_garbage_is_collected_keeps_all_that_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Garbage is swept a little at a time. A root between two such times may need what was garbage before it."""
    monkeypatch.setattr(roots, "AT_ONCE", 3)

    async def check() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        store = MemoryStore(clock.now)
        await store.open()
        before, after = (_cells(stage) for stage in ("before", "after"))
        for cells in (before, after):
            await written(store, cells)
            await make_root(store, clock, key())
        sweep, times = store.sweep, 0

        async def swept(lane: p.Key, last: int, versions: Sequence[int], names: Sequence[bytes]) -> bool:
            nonlocal times
            times += 1
            if times == 3:  # after the root itself, and the first nodes of it
                await written(store, before)
                await make_root(store, clock, key())
            return await sweep(lane, last, versions, names)

        store.sweep = swept  # type: ignore[method-assign]
        assert await collect_garbage(store, key(), keep=1) == 3
        newest, old = await store.roots(key(), 10)
        assert (await read_cells(store, key(), newest.root)).cells == before
        assert (await read_cells(store, key(), old.root)).cells == after
        assert await collect_garbage(store, key(), keep=1) > 0
        assert (await read_cells(store, key(), newest.root)).cells == before

    run_virtually(check())


def _cells(stage: str) -> dict[bytes, bytes]:
    keys = [canonical(f"order-{number}") for number in range(100)]
    states = canonical({"stage": stage})
    return {each: encode_cell(CellRecord(key=each, state=states, status="waiting", last_active=NOW)) for each in keys}
