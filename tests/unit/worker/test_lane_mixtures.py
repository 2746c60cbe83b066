"""Two things that come to a lane together: each is handled as it would be alone."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import Holdfast, step
from holdfast.cells.cell import CellRecord
from holdfast.programs.machine.handle import Cell
from holdfast.programs.machine.lanes.lane import LaneProgram
from holdfast.programs.machine.machine import machine
from holdfast.programs.machine.occurrences import Settled
from holdfast.runs.lanes import lane_id
from holdfast.store import protocol as p
from tests.unit.worker.ground import OPTIONS, Ground, kill, line_of

_LANE = p.Key("default", lane_id("mixtures.pad", 0))


@dataclass
class MixedWritten:
    name: str
    what: str


@dataclass
class MixedRung:
    name: str
    what: str


@dataclass
class MixedPage:
    words: list[str] = field(default_factory=list)


class Deadly:
    app: Holdfast | None = None


@step(name="mixtures.look")
async def look(name: str) -> str:
    await asyncio.sleep(5)
    return name


@step(name="mixtures.queued_look", queue="mixtures")
async def queued_look(name: str) -> str:
    await asyncio.sleep(5)
    return name


@machine(key="name", effects=[look, queued_look], name="mixtures.pad", lanes=1)
def pad(state: MixedPage | None, event: MixedWritten | MixedRung | Settled, cell: Cell) -> MixedPage | None:
    """It writes down all that it hears."""
    now = state or MixedPage()
    match event:
        case Settled():
            if cell.key.startswith("kill") and Deadly.app is not None:
                kill(Deadly.app)
            return MixedPage([*now.words, "settled"])
        case MixedWritten(what="raise") | MixedRung(what="raise"):
            raise ValueError("broken")
        case MixedRung(what="kill") | MixedWritten(what="kill"):
            kill(Deadly.app) if Deadly.app is not None else None
        case MixedWritten(what="delete"):
            return None
        case MixedWritten(what="look"):
            cell.do(queued_look if cell.key.endswith("queued") else look, cell.key)
        case MixedWritten(what=what) if what.startswith("later "):
            for word in what.split()[1:]:
                cell.send(MixedRung(cell.key, word), after=timedelta(seconds=10))
    return MixedPage([*now.words, event.what])


async def handled(app: Holdfast) -> None:
    while True:
        (run,) = await app.store.get([_LANE])
        if run.consumed == run.arrived:
            return
        await app.changed(0.05)


async def record(app: Holdfast, name: str = "a") -> CellRecord:
    found = await app.cell(pad, name).record()
    assert found is not None
    return found


async def words(app: Holdfast, name: str = "a") -> list[str] | None:
    state = await app.cell(pad, name).state()
    return None if state is None else state.words


def test_a_timer_of_a_cell_that_is_deleted_in_its_turn_reaches_nobody(virtual: Ground) -> None:
    """Not the key's next cell either: the timers of a cell are dropped with it."""

    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            await app.emit(MixedWritten("a", "later bell"))
            await app.emit(MixedWritten("b", "later bell"))
            await handled(app)
        async with ground.engine(worker=False) as app:
            await asyncio.sleep(20)
            await app.emit(MixedWritten("a", "delete"))
            await app.emit(MixedWritten("b", "delete"))
            await app.emit(MixedWritten("b", "born again"))
        async with ground.engine() as app:
            await handled(app)
            await asyncio.sleep(30)
            assert await words(app) is None
            assert await words(app, "b") == ["born again"]

    virtual.play(main)


