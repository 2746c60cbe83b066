"""What is held for a parked cell: all that was acknowledged, in its order; from outside no more than the limit."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from unittest import mock

import pytest

from holdfast import Holdfast
from holdfast.cells.cell import CellRecord
from holdfast.errors import CellFull, LaneFull
from holdfast.programs.machine.handle import Cell
from holdfast.programs.machine.lanes import cell_turn
from holdfast.programs.machine.lanes.cell_turn import KnownTurn
from holdfast.programs.machine.lanes.lane import LaneProgram
from holdfast.programs.machine.machine import machine
from holdfast.runs.lanes import lane_id
from holdfast.store import protocol as p
from tests.unit.worker.ground import Ground

LIMIT = 3


@dataclass
class HeldTold:
    name: str
    number: int


@dataclass
class HeldAsked:
    name: str
    count: int


@dataclass
class HeldList:
    numbers: list[int] = field(default_factory=list)


class Bug:
    there = True


@machine(key="name", name="held.list", lanes=1)
def listing(state: HeldList | None, event: HeldTold, cell: Cell) -> HeldList:
    """It writes down what it hears, and cannot hear of zero while there is the bug."""
    if event.number == 0 and Bug.there:
        raise ValueError("a bug")
    return HeldList([*(state or HeldList()).numbers, event.number])


@machine(key="name", emits=[HeldTold], name="held.source", lanes=1)
def source(state: HeldList | None, event: HeldAsked, cell: Cell) -> HeldList:
    """It emits as much as it is asked for."""
    numbers = (state or HeldList()).numbers
    for number in range(event.count):
        cell.emit(HeldTold(cell.key, len(numbers) + number + 1))
    return HeldList([*numbers, *range(event.count)])


@pytest.fixture(autouse=True)
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier rules would make dead letters here, and nothing that is taken in may be one."""
    Bug.there = True
    monkeypatch.setattr(cell_turn, "HELD_BEFORE", LIMIT)


async def opened(app: Holdfast) -> None:
    """Park the cell a."""
    app.machine_kind.held_limit = LIMIT
    await app.emit(HeldTold("a", 0), id="e0")
    await handled(app)
    assert (await record(app)).status == "parked"


async def handled(app: Holdfast) -> None:
    lanes = [p.Key("default", lane_id(name, 0)) for name in (source.name, listing.name)]
    while True:
        runs = await app.store.get(lanes)
        if all(run.consumed == run.arrived for run in runs):
            return
        await app.changed(0.05)


async def record(app: Holdfast) -> CellRecord:
    found = await app.cell(listing, "a").record()
    assert found is not None
    return found


async def numbers(app: Holdfast) -> list[int]:
    state = await app.cell(listing, "a").state()
    return [] if state is None else state.numbers


async def letters(app: Holdfast) -> list[str]:
    return [each.reason async for each in app.machines.dead_letters()]


async def fill(app: Holdfast) -> int:
    """Send events for the cell until one is refused; gives the number of that one."""
    number = 1
    while True:
        try:
            await app.emit(HeldTold("a", number), id=f"e{number}")
        except CellFull:
            return number
        await handled(app)
        await asyncio.sleep(1)
        number += 1


def test_an_event_from_outside_is_refused_while_a_parked_cell_is_full(virtual: Ground) -> None:
    """It can be sent again, like one for a lane that is full. Other cells go on; what was taken in keeps its order."""

    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            await opened(app)
            refused = await fill(app)
            assert refused == LIMIT
            assert (await record(app)).held_count == LIMIT
            with pytest.raises(LaneFull, match=r"3 events are held for cell 'a' of held\.list, .*release the cell"):
                await app.emit(HeldTold("a", refused), id=f"e{refused}")
            (parked,) = (await app.cell(listing, "a").diagnose()).causes
            assert parked.text.endswith("No more are taken in for it from outside.")
            await app.emit(HeldTold("b", 1))
            Bug.there = False
            await app.cell(listing, "a").release()
            await handled(app)
            sent = await app.emit(HeldTold("a", refused), id=f"e{refused}")
            assert not sent.repeated
            await handled(app)
            assert (await numbers(app), await letters(app)) == ([*range(refused + 1)], [])

    virtual.play(main)


def test_a_dead_letter_is_not_redelivered_to_a_cell_that_is_full(virtual: Ground) -> None:
    """It stays in the list."""

    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            with mock.patch.object(LaneProgram, "_known", return_value=KnownTurn(goes_by_earlier_rules=True)):
                await opened(app)
                app.machine_kind.held_limit = 99
                for number in range(1, 5):
                    await app.emit(HeldTold("a", number))
                await handled(app)
            app.machine_kind.held_limit = LIMIT
            await asyncio.sleep(2)
            (first, _) = [each async for each in app.machines.dead_letters()]
            with pytest.raises(CellFull):
                await app.machines.redeliver(first)
            assert len(await letters(app)) == 2

    virtual.play(main)


def test_what_machines_emit_and_what_is_in_the_inbox_is_held_without_limit(ground: Ground) -> None:
    """In order: nothing of it is a dead letter, and nothing that comes after the release overtakes it."""

    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            await opened(app)
            lane = app.run(lane_id(listing.name, 0))
            await lane.pause()
            for number in range(1, 9):  # they are in the inbox when the cell has become full
                await app.emit(HeldTold("a", -number))
            await lane.resume()
            await handled(app)
            for _ in range(3):
                await app.emit(HeldAsked("a", 5))
                await handled(app)
            assert (await record(app)).held_count == 24
            Bug.there = False
            await app.cell(listing, "a").release()
            await handled(app)
            assert await numbers(app) == [0, *range(-1, -9, -1), *range(1, 16)]
            assert await letters(app) == []
            assert [each.good async for each in app.machines.verify()] == [True, True]

    ground.play(main)


def test_a_journal_of_earlier_rules_is_judged_by_them(virtual: Ground) -> None:
    """Its dead letters are what it says; from now on the lane holds what comes."""

    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            with mock.patch.object(LaneProgram, "_known", return_value=KnownTurn(goes_by_earlier_rules=True)):
                await opened(app)
                await app.emit(HeldAsked("a", 4))
                await handled(app)
                assert await letters(app) == ["3 events are held for its parked cell already"] * 2
        async with ground.engine() as app:
            assert [each.good async for each in app.machines.verify()] == [True, True]
            await app.emit(HeldAsked("a", 4))
            await handled(app)
            assert ((await record(app)).held_count, len(await letters(app))) == (7, 2)
            assert [each.good async for each in app.machines.verify()] == [True, True]

    virtual.play(main)
