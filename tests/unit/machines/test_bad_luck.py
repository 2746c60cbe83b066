"""Bad input and bad luck: each with a clear error, and nothing lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, WorkerOptions
from holdfast.cells.cell import CellRecord
from holdfast.errors import InvalidFunction, InvalidRequest, SchemaMismatch
from holdfast.journal.cbor import canonical
from holdfast.programs.machine.lanes.envelopes import HOPS_LIMIT, Release
from holdfast.programs.machine.schemas import schema
from holdfast.runs.lanes import LaneMessage
from holdfast.testing import MachineEngine, machine_engine, run_virtually
from holdfast.testing.postgres import PostgresServer
from tests.unit.machines import poor as bad
from tests.unit.machines.poor import Done, Ping, Pinged, Told, echo, poor
from tests.unit.machines.shop import Noted, Placed, order, parcel

Scene = Callable[[MachineEngine], Coroutine[Any, Any, None]]


@pytest.fixture(autouse=True)
def _broken() -> Iterator[None]:
    bad.mended.clear()
    yield
    bad.kept.clear()


def play(scene: Scene) -> None:
    async def main() -> None:
        async with machine_engine([poor, echo, order, parcel]) as engine:
            await scene(engine)

    run_virtually(main())


async def cell(engine: MachineEngine, key: str = "a") -> CellRecord:
    record = await engine.record(poor, key)
    assert record is not None
    return record


async def release(engine: MachineEngine, key: str = "a", *, drop: bool = False) -> None:
    """What a person does about a parked cell."""
    lane = engine.app.cell(poor, key).lane
    message = LaneMessage(poor.name, lane, Release(canonical(key), drop).write())
    await engine.app.committer.commit(message.deliver("default", engine.app.clock.now()))
    engine.app.hint()
    await engine.pass_time(timedelta(seconds=2))


# -- events that cannot be taken in --------------------------------------------------------------------------------


@dataclass
class Stranger:
    name: str


@dataclass
@schema("shop/Placed@1")
class OldPlaced:
    order_id: str


def test_an_event_of_no_schema_is_refused_by_its_type() -> None:
    async def scene(engine: MachineEngine) -> None:
        with pytest.raises(InvalidRequest, match=r"no machine here knows events of type Stranger .*poor/Told@1"):
            await engine.send(Stranger("a"))

    play(scene)


def test_an_event_of_an_older_version_is_refused_and_names_the_present_one() -> None:
    async def scene(engine: MachineEngine) -> None:
        with pytest.raises(InvalidRequest, match=r"OldPlaced.*shop/Placed@2"):
            await engine.send(OldPlaced("o1"))
        board = engine.app.machine_kind.board
        with pytest.raises(SchemaMismatch, match=r"shop/Placed@1: there is no schema .* There is shop/Placed@2"):
            board.targets("shop/Placed@1", canonical({"order_id": "o1"}))

    play(scene)


@pytest.mark.parametrize("key", [None, 17, ["a"], b"a"])
def test_an_event_without_a_key_or_with_one_of_another_type_is_refused(key: Any) -> None:
    async def scene(engine: MachineEngine) -> None:
        with pytest.raises(SchemaMismatch, match="order_id"):
            await engine.send(Placed(key, 5))
        with pytest.raises(SchemaMismatch, match="order_id"):
            engine.app.machine_kind.board.targets("shop/Placed@2", canonical({"order_id": key, "cents": 5}))
        assert await engine.app.store.count_cells("default", order.name) == {}

    play(scene)


def test_an_event_whose_data_do_not_fit_is_refused_with_the_field() -> None:
    async def scene(engine: MachineEngine) -> None:
        with pytest.raises(SchemaMismatch, match="cents"):
            await engine.send(Placed("o1", "many"))  # type: ignore[arg-type]

    play(scene)


def test_a_key_that_is_too_long_is_refused() -> None:
    async def scene(engine: MachineEngine) -> None:
        with pytest.raises(SchemaMismatch, match="1,024"):
            await engine.send(Placed("x" * 2000, 1))

    play(scene)


# -- handlers that fail ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("raise", "ValueError: broken by raise"),
        ("sleep", "BlockedLoop: the handler of a machine did real I/O"),
        ("swallow", "BlockedLoop: the handler of a machine did real I/O"),
        ("another type", "SchemaMismatch: "),
        ("wrong field", "SchemaMismatch: "),
        ("mutate and raise", "ValueError: broken by mutate"),
        ("undeclared", "InvalidFunction: machine poor.cell asks for sleep, which it does not declare"),
    ],
)
def test_a_handler_that_fails_parks_its_cell_and_keeps_its_state(what: str, reason: str) -> None:
    """Its lane goes on; the event, and what comes after it, is held; nothing of what it did is kept."""

    async def scene(engine: MachineEngine) -> None:
        await engine.send(Told("a", "one"), Told("a", what), Told("a", "two"))
        await engine.send(*(Told(f"other{number}", "one") for number in range(8)))
        parked = await cell(engine)
        assert parked.status == "parked"
        assert parked.reason.startswith(reason)
        assert parked.held_count == 2
        assert await engine.state(poor, "a") == Done(["one"])
        for number in range(8):
            assert await engine.state(poor, f"other{number}") == Done(["one"])

    play(scene)


def test_a_parked_cell_goes_on_where_it_was_once_it_is_mended() -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(Told("a", "raise"), Told("a", "two"))
        await release(engine)
        assert (await cell(engine)).status == "parked"
        bad.mended.add("raise")
        await engine.restart()
        await release(engine)
        assert await engine.state(poor, "a") == Done(["raise", "two"])

    play(scene)


def test_a_parked_cell_goes_on_without_the_event_that_parked_it() -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(Told("a", "raise"), Told("a", "two"))
        await release(engine, drop=True)
        assert await engine.state(poor, "a") == Done(["two"])
        assert (await cell(engine)).held_count == 0

    play(scene)


def test_a_timer_that_parks_its_cell_is_what_is_dropped() -> None:
    """Not the event that came after it; and the timer does not come again."""

    async def scene(engine: MachineEngine) -> None:
        await engine.send(Told("a", "later"))
        await engine.pass_time(timedelta(seconds=11))
        await engine.send(Told("a", "two"))
        assert (await cell(engine)).reason == "ValueError: broken by raise"
        await release(engine, drop=True)
        await engine.pass_time(timedelta(seconds=60))
        gone_on = await cell(engine)
        assert (gone_on.status, gone_on.timers, gone_on.held_count) == ("running", (), 0)
        assert await engine.state(poor, "a") == Done(["later", "two"])

    play(scene)


def test_a_timer_that_parked_its_cell_is_handled_once_the_cell_goes_on() -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(Told("a", "later"))
        await engine.pass_time(timedelta(seconds=11))
        bad.mended.add("raise")
        await release(engine)
        assert (await cell(engine)).status == "running"
        assert (await cell(engine)).timers == ()

    play(scene)


def test_a_receipt_that_parked_its_cell_leaves_no_open_intent_when_it_is_dropped() -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(Told("a", "look"))
        await engine.pass_time(timedelta(seconds=1))
        assert (await cell(engine)).reason == "ValueError: broken by settled"
        await release(engine, drop=True)
        gone_on = await cell(engine)
        assert (gone_on.status, gone_on.intents, gone_on.held_count) == ("running", (), 0)

    play(scene)


def test_a_cell_is_of_no_use_once_its_event_is_handled() -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(Told("a", "keep"))
        with pytest.raises(InvalidFunction, match="only while its event is handled"):
            bad.kept[0].do(bad.look, "a")

    play(scene)


def test_recorded_randomness_differs_at_every_call() -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(Told("a", "chance"), Told("a", "chance"))
        done = await engine.state(poor, "a")
        assert done is not None
        drawn = [word for word in done.words if word != "chance"]
        assert len(drawn) == len(set(drawn)) == 8

    play(scene)


def test_a_machine_that_emits_to_itself_for_ever_ends_in_a_dead_letter() -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(Ping("a"))
        await engine.rest()
        assert await engine.state(echo, "a") == Pinged(HOPS_LIMIT + 1)
        (letter,) = await engine.dead_letters()
        assert letter.reason == "1,000 emits led to it, one to the other"

    play(scene)


# -- on real stores, in real time --------------------------------------------------------------------------------------


def test_a_handler_that_spins_is_reported_and_its_event_handled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The watchdog says which lane it is, and where; nothing is lost by it."""

    async def main() -> Done | None:
        options = WorkerOptions(turn_limit_seconds=0.1)
        async with Holdfast(f"sqlite:///{tmp_path}/spin.db", options=options) as app, asyncio.timeout(30):
            sent = await app.emit(Told("a", "spin"))
            return await app.cell(poor, "a").state(after=sent.places[0])

    with caplog.at_level(logging.ERROR, "holdfast.watchdog"):
        assert asyncio.run(main()) == Done(["spin"])
    (report,) = [record.getMessage() for record in caplog.records if record.name == "holdfast.watchdog"]
    assert "holdfast:lane:poor.cell" in report
    assert "time.monotonic()" in report