def test_timers_of_one_moment_come_as_often_and_in_the_order_in_which_they_were_sent(virtual: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            await app.emit(MixedWritten("a", "later z y z"))
            await asyncio.sleep(20)
            assert await words(app) == ["later z y z", "z", "y", "z"]
            assert (await record(app)).timers == ()

    virtual.play(main)


def test_a_timer_that_parked_its_cell_leaves_its_equal_alone(virtual: Ground) -> None:
    """Released, both come, one after the other; dropped, only the other one does."""

    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            await app.emit(MixedWritten("a", "later raise raise"))
            await asyncio.sleep(20)
            parked = await record(app)
            assert (parked.status, parked.held_count, len(parked.timers)) == ("parked", 1, 1)
            await app.cell(pad, "a").release()
            await asyncio.sleep(5)
            assert len((await record(app)).timers) == 1
            await app.cell(pad, "a").release(drop=True)
            await asyncio.sleep(5)
            parked = await record(app)
            assert (parked.status, parked.held_count, len(parked.timers)) == ("parked", 1, 0)
            await app.cell(pad, "a").release(drop=True)
            await asyncio.sleep(5)
            assert (await record(app)).status == "running"

    virtual.play(main)


def test_a_receipt_is_held_for_a_parked_cell_however_much_is(virtual: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            for what in ("look", "raise", "two", "three"):
                await app.emit(MixedWritten("a", what))
            await asyncio.sleep(10)
            assert (await record(app)).held_count == 4
            assert [each.value["what"] async for each in app.machines.dead_letters()] == []
            await app.cell(pad, "a").release(drop=True)
            await asyncio.sleep(10)
            assert await words(app) == ["look", "two", "three", "settled"]
            assert (await record(app)).intents == ()

    virtual.play(main)


def test_no_cell_remains_of_an_event_that_was_dropped_and_made_none(virtual: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            await app.emit(MixedWritten("a", "raise"))
            await handled(app)
            await app.cell(pad, "a").release(drop=True)
            await asyncio.sleep(1)
            assert await app.cell(pad, "a").record() is None
            assert [each.good async for each in app.machines.verify(pad)] == [True]

    virtual.play(main)


def test_a_timer_that_kills_its_workers_parks_its_cell_whatever_else_waits(virtual: Ground) -> None:
    """Also where an event waits beside it, and where other cells' timers have come."""

    async def main(ground: Ground) -> int:
        async with ground.engine() as app:
            for name, what in (("b", "later first"), ("a", "later kill"), ("c", "later last")):
                await app.emit(MixedWritten(name, what))
                await asyncio.sleep(0.5)
            await handled(app)
        async with ground.engine(worker=False) as app:
            await asyncio.sleep(20)
            await app.emit(MixedWritten("d", "waits"))
            await app.emit(MixedWritten("d", "too"))
        for lives in range(1, 20):
            async with ground.engine(options=replace(OPTIONS, crash_limit=3)) as app:
                Deadly.app = app
                for _ in range(60):
                    if line_of(app).dead:
                        break
                    await app.changed(1)
                else:
                    assert "poison" in (await record(app)).reason
                    for name in "bcd":
                        if (await record(app, name)).status == "parked":
                            await app.cell(pad, name).release()
                    await asyncio.sleep(5)
                    assert await words(app, "b") == ["later first", "first"]
                    assert await words(app, "c") == ["later last", "last"]
                    assert await words(app, "d") == ["waits", "too"]
                    return lives
        raise AssertionError("the lane never went on")

    assert virtual.play(main) == 5
    Deadly.app = None


@pytest.mark.parametrize("name", ["kill", "kill queued"])
def test_a_receipt_that_kills_its_workers_parks_its_cell_however_busy_its_lane_is(virtual: Ground, name: str) -> None:
    """Its step is done again by each worker, and events of other cells are handled meanwhile: they are no sign that the
    receipt can be handled. Nothing of those events is lost, and none of their cells is parked for it."""

    async def main(ground: Ground) -> None:
        async with ground.engine(worker=False) as client:
            await client.emit(MixedWritten(name, "look"))
            sent = ["b0"]

            async def send() -> None:
                while True:
                    await client.emit(MixedWritten("b", sent[-1]))
                    sent.append(f"b{len(sent)}")
                    await asyncio.sleep(0.3)

            sending = asyncio.create_task(send())
            for _ in range(8):
                if await _lives_on(ground, name):
                    break
            else:
                raise AssertionError("its workers die for ever")
            sending.cancel()
            async with ground.engine() as app:
                await handled(app)
                assert (await record(app, "b")).status == "running"
                assert await words(app, "b") == sent[:-1]
                await app.cell(pad, name).release()
                await asyncio.sleep(1)
                assert await words(app, name) == ["look", "settled"]

    virtual.play(main)


def test_an_event_that_kills_its_workers_parks_its_cell_while_a_step_of_its_lane_is_under_way(virtual: Ground) -> None:
    """Each worker records first that it begins the step again: that is no sign that the event can be handled."""

    async def main(ground: Ground) -> None:
        async with ground.engine(worker=False) as client:
            await client.emit(MixedWritten("b", "look"))
            await client.emit(MixedWritten("a", "kill"))
        for _ in range(5):
            if await _lives_on(ground, "a"):
                break
        else:
            raise AssertionError("its workers die for ever")
        async with ground.engine() as app:
            await asyncio.sleep(10)
            assert await words(app, "b") == ["look", "settled"]

    virtual.play(main)


def test_a_busy_lane_is_cautious_no_longer_than_it_must_be(virtual: Ground) -> None:
    """One event in a turn is slow. When all is handled that the dead worker had, many are taken again."""

    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            await app.emit(MixedWritten("a", "look"))
            await app.emit(MixedWritten("b", "first"))
            await handled(app)
            kill(app)
        async with ground.engine() as app:
            assert app.worker is not None
            found: list[str] = []
            for _ in range(120):
                await app.emit(MixedWritten("b", "more"))
                await app.emit(MixedWritten("c", "look"))
                await asyncio.sleep(0.5)
                held = app.worker.advancer.held.get(_LANE)
                found.append("not held" if held is None else "at ease" if held.caution is None else "cautious")
            assert "cautious" in found
            assert set(found[-20:]) == {"at ease"}

    virtual.play(main)


@pytest.mark.parametrize("what", ["timer", "split"])
def test_a_lane_that_is_paused_and_resumed_when_its_cells_were_just_brought_has_them_in_its_turn(
    virtual: Ground, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The turn under pause only records. The next one handles the timer, and hands over the cells, as any would."""
    bring, paused = LaneProgram.bring, list[str]()

    async def main(ground: Ground) -> None:
        async with ground.engine() as app:

            def brought(self: LaneProgram, cells: Any, due: Any, next_wake: Any, moving: Any, rows: Any) -> None:
                bring(self, cells, due, next_wake, moving, rows)
                if (due or moving) and not paused and app.worker is not None:
                    paused.append("once")  # in the store it is resumed by now
                    app.worker.advancer.paused(_LANE, "a person")

            monkeypatch.setattr(LaneProgram, "bring", brought)
            await app.emit(MixedWritten("a", "later bell"))
            await asyncio.sleep(7)
            await app.emit(MixedWritten("b", "look"))  # so the lane is not handed back when it is paused
            if what == "split":
                await app.machines.split(pad, 2)
            await asyncio.sleep(30)
            assert await words(app) == ["later bell", "bell"]
            await app.emit(MixedWritten("a", "last"))
            await asyncio.sleep(5)
            assert await words(app) == ["later bell", "bell", "last"]
            rows = await app.store.find_cells(p.CellQuery("default", "mixtures.pad"), 10)
            assert [row.lane == _LANE.run for row in rows] == [what == "timer"] * 2

    virtual.play(main)
    assert paused


async def _lives_on(ground: Ground, name: str) -> bool:
    """Run a worker until it is dead, False, or the cell is parked."""
    async with ground.engine(options=replace(OPTIONS, crash_limit=3)) as app:
        Deadly.app = app
        try:
            while not line_of(app).dead:
                found = await app.cell(pad, name).record()
                if found is not None and found.status == "parked":
                    assert "poison" in found.reason
                    return True
                await asyncio.sleep(1)
            return False
        finally:
            Deadly.app = None
