"""Lanes that are split while events arrive, on real stores, with two workers that share the lanes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import Holdfast, step
from holdfast.cells.cell import decode_cell
from holdfast.journal.payload import Ok
from holdfast.programs.machine.handle import Cell
from holdfast.programs.machine.lanes import succession
from holdfast.programs.machine.machine import machine
from holdfast.programs.machine.occurrences import Settled
from holdfast.programs.machine.schemas import schema
from holdfast.store import protocol as p
from holdfast.testing.postgres import PostgresServer
from holdfast.worker.lanes import cell_supplier
from tests.scope import one_stays

KEYS = 30
EVENTS = 6


@schema("splitting/Counted@1")
@dataclass
class Counted:
    key: str
    number: int


@schema("splitting/Echoed@1")
@dataclass
class Echoed:
    key: str
    number: int


@schema("splitting/Timed@1")
@dataclass
class Timed:
    key: str


@schema("splitting/Counter@1")
@dataclass
class Counter:
    seen: list[int] = field(default_factory=list)
    echoed: list[int] = field(default_factory=list)
    settled: list[int] = field(default_factory=list)
    timers: int = 0


@step(name="splitting.work")
async def work(number: int) -> int:
    await asyncio.sleep(0.05 * (number % 3))
    return number


@machine(key="key", effects=[work], emits=[Echoed], name="splitting.counter", lanes=2)
def counter(state: Counter | None, event: Counted | Echoed | Timed | Settled, cell: Cell) -> Counter | None:
    """Writes down all that it hears, sends itself an event at once and one later, and works."""
    now = state or Counter()
    match event:
        case Counted(number=number):
            cell.emit(Echoed(cell.key, number))
            cell.do(work, number)
            if number == 0:
                cell.send(Timed(cell.key), after=timedelta(milliseconds=200))
            return replace(now, seen=[*now.seen, number])
        case Echoed(number=number):
            return replace(now, echoed=[*now.echoed, number])
        case Timed():
            return replace(now, timers=now.timers + 1)
        case Settled(outcome=Ok(number)):
            return replace(now, settled=[*now.settled, number])
    return now


@pytest.fixture(params=one_stays(["sqlite", "postgres"]))
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.schema_url()


async def _send(app: Holdfast, keys: range) -> None:
    for number in range(EVENTS):
        for key in keys:
            await app.emit(Counted(f"k{key}", number), id=f"k{key}-{number}")


async def _rest(app: Holdfast) -> dict[str, Counter]:
    """The counters, once nothing is under way any more."""
    async with asyncio.timeout(60):
        while True:
            runs = await app.store.find(p.Query("default"), 1000)
            rows = await app.store.find_cells(p.CellQuery("default", counter.name), 1000)
            records = [decode_cell(row.record) for row in rows]
            busy = any(run.arrived > run.consumed or run.split == p.INHERITS for run in runs)
            if not busy and not any(each.intents or each.timers for each in records):
                return {counter.read_key(each.key): counter.state.decode(each.state or b"") for each in records}
            await asyncio.sleep(0.05)


def test_nothing_is_lost_doubled_or_overtaken_while_lanes_are_split(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers, two senders and two splits at once: each event is handled once, those of a key in the order of their
    commits, each effect gives one receipt, each timer rings once; and all journals are what the handlers do."""
    monkeypatch.setattr(succession, "AT_ONCE", 4)
    monkeypatch.setattr(cell_supplier, "AT_ONCE", 4)

    async def splits(app: Holdfast) -> None:
        for lanes in (4, 8):
            await asyncio.sleep(0.1)
            while (await app.machines.show(counter)).moving:
                await app.changed(0.02)
            await app.machines.split(counter, lanes)

    async def main() -> None:
        async with Holdfast(url) as one, Holdfast(url) as two:
            await asyncio.gather(_send(one, range(0, KEYS, 2)), _send(two, range(1, KEYS, 2)), splits(two))
            await _send(one, range(KEYS))  # all of it again: each is known by its id, in whichever lane it was
            found = await _rest(one)
            assert len(found) == KEYS
            for each in found.values():
                assert each.seen == list(range(EVENTS))
                assert each.echoed == list(range(EVENTS))
                assert sorted(each.settled) == list(range(EVENTS))
                assert each.timers == 1
            shown = await one.machines.show(counter)
            assert (shown.lanes, shown.moving, shown.unmoved) == (8, 0, 0)
            async for lane in one.machines.verify(counter):
                assert lane.good, lane.problems

    asyncio.run(main())
