"""Cells as people see them: listed, shown, followed, traced; and why they do not move."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import Holdfast, SyncHoldfast
from holdfast.client.views.cells import TraceItem, cell_record, diagnosis_record, machine_record, trace_record
from holdfast.client.views.overview import advice_record
from holdfast.errors import CellNotFound, InvalidRequest
from holdfast.journal.promise import PromiseId
from holdfast.programs.machine.handle import Cell
from holdfast.programs.machine.machine import machine
from holdfast.runs.lanes import lane_id
from holdfast.store import protocol as p
from tests.unit.client.machines import shop
from tests.unit.client.machines.shop import ASK, Closed, Order, Placed, Poisoned, handled, order, parked, until

LATER = datetime.now(UTC) + timedelta(days=1)


@pytest.fixture(autouse=True)
def _unmended() -> Iterator[None]:
    shop.Mended.yes = False
    yield
    shop.Mended.yes = False


@asynccontextmanager
async def engine(**options: Any) -> AsyncIterator[Holdfast]:
    async with Holdfast("memory://", policy=ASK, **options) as app:
        yield app


def run(main: Any) -> None:
    asyncio.run(main())


def test_machines_are_listed_with_their_cells_and_lanes() -> None:
    async def main() -> None:
        async with engine() as app:
            await parked(app)
            await handled(app, await app.emit(Placed("o2", 500, "later")), "o2")
            (found,) = [each async for each in app.machines.list() if each.name == order.name]
            assert found == await app.machines.show(order)
            assert (found.cells, found.lanes, found.paused) == ({"parked": 1, "running": 1}, 2, {})
            assert found.begun in (1, 2)
            assert found.effects == ("seen.fee", "seen.slow", "seen.broken", "seen.charge", "seen.delivering")
            lane = app.run((await app.cell(order, "o1").show()).lane)
            await lane.pause("look")
            assert list((await app.machines.show(order)).paused) == [lane.id]
            assert machine_record(found)["cells"] == {"parked": 1, "running": 1}
            with pytest.raises(InvalidRequest, match="there is no machine 'no' here"):
                await app.machines.show("no")

    run(main)


def test_cells_are_listed_by_status_state_and_activity() -> None:
    """Page after page; a field of the state is compared with what JSON has."""

    async def main() -> None:
        async with engine() as app:
            for number in range(5):
                sent = await app.emit(Placed(f"o{number}", number, "later"))
                await handled(app, sent, f"o{number}")
            await handled(app, await app.emit(Poisoned("o0")), "o0")

            async def keys(**filters: Any) -> list[str]:
                return sorted([each.key async for each in app.machines.cells(order, **filters)])

            assert await keys() == ["o0", "o1", "o2", "o3", "o4"]
            assert await keys(status="parked") == ["o0"]
            assert await keys(state={"cents": 3}) == ["o3"]
            assert await keys(state={"stage": "waiting", "cents": 3}) == ["o3"]
            assert await keys(state={"stage": "waiting"}, status="running") == ["o1", "o2", "o3", "o4"]
            assert await keys(state={"no": 3}) == await keys(state={"stage.deeper": 1}) == []
            assert await keys(active_since=LATER) == []
            assert len(await keys(active_since=LATER - timedelta(days=2))) == 5
            pages, after = [], None
            while True:
                page = await app.machines.cells_page(order, limit=2, after=after)
                pages.append([each.key for each in page.items])
                if (after := page.next) is None:
                    break
            assert sorted(key for each in pages for key in each) == await keys()
            assert max(map(len, pages)) == 2
            with pytest.raises(InvalidRequest, match="a cell's status is one of running, waiting"):
                await keys(status="sad")
            with pytest.raises(InvalidRequest, match="after= takes"):
                await app.machines.cells_page(order, after="nonsense")
            with pytest.raises(InvalidRequest, match="this cursor is of a list of cells"):
                await app.machines.dead_letters_page(after=(await app.machines.cells_page(order, limit=1)).next)

    run(main)


def test_a_cell_is_shown_with_its_types() -> None:
    """Its state as the machine's own type, times as datetimes, and the names of its open effects."""

    async def main() -> None:
        async with engine() as app:
            await handled(app, await app.emit(Placed("o1", 500, "charge")), "o1")
            found = await app.cell(order, "o1").show()
            assert found.state == Order("charging", 500)
            assert (found.status, found.reason, found.held, found.events, found.problem) == ("running", "", 0, 1, "")
            assert (found.machine, found.key, found.machine_version) == (order.name, "o1", 1)
            assert found.machine_hash == order.hash
            assert abs(datetime.now(UTC) - found.last_active) < timedelta(minutes=1)
            (intent,) = found.intents
            row = (await app.store.get([p.Key("default", found.lane)]))[0]
            assert (intent.effect, intent.sequence) == ("seen.charge", 0)
            assert intent.intent.startswith(str(PromiseId(row.root)))
            await handled(app, await app.emit(Placed("o2", 1, "later")), "o2")
            (timer,) = (await app.cell(order, "o2").show()).timers
            assert timer.at - datetime.now(UTC) > timedelta(days=1)
            assert (timer.schema, timer.value) == ("seen/Expired@1", {"order_id": "o2"})
            written = cell_record(found)
            assert (written["state"], written["key"]) == ({"stage": "charging", "cents": 500, "seen": 1}, "o1")
            assert written["intents"] == [
                {"effect": "seen.charge", "intent": intent.intent, "sequence": 0, "issuer": None}
            ]
            with pytest.raises(CellNotFound, match=r"machine seen.order has no cell of key 'o9'"):
                await app.cell(order, "o9").show()
            with pytest.raises(InvalidRequest, match="have keys: give one"):
                app.cell(order)

    run(main)


