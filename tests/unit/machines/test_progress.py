"""What effects report on the way: it comes to the cell that asked, in order, once, and never behind the receipt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import Progress, heartbeat, report, step, workflow
from holdfast.cells.cell import decode_cell
from holdfast.client.machines.recordings import read_recording, record_machine, replay_recording
from holdfast.client.runs.handle import RunHandle
from holdfast.errors import NotInWorkflow
from holdfast.journal import events as e
from holdfast.programs.machine.kind import Machines
from holdfast.programs.machine.machine import Machine
from holdfast.runs import messages
from holdfast.runs.journals import check_chain
from holdfast.runs.lanes import LANE_EVENT, ProgressFrame, is_lane
from holdfast.store import protocol as p
from holdfast.testing import MachineEngine, machine_engine, run_virtually, virtual_engine
from tests.unit.machines.crawlers import DELAY, Asked, Log, deaf, site
from tests.unit.machines.workers import PLAIN, look_soon, worker_with
from tests.unit.worker.ground import FREE, Ground, kill

WAYS = ["here", "queued", "threaded", "acted"]


def play(scene: Callable[[MachineEngine], Coroutine[Any, Any, None]], *machines: Machine[Any]) -> None:
    async def main() -> None:
        async with machine_engine(machines or [site], policy=FREE) as engine:
            await scene(engine)

    run_virtually(main())


async def lines(engine: MachineEngine, name: str = "a", of: Machine[Any] = site) -> list[Any]:
    found = await engine.state(of, name)
    assert isinstance(found, Log)
    return found.lines


async def events_of(engine: MachineEngine) -> list[e.Event]:
    runs = [run for run in await engine.app.store.find(p.Query("default"), 100) if is_lane(run.key.run)]
    return [entry.event for run in runs async for entry in check_chain(engine.app.store, run)]


def test_a_machine_is_tried_with_progress_without_an_engine() -> None:
    event = Progress(details=5, effect="crawl.here", intent="i", sequence=2)
    assert site.step(Log(), event, key="a").state == Log([[2, 1, 5]])


@pytest.mark.parametrize("way", WAYS)
def test_reports_come_in_order_before_the_receipt(way: str) -> None:
    """From a step here or on a queue, from a thread, and from an action. The last one comes with the receipt."""

    async def scene(engine: MachineEngine) -> None:
        pages = [1, "sleep", 2, "sleep", 3] if way != "threaded" else [3]
        await engine.send(Asked("a", way, pages))
        await engine.rest()
        reports = [[0, 1, ["a", page]] for page in pages if page != "sleep"]
        assert await lines(engine) == [*reports, [0, "a crawled"]]
        assert all([each.good async for each in engine.app.machines.verify()])

    play(scene)


@pytest.mark.parametrize("way", ["here", "queued", "acted"])
def test_a_report_is_there_while_its_effect_is_under_way(way: str) -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(Asked("a", way, [1, "sleep", "sleep", 2]))
        await asyncio.sleep(1.5 * DELAY)
        assert await lines(engine) == [[0, 1, ["a", 1]]]
        record = await engine.record(site, "a")
        assert record is not None
        assert len(record.intents) == 1

    play(scene)


@pytest.mark.parametrize("way", WAYS)
def test_reports_go_to_the_cell_that_asked_however_many_are_under_way(way: str) -> None:
    async def scene(engine: MachineEngine) -> None:
        names = [f"n{number}" for number in range(30)]
        pages = [1, "sleep", 2] if way != "threaded" else [2]
        await engine.send(*(Asked(name, way, pages) for name in names))
        await engine.rest()
        for name in names:
            reports = [[0, 1, [name, page]] for page in pages if page != "sleep"]
            assert await lines(engine, name) == [*reports, [0, f"{name} crawled"]]

    play(scene)


@pytest.mark.parametrize("way", ["here", "queued"])
def test_a_failed_attempt_and_the_next_are_told_apart(way: str) -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(Asked("a", way, [1, "fail", 2]))
        await engine.rest()
        assert await lines(engine) == [[0, 1, ["a", 1]], [0, 2, ["a", 2]], [0, "a crawled"]]

    play(scene)


def test_of_many_reports_the_newest_count_and_the_last_always_comes() -> None:
    """A loop that reports 20,000 times costs a few turns."""

    async def scene(engine: MachineEngine) -> None:
        await engine.send(Asked("a", "flood", [20_000]))
        await engine.rest()
        found = await lines(engine)
        assert found[-2:] == [[0, 1, 19_999], [0, 20_000]]
        assert len(found) < 10
        numbers = [number for *_, number in found[:-1]]
        assert numbers == sorted(set(numbers))

    play(scene)


def test_one_attempt_sends_ten_frames_a_second() -> None:
    """However often it reports, and the last one all the same."""

    async def scene(engine: MachineEngine) -> None:
        pages = [page for number in range(10) for page in (*[number] * 50, "sleep")]
        await engine.send(Asked("a", "here", pages))
        await engine.rest()
        assert [details[1] for *_, details in (await lines(engine))[:-1]] == list(range(10))

    play(scene)


@pytest.mark.parametrize("way", WAYS)
def test_a_machine_that_does_not_accept_progress_is_sent_nothing(way: str) -> None:
    """Its lane hears the event and the receipt, and no message more."""

    async def scene(engine: MachineEngine) -> None:
        await engine.send(Asked("a", way, [1, 2, 3]))
        await engine.rest()
        assert await lines(engine, of=deaf) == [[0, "a crawled"]]
        signals = [event for event in await events_of(engine) if isinstance(event, e.SignalDelivered)]
        assert len(signals) == 1

    play(scene, deaf)


def test_a_report_for_a_deleted_cell_reaches_nobody() -> None:
    """Neither the one that was deleted nor its successor of the same key."""

    async def scene(engine: MachineEngine) -> None:
        await engine.send(Asked("a", "here", ["sleep", 1, "sleep", 2]), Asked("a", "forget"), Asked("a", "here", []))
        await engine.rest()
        await asyncio.sleep(3 * DELAY)
        assert await lines(engine) == [[0, "a crawled"]]

    play(scene)


def test_what_came_while_a_cell_was_parked_is_the_newest_report_then_the_receipt() -> None:
    async def scene(engine: MachineEngine) -> None:
        pages = [1, "sleep", "sleep", 2, "sleep", 3, "sleep", 4]
        await engine.send(Asked("a", "here", pages))
        await asyncio.sleep(DELAY)
        await engine.send(Asked("a", "raise"))
        await asyncio.sleep(10 * DELAY)
        record = await engine.record(site, "a")
        assert record is not None
        assert (record.status, record.held_count) == ("parked", 3)
        await engine.app.cell(site, "a").release(drop=True)
        await engine.rest()
        assert await lines(engine) == [[0, 1, ["a", 1]], [0, 1, ["a", 4]], [0, "a crawled"]]
        assert all([each.good async for each in engine.app.machines.verify()])

    play(scene)


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("way", ["here", "queued", "acted"])
def test_what_is_reported_while_the_lane_is_paused_comes_when_it_goes_on(way: str, is_restarted: bool) -> None:
    """All of it, in order and in front of the receipt, although both were recorded meanwhile."""

    async def scene(engine: MachineEngine) -> None:
        pages = [1, "sleep", 2, "sleep", 3]
        await engine.send(Asked("a", way, pages), Asked("b", way, pages))
        await asyncio.sleep(DELAY / 2)
        await _lane(engine).pause("look")
        await asyncio.sleep(20 * DELAY)
        assert await lines(engine) == [[0, 1, ["a", 1]]]
        if is_restarted:
            await engine.restart()
        await engine.app.emit(Asked("a", "here", ["later"]))
        await _lane(engine).resume()
        await engine.rest()
        found = await lines(engine)
        assert [each for each in found if each[0] == 0] == [*([0, 1, ["a", n]] for n in (1, 2, 3)), [0, "a crawled"]]
        assert [each for each in found if each[0] == 1] == [[1, 1, ["a", "later"]], [1, "a crawled"]]
        assert await lines(engine, "b") == [*([0, 1, ["b", n]] for n in (1, 2, 3)), [0, "b crawled"]]
        assert all([each.good async for each in engine.app.machines.verify()])
        recorded = read_recording(await engine.app.machines.recording(site))
        assert (await replay_recording(recorded, Machines({site.name: site}))).agrees

    play(scene)


def _lane(engine: MachineEngine) -> RunHandle[Any]:
    return engine.app.run(engine.app.cell(site, "a").lane_key.run)


def test_a_report_that_its_handler_cannot_take_parks_the_cell_and_can_be_dropped() -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(Asked("a", "here", ["bad", "sleep", 2]))
        await asyncio.sleep(5 * DELAY)
        record = await engine.record(site, "a")
        assert record is not None
        assert (record.status, record.held_count) == ("parked", 3)  # the bad one is not replaced by the next
        await engine.app.cell(site, "a").release(drop=True)
        await engine.rest()
        assert await lines(engine) == [[0, 1, ["a", 2]], [0, "a crawled"]]

    play(scene)


def test_a_report_that_is_too_large_fails_the_step() -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(Asked("a", "here", ["x" * 70_000]))
        await engine.rest()
        assert await lines(engine) == [[0, "PayloadTooLarge"]]

    play(scene)


def test_old_repeated_and_late_frames_are_dropped() -> None:
    """As a commit that was repeated, or a worker that was taken for dead, would bring them."""

    async def scene(engine: MachineEngine) -> None:
        await engine.send(Asked("a", "queued", [1, "sleep", "sleep", 2]))
        await asyncio.sleep(DELAY)
        (row,) = await engine.app.store.find_cells(p.CellQuery("default", site.name), 10)
        (intent,) = decode_cell(row.record).intents
        lane = p.Key("default", row.lane)
        at, details = intent.position, b"\x01"
        frames = [
            ProgressFrame(at, 1, 0, 99, details),  # of an older lease
            ProgressFrame(at, 0, 1 << 40, 99, details),  # of an older attempt
            ProgressFrame(at + 1000, 9, 9, 9, details),  # of nothing
            ProgressFrame(at, 1, 1 << 40, 7, b"\x61x"),
            ProgressFrame(at, 1, 1 << 40, 7, b"\x61x"),
        ]
        now = engine.app.clock.now()
        for frame in frames:
            await engine.app.committer.commit(p.Deliver(lane, messages.signal(LANE_EVENT, frame.write(), now)))
        await engine.rest()
        late = ProgressFrame(at, 9, 1 << 50, 1, details)
        await engine.app.committer.commit(p.Deliver(lane, messages.signal(LANE_EVENT, late.write(), now)))
        await engine.rest()
        assert await lines(engine) == [[0, 1, ["a", 1]], [0, 1, "x"], [0, "a crawled"]]
        assert all([each.good async for each in engine.app.machines.verify()])

    play(scene)


@pytest.mark.parametrize("way", ["here", "queued", "acted"])
def test_reports_survive_the_worker_and_begin_anew_with_the_next(way: str, ground: Ground) -> None:
    """What was recorded stays; the effect is begun again where it may be, and what it reports follows."""

    async def main(ground: Ground) -> None:
        async with worker_with(ground, [site]) as app:
            await app.emit(Asked("a", way, [1, "sleep", "sleep", 2]))
            while not (found := await app.cell(site, "a").state()) or not found.lines:
                await app.changed(0.02)
            kill(app)
        async with worker_with(ground, [site]) as app:
            while not (found := await app.cell(site, "a").state()) or len(found.lines) < (4 if way != "acted" else 1):
                await app.changed(0.5)
            if way == "acted":  # whether it was done is asked of a person, and it is not begun again
                assert found.lines == [[0, 1, ["a", 1]]]
            else:
                assert found.lines == [[0, 1, ["a", 1]], [0, 1, ["a", 1]], [0, 1, ["a", 2]], [0, "a crawled"]]
            assert all([each.good async for each in app.machines.verify(site.name)])

    ground.play(main)


def test_a_queued_effect_reports_from_another_worker(ground: Ground) -> None:
    """Its lane is with a worker that does not serve the queue."""

    async def main(ground: Ground) -> None:
        async with worker_with(ground, [site], options=replace(PLAIN, queues={})) as app:
            await app.emit(Asked("a", "queued", [1, "sleep", 2]))
            async with worker_with(ground, options=replace(PLAIN, queues={"crawl": 4})) as carrier:
                while not (found := await app.cell(site, "a").state()) or len(found.lines) < 3:
                    await look_soon(app, carrier)
            assert found.lines == [[0, 1, ["a", 1]], [0, 1, ["a", 2]], [0, "a crawled"]]

    ground.play(main)


def test_a_trace_shows_what_was_reported() -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(Asked("a", "queued", [1, "sleep", 2]), Asked("b", "here", [7]))
        await engine.rest()
        items = (await engine.app.cell(site, "a").trace()).items
        told = [(each.kind, each.name, each.value) for each in items if each.kind in ("progress", "receipt")]
        assert told == [
            ("progress", "crawl.queued", ["a", 1]),
            ("progress", "crawl.queued", ["a", 2]),
            ("receipt", "crawl.queued", "a crawled"),
        ]

    play(scene)


def test_recorded_reports_are_replayed_and_shadowed() -> None:
    """Other code gets what was reported, too; code that accepts no progress goes on without."""

    async def scene(engine: MachineEngine) -> None:
        await engine.send(Asked("a", "here", [1, "sleep", 2]), Asked("b", "queued", [1, "sleep", 2]))
        await engine.rest()
        app = engine.app
        recorded = read_recording(await record_machine(app.store, "default", site.name, app.clock.now()))
        same = await replay_recording(recorded, Machines({site.name: site}))
        assert same.agrees
        other = await replay_recording(recorded, Machines({site.name: _renamed_deaf()}))
        assert not other.agrees

    play(scene)


def _renamed_deaf() -> Machine[Any]:
    return Machine(
        deaf.function,
        name=site.name,
        key="name",
        effects=list(site.effects.values()),
        emits=(),
        version=1,
        lanes=site.lanes,
        limits=site.limits,
        migrate=None,
    )


def test_reporting_works_only_inside_what_the_engine_runs() -> None:
    with pytest.raises(NotInWorkflow, match=r"report\(\) works only inside a step"):
        report(1)


@step(name="progress.alone")
async def alone() -> str:
    report("nobody hears this")
    report(object())  # and nobody looks at it
    heartbeat()
    return "done"


@workflow(name="progress.runs")
async def runs() -> str:
    return await alone()


def test_a_step_of_a_workflow_may_report_and_nobody_hears_it() -> None:
    async def main() -> None:
        async with virtual_engine() as app:
            assert await (await app.start(runs, id="r")).result(60) == "done"

    run_virtually(main())
