"""The laws of splits: lanes are split at any time, whatever dies when, and nobody can tell it from the cells."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

from holdfast import Holdfast
from holdfast.cells.cell import decode_cell
from holdfast.errors import InvalidRequest
from holdfast.lanes.counts import LANE_COUNT, LaneTable, read_table
from holdfast.programs.machine.lanes import succession
from holdfast.runs.lanes import parse_lane, place_of
from holdfast.store import protocol as p
from holdfast.testing.virtual import run_virtually
from holdfast.worker.lanes import cell_supplier
from tests.laws.machines import bank
from tests.laws.machines.bank import Account, Event, account, events, expected
from tests.laws.machines.test_lanes import TENANT, Life, _comparable
from tests.scope import each_seed

MOST_SPLITS = 2


@pytest.fixture(autouse=True)
def small_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cells are handed over in a turn, and two events are caught up with: a few cells are many turns. Effects take
    long enough to be open when their cell is handed over."""
    monkeypatch.setattr(succession, "AT_ONCE", 2)
    monkeypatch.setattr(cell_supplier, "AT_ONCE", 2)
    monkeypatch.setattr(bank, "fee_seconds", 8.0)


class SplitLife(Life):
    """A history in which lanes are split while events come, and while engines die."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.looked = 0

    async def _send(self, app: Holdfast, left: list[Event]) -> None:
        splitting = asyncio.create_task(self._split(app))
        try:
            await self._send_and_look(app, left)
            await splitting
        finally:
            splitting.cancel()
            await asyncio.wait([splitting])

    async def _send_and_look(self, app: Holdfast, left: list[Event]) -> None:
        while left:
            event = left[0]
            sent = await app.machines.send(event, id=event.id)
            left.pop(0)
            if self.chance.random() < 0.3:
                await asyncio.sleep(self.chance.random() * 4)
            if self.chance.random() < 0.2:
                await self._look(app, event, sent.places[0])

    async def _look(self, app: Holdfast, event: Event, place: object) -> None:
        """A cell is never missing because it is between two lanes, and whoever waits for an event sees it."""
        state = await app.cell(account, event.account).state(after=place)  # type: ignore[arg-type]
        assert state is not None
        assert event.id in state.seen
        self.looked += 1

    async def _split(self, app: Holdfast) -> None:
        while True:
            await asyncio.sleep(self.chance.random() * 6)
            table = await self.table()
            count = account.lanes if table is None else table.in_force
            if table is not None and len(table.splits) == MOST_SPLITS:
                return
            with contextlib.suppress(InvalidRequest):  # the one before is under way
                await app.machines.split(account, count * self.chance.choice([2, 2, 3]))

    async def table(self) -> LaneTable | None:
        item = await self.store.item(p.ItemKey(TENANT, LANE_COUNT, account.name))
        return None if item is None else read_table(item)


async def _assert_all_in_force(life: SplitLife) -> None:
    """Every cell is in the lane that has its key now, and those that were split have none."""
    table = await life.table()
    assert table is not None
    for row in await life.store.find_cells(p.CellQuery(TENANT, account.name), 1000):
        found = parse_lane(row.lane)
        assert found == (account.name, table.first + (place_of(row.key) * table.in_force >> 32))
        assert decode_cell(row.record).intents == ()


@each_seed(0.5)
def test_every_event_is_handled_once_and_in_order_however_lanes_are_split(seed: int) -> None:
    """No event, effect or timer is lost or doubled, each cell hears its own events in the order of their commits, a
    state is there for whoever looks, and the journals of all lanes, replayed, give the rows."""
    given = events(seed, random.Random(seed).randint(5, 30))
    life = SplitLife(seed)

    async def history() -> dict[str, Account]:
        async with asyncio.timeout(20_000):  # a receipt that is lost would be waited for without end
            found = await life.run(given)
        await _assert_all_in_force(life)
        return found

    found = run_virtually(history())

    assert _comparable(found) == _comparable(expected(given))
    for name, each in found.items():
        own = [event.id for event in given if event.account == name]
        assert [id for id in each.seen if not id.endswith("+")] == own