def test_a_state_that_this_code_cannot_read_is_shown_as_data() -> None:
    """The reason is said; nothing else of the cell is lost."""

    async def main() -> None:
        async with engine() as app:
            await handled(app, await app.emit(Placed("o1", 500, "later")), "o1")

            @machine(key="order_id", name=f"{order.name}.next", version=2, lanes=2)
            def newer(state: Order | None, event: Closed, cell: Cell) -> Order | None:
                return state

            newer.name = order.name
            app.machine_kind.machines = {order.name: newer}
            found = await app.cell(order.name, "o1").show()
            assert found.state == {"stage": "waiting", "cents": 500, "seen": 1}
            assert "give it migrate=" in found.problem

    run(main)


def _kinds(items: list[TraceItem]) -> list[tuple[str, str]]:
    return [(each.kind, each.name) for each in items]


def test_a_trace_tells_what_a_cell_heard_asked_for_got_and_emitted() -> None:
    """Across its whole life, and nothing of the other cells of its lane."""

    async def main() -> None:
        async with engine() as app:
            for key in ("o1", "o2", "o3", "o4"):
                await app.emit(Placed(key, 500), id=f"web {key}", by="ann")
            await until(app, "o1", lambda cell: cell.state is not None and cell.state.stage == "paid")
            await handled(app, await app.emit(Poisoned("o1")), "o1")
            await app.cell(order, "o1").release(drop=True)
            await until(app, "o1", lambda cell: cell.status == "running")
            trace = await app.cell(order, "o1").trace()
            assert [each for each in _kinds(trace.items) if each[0] != "changed"] == [
                ("event", "seen/Placed@1"),
                ("effect", "seen.fee"),
                ("annotation", "annotation"),
                ("receipt", "seen.fee"),
                ("emitted", "seen/Paid@1"),
                ("event", "seen/Poisoned@1"),
                ("parked", "parked"),
                ("released", "drop"),
            ]
            placed, effect, annotation = (each for each in trace.items[:3])
            assert placed.value == {"order_id": "o1", "cents": 500, "by": "fee"}
            assert (placed.id, placed.actor) == ("web o1", "ann")
            assert (effect.value, annotation.value) == ({"args": [500], "kwargs": {}}, {"by": "fee"})
            (receipt,) = [each for each in trace.items if each.kind == "receipt"]
            assert (receipt.value, receipt.status, receipt.intent) == (50, "ok", effect.intent)
            (stop,) = [each for each in trace.items if each.kind == "parked"]
            assert stop.reason == "ValueError: poisoned"
            assert [each.position for each in trace.items] == sorted(each.position for each in trace.items)
            assert trace_record(trace)["items"][0]["value"]["cents"] == 500
            last = await app.cell(order, "o1").trace(limit=1)
            assert _kinds(last.items) == [("changed", "changed")]
            short = await app.cell(order, "o1").trace(most_read=3)
            assert (short.first > 0, len(short.items) < len(trace.items)) == (True, True)
            assert (await app.cell(order, "never").trace()).items == []

    run(main)


