"""Lanes in whole engines: what a worker does about them that it does for no other run."""

from __future__ import annotations

from dataclasses import dataclass
from types import FunctionType

import pytest
from msgspec.structs import replace

from holdfast import Holdfast
from holdfast.cells.cell import CellRecord
from holdfast.client.machines import sender
from holdfast.errors import InvalidRequest, LaneFull
from holdfast.programs.machine.handle import Cell
from holdfast.programs.machine.lanes.envelopes import Release
from holdfast.programs.machine.machine import Machine, machine
from holdfast.programs.machine.manifest import MachineLimits
from holdfast.runs.lanes import LaneMessage, lane_id
from holdfast.store import protocol as p
from tests.unit.worker.ground import OPTIONS, Ground, kill, line_of


@dataclass
class Counted:
    name: str
    by: int = 1


@dataclass
class Count:
    total: int = 0


class Deadly:
    """What a handler does to its worker."""

    app: Holdfast | None = None


@machine(key="name", name="lanes.counter", lanes=1)
def counter(state: Count | None, event: Counted, cell: Cell) -> Count | None:
    """Counts; some events kill the worker, or are refused."""
    if event.by == 666 and Deadly.app is not None:
        kill(Deadly.app)
    if event.by < 0:
        raise ValueError("it only counts up")
    return Count((state or Count()).total + event.by)


@machine(key="name", name="lanes.mirror", lanes=1)
def mirror(state: Count | None, event: Counted, cell: Cell) -> Count | None:
    """Hears the same events."""
    return Count((state or Count()).total + event.by)


async def settled(app: Holdfast, name: str) -> CellRecord:
    """The cell, once its lane has handled all that came."""
    lane = p.Key("default", lane_id(counter.name, 0))
    while True:
        (run,) = await app.store.get([lane])
        if run.consumed == run.arrived:
            record = await app.cell(counter, name).record()
            assert record is not None
            return record
        await app.changed(0.05)


def test_an_event_reaches_all_who_hear_it_and_once(ground: Ground) -> None:
    """Two machines hear it: both in one commit. Sent again with its id, nobody hears it twice."""

    async def main(ground: Ground) -> tuple[Count | None, Count | None, bool]:
        async with ground.engine() as app:
            first = await app.emit(Counted("a", 2), id="one")
            again = await app.emit(Counted("a", 2), id="one")
            assert [place.machine for place in first.places] == [counter.name, mirror.name]
            pairs = zip((counter, mirror), first.places, strict=True)
            found = [await app.cell(one, "a").state(after=place) for one, place in pairs]
            return found[0], found[1], again.repeated

    assert ground.play(main) == (Count(2), Count(2), True)


def test_a_failing_handler_parks_its_cell_and_never_its_lane(ground: Ground) -> None:
    """What comes for a parked cell is held, in order; released without the event that parked it, it goes on."""

    async def main(ground: Ground) -> tuple[str, int, Count | None, Count | None]:
        async with ground.engine() as app:
            for number, by in enumerate((1, -1, 2)):
                await app.emit(Counted("a", by), id=f"e{number}")
            await app.emit(Counted("b", 5), id="other")
            parked = await settled(app, "a")
            other = await app.cell(counter, "b").state()
            assert counter.key_schema is not None
            release = Release(counter.key_schema.encode("a"), drop=True)
            letter = LaneMessage(counter.name, 0, release.write())
            await app.committer.commit(change := letter.deliver("default", app.clock.now()))
            app.delivered(change.key)
            await settled(app, "a")
            state = await app.cell(counter, "a").state()
            return parked.reason, parked.held_count, state, other

    reason, held, state, other = ground.play(main)
    assert reason == "ValueError: it only counts up"
    assert held == 2
    assert state == Count(3)
    assert other == Count(5)


def test_an_event_that_kills_its_workers_parks_its_cell(virtual: Ground) -> None:
    """After a death a lane takes one event a turn. At the limit the event is held, unhandled, and the lane goes on."""

    async def main(ground: Ground) -> tuple[int, str, Count | None]:
        async with ground.engine(worker=False) as app:
            for name, by in (("good", 1), ("bad", 666), ("good", 1)):
                await app.emit(Counted(name, by), id=f"{name}{by}{app.token()}")
        for lives in range(1, 20):
            async with ground.engine(options=replace(OPTIONS, crash_limit=3)) as app:
                Deadly.app = app
                while not line_of(app).dead:
                    (row,) = await ground.store.get([p.Key("default", lane_id(counter.name, 0))])
                    if row.consumed == row.arrived:
                        record = await app.cell(counter, "bad").record()
                        assert record is not None
                        return lives, record.reason, await app.cell(counter, "good").state()
                    await app.changed(1)
        raise AssertionError("the lane never went on")

    lives, reason, good = virtual.play(main)
    assert lives > 1
    assert "poison" in reason
    assert good == Count(2)


def test_a_lane_is_no_run_to_be_cancelled_or_signalled(virtual: Ground) -> None:
    """Its cells have ends, it has none."""

    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            await app.emit(Counted("a"), id="a")
            run = app.run(lane_id(counter.name, 0))
            with pytest.raises(InvalidRequest, match="carries the cells"):
                await run.cancel()
            with pytest.raises(InvalidRequest, match="carries the cells"):
                await run.signal("go")
            await run.pause()
            await app.emit(Counted("a"), id="b")
            await run.resume()
            assert (await settled(app, "a")).last_sequence == 2

    virtual.play(main)


def test_a_lane_that_is_full_takes_nothing_from_outside(virtual: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused, and said so: whoever sends it may try again. What a paused lane has taken in stays."""
    monkeypatch.setattr(sender, "DEPTH_LIMIT", 3)

    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            await app.emit(Counted("a"), id="first")
            await settled(app, "a")
            run = app.run(lane_id(counter.name, 0))
            await run.pause()
            for number in range(3):
                await app.machines.send(Counted("a"), id=f"e{number}")
            with pytest.raises(LaneFull):
                await app.machines.send(Counted("a"), id="too many")

    virtual.play(main)


def test_a_machine_is_the_same_however_its_module_is_called() -> None:
    """A program that is run as a file, and imported by a worker, has one machine: its cells were written by either."""
    hashes = set()
    for module in ("__main__", "shop"):
        function = FunctionType(mirror.function.__code__, mirror.function.__globals__, "twin")
        function.__annotations__, function.__module__ = mirror.function.__annotations__, module
        declared = {"effects": (), "emits": (), "version": 1, "lanes": 1, "limits": MachineLimits(), "migrate": None}
        hashes.add(Machine(function, name="lanes.twin", key="name", **declared).hash)  # type: ignore[arg-type]
    assert len(hashes) == 1