async def _lived(url: str) -> None:
    """Events, receipts, emits, a parked cell and restarts, on a real store."""
    sent = None
    for life in range(3):
        async with Holdfast(url) as app, asyncio.timeout(60):
            for number in range(20):
                await app.emit(Noted(f"o{number % 5}", f"{life}.{number}"), id=f"{life}.{number}")
                await app.emit(Noted(f"o{number % 5}", f"{life}.{number}"), id=f"{life}.{number}")
            await app.emit(Placed(f"paid{life}", 5))
            await app.emit(Told("a", "raise" if life == 0 else "more"))
            sent = await app.emit(Told("b", "more"))
    async with Holdfast(url) as app, asyncio.timeout(60):
        assert sent is not None
        await app.cell(poor, "b").state(after=sent.places[0])
        for life in range(3):
            while (state := await app.cell(order, f"paid{life}").state()) is None or state.stage != "packed":
                await app.changed(0.1)
        for cell in range(5):
            found = await app.cell(order, f"o{cell}").state()
            assert found is not None
            assert found.notes == [f"{life}.{number}" for life in range(3) for number in range(cell, 20, 5)]
        parked = await app.cell(poor, "a").record()
        assert parked is not None
        assert (parked.status, parked.held_count) == ("parked", 3)


def test_cells_live_through_restarts_on_sqlite(tmp_path: Path) -> None:
    asyncio.run(_lived(f"sqlite:///{tmp_path}/cells.db"))


def test_cells_live_through_restarts_on_postgresql(postgres: PostgresServer) -> None:
    asyncio.run(_lived(postgres.schema_url()))