def test_a_deleted_cell_has_a_trace() -> None:
    async def main() -> None:
        async with engine() as app:
            await handled(app, await app.emit(Placed("o1", 1, "later")), "o1")
            assert await handled(app, await app.emit(shop.Expired("o1")), "o1") is None
            found = _kinds((await app.cell(order, "o1").trace()).items)
            assert [each[0] for each in found] == ["event", "changed", "event", "deleted"]

    run(main)


def test_a_tail_gives_what_comes() -> None:
    """From now on, or from the beginning of the lane's journal; also where the lane has not begun."""

    async def main() -> None:
        async with engine() as app:
            found: list[TraceItem] = []

            async def follow(first: int | None, enough: int) -> list[TraceItem]:
                items = []
                async for item in app.cell(order, "o1").tail(first=first):
                    items.append(item)
                    if len(items) == enough:
                        break
                return items

            early = asyncio.create_task(follow(None, 2))
            await asyncio.sleep(0)
            await handled(app, await app.emit(Placed("o1", 1, "later")), "o1")
            async with asyncio.timeout(60):
                assert _kinds(await early) == [("event", "seen/Placed@1"), ("changed", "changed")]
                late = asyncio.create_task(follow(None, 1))
                await asyncio.sleep(0.05)
                await app.emit(Closed("o1"))
                assert _kinds(await late) == [("event", "seen/Closed@1")]
                found = await follow(0, 3)
            assert _kinds(found)[2] == ("event", "seen/Closed@1")

    run(main)


async def causes(app: Holdfast, key: str = "o1") -> list[tuple[str, str, str]]:
    found = await app.cell(order, key).diagnose()
    assert diagnosis_record(found)["causes"] == advice_record(found.causes)
    return [(each.code, each.sentence, each.command) for each in found.causes]


def test_a_parked_cell_says_which_error_parked_it() -> None:
    async def main() -> None:
        async with engine() as app:
            await parked(app)
            ((kind, text, remedy),) = await causes(app)
            assert kind == "release_cell"
            assert "ValueError: poisoned. 2 events are held for it." in text
            assert remedy == "holdfast cells release seen.order o1"

    run(main)


def test_a_cell_waits_for_an_approval_and_names_the_task() -> None:
    async def main() -> None:
        async with engine() as app:
            await app.emit(Placed("o1", 500, "charge"))
            async with asyncio.timeout(60):
                while not (tasks := [each async for each in app.tasks.list()]):
                    await app.changed(0.05)
            (cause,) = await causes(app)
            assert cause == (
                "approve",
                f"It waits for a person to approve seen.charge: task {tasks[0].id}.",
                f"holdfast approve {tasks[0].id} --as NAME",
            )

    run(main)


@pytest.mark.parametrize(
    ("by", "kind", "words"),
    [
        (
            "slow",
            "wait_attempt",
            "It waits for seen.slow, which is tried again: the last attempt ended with TimeoutError",
        ),
        ("broken", "effect_failed", "Its effect seen.broken timed out at "),
        ("later", "wait_time", "It waits for its timer, which sends it seen/Expired@1 at "),
        ("run", "follow_child", "It waits for the run that seen.delivering is: holdfast:lane:seen.order:"),
    ],
)
def test_a_cell_says_what_it_waits_for(by: str, kind: str, words: str) -> None:
    async def main() -> None:
        async with engine() as app:
            await app.emit(Placed("o1", 500, by))
            async with asyncio.timeout(60):
                while True:
                    found = await causes(app)
                    if found[0][0] == kind:
                        break
                    await app.changed(0.05)
            assert words in found[0][1]

    run(main)


def test_a_cell_that_ended_or_waits_for_events_says_so() -> None:
    async def main() -> None:
        async with engine() as app:
            await app.emit(Placed("o1", 500))
            await until(app, "o1", lambda cell: cell.state is not None and cell.state.stage == "paid")
            assert [each[0] for each in await causes(app)] == ["awaits_event"]
            await handled(app, await app.emit(Closed("o1")), "o1")
            assert [each[0] for each in await causes(app)] == ["ended"]
            assert [each[0] for each in await causes(app, "never")] == ["missing"]

    run(main)


def test_events_that_nobody_handles_are_told_with_the_reason() -> None:
    """No worker, or a lane that somebody has paused."""

    async def main() -> None:
        async with engine(worker=False) as app:
            await app.emit(Placed("o1", 500))
            await app.emit(Placed("o1", 500))
            assert [each[0] for each in await causes(app)] == ["start_worker", "wait_events"]
            assert (await causes(app))[1][1] == "2 events for it are in its lane and not handled yet."
            lane = app.run(lane_id(order.name, app.cell(order, "o1").lane))
            await lane.pause("look")
            first = (await causes(app))[0]
            assert first == (
                "resume",
                f"Its lane, run {lane.id}, is paused: paused by request: look.",
                f"holdfast resume {lane.id}",
            )

    run(main)


def test_lanes_do_not_flood_the_list_of_runs() -> None:
    """They are listed where they are asked for, and where what is held up is; no person may end one."""

    async def main() -> None:
        async with engine() as app:
            await handled(app, await app.emit(Placed("o1", 500, "later")), "o1")
            assert [each async for each in app.list()] == []
            assert (await app.page()).items == []
            (lane,) = [each.id async for each in app.list(kind="machine")]
            assert lane.startswith("holdfast:lane:seen.order:")
            for refused in (app.run(lane).cancel(), app.run(lane).fork(1)):
                with pytest.raises(InvalidRequest, match="carries the cells of a machine"):
                    await refused
            await app.run(lane).pause("look")
            assert [each.id async for each in app.list(status="paused")] == [lane]

    run(main)


def test_an_id_of_a_user_is_none_of_the_engines() -> None:
    async def main() -> None:
        async with engine(worker=False) as app:
            with pytest.raises(InvalidRequest, match="begins with 'holdfast:'"):
                await app.start(shop.delivering, 1, id="holdfast:lane:seen.order:0")

    run(main)


def test_cells_are_seen_without_await() -> None:
    with SyncHoldfast("memory://", policy=ASK) as app:
        sent = app.emit(Placed("o1", 500, "later"), id="one")
        assert app.cell(order, "o1").state(after=sent.places[0]) == Order("waiting", 500)
        assert app.cell(order, "o1").show().key == "o1"
        assert [each.key for each in app.machines.cells(order)] == ["o1"]
        assert app.machines.send_data("seen/Closed@1", {"order_id": "o1"}).heard
        assert app.cell(order, "o1").trace().items[0].kind == "event"
        assert app.cell(order, "o1").diagnose().causes
        assert order.name in [each.name for each in app.machines.list()]
        assert list(app.machines.dead_letters()) == []
