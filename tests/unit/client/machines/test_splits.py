"""Splitting lanes, seen by people: what is open goes on in the new lanes, and everything that names a cell finds it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast import Holdfast, SyncHoldfast
from holdfast.client.governance.evidence import verify_evidence
from holdfast.client.machines.blockers import find_blockers
from holdfast.client.machines.cell_handle import CellFollower
from holdfast.client.machines.proofs import prove_cell
from holdfast.client.views.cells import MachineInfo
from holdfast.errors import CellMoving, InvalidRequest
from holdfast.journal import events as e
from holdfast.lanes.roots import make_root
from holdfast.programs.machine.handle import Cell
from holdfast.programs.machine.lanes import succession
from holdfast.programs.machine.lanes.notes import read_note
from holdfast.programs.machine.machine import machine
from holdfast.programs.machine.manifest_changes import MachineChange
from holdfast.runs.journals import check_chain
from holdfast.runs.kinds.cells import CELLS
from holdfast.runs.lanes import LANE_EVENT, LANE_HEIR, lane_id
from holdfast.store import protocol as p
from holdfast.worker.lanes import cell_supplier
from tests.unit.client.machines import shop
from tests.unit.client.machines.shop import ASK, Closed, Expired, Order, Placed, handled, order, parked, until


@pytest.fixture(autouse=True)
def _unmended() -> Iterator[None]:
    shop.Mended.yes = False
    yield
    shop.Mended.yes = False


@asynccontextmanager
async def engine(**options: Any) -> AsyncIterator[Holdfast]:
    async with Holdfast("memory://", policy=ASK, **options) as app:
        yield app


async def settled(app: Holdfast) -> MachineInfo:
    """The machine as soon as all cells are in their lanes."""
    async with asyncio.timeout(60):
        while (found := await app.machines.show(order)).moving:
            await app.changed(0.05)
        return found


async def split(app: Holdfast, lanes: int) -> MachineInfo:
    """Split the lanes of orders, and wait until that is done."""
    await app.machines.split(order, lanes, by="ann", reason="more load")
    return await settled(app)


async def verified(app: Holdfast) -> None:
    async for lane in app.machines.verify(order):
        assert lane.good, lane.problems


def test_cells_are_divided_among_the_new_lanes_and_go_on_there() -> None:
    """However often; the old lanes have none. The act is noted with who, why and how many."""

    async def main() -> None:
        async with engine() as app:
            for number in range(12):
                await handled(app, await app.emit(Placed(f"o{number}", number, "later")), f"o{number}")
            found = await split(app, 4)
            assert (found.lanes, found.begun, found.unmoved, found.forwarding) == (4, 4, 0, 0)
            lanes = {(await app.cell(order, f"o{number}").show()).lane for number in range(12)}
            assert lanes <= {lane_id(order.name, index) for index in range(2, 6)}
            assert len(lanes) > 2
            again = await split(app, 12)
            assert again.lanes == 12
            assert again.cells == {"running": 12}
            await handled(app, await app.emit(Expired("o3")), "o3")
            assert await app.cell(order, "o3").state() is None
            assert await app.cell(order, "never").state() is None
            notes = [each async for each in app.audit.list(kind="operator")]
            note = next(each for each in notes if each.record["act"] == "split_lanes")
            assert (note.record["who"], note.record["reason"]) == ("ann", "more load")
            assert {"machine": order.name, "before": "2", "lanes": "4"}.items() <= note.record["details"].items()
            await verified(app)

    asyncio.run(main())


@pytest.mark.parametrize("lanes", [2, 3, 1, 0, -2, 8192, True])
def test_a_number_that_is_no_multiple_is_refused(lanes: int) -> None:
    async def main() -> None:
        async with engine() as app:
            with pytest.raises(InvalidRequest, match=r"a multiple of that|the limit is 4,096"):
                await app.machines.split(order, lanes)
            assert (await app.machines.show(order)).lanes == 2

    asyncio.run(main())


def test_a_machine_without_keys_cannot_be_split() -> None:
    @machine(name="seen.single")
    def single(state: Order | None, event: Closed, cell: Cell) -> Order | None:
        return state

    async def main() -> None:
        async with engine() as app:
            with pytest.raises(InvalidRequest, match="no keys"):
                await app.machines.split(single, 2)

    asyncio.run(main())


def test_a_split_is_under_way_until_all_lanes_have_their_cells() -> None:
    """Without a worker nothing is handed over: a second split and a fork are refused, a reader is told to come again,
    and events are taken in. A worker finishes it, and what waited is handled in order."""

    async def main() -> None:
        async with engine() as app:
            for number in range(12):
                await handled(app, await app.emit(Placed(f"o{number}", number, "later")), f"o{number}")
            for index in range(2):
                await app.run(lane_id(order.name, index)).pause("look")
            await app.machines.split(order, 4)
            found = await app.machines.show(order)
            assert (found.lanes, found.moving, found.unmoved) == (4, 4, 12)
            with pytest.raises(InvalidRequest, match="being split already"):
                await app.machines.split(order, 8)
            with pytest.raises(InvalidRequest, match="being split"):
                await app.machines.fork(order, "other")
            assert await app.cell(order, "o1").state() == Order("waiting", 1)
            sent = await app.emit(Closed("o1"), id="c1")
            assert sent.places[0].lane >= 2
            assert (await app.emit(Closed("o1"), id="c1")).repeated
            causes = (await app.cell(order, "o1").diagnose()).causes
            assert "wait_split" in [cause.code for cause in causes]
            for index in range(2):
                await app.run(lane_id(order.name, index)).resume()
            assert await handled(app, sent, "o1") == Order("closed", 1)
            await settled(app)
            assert (await app.cell(order, "o1").show()).status == "completed"
            assert (await app.emit(Closed("o1"), id="c1")).repeated
            await verified(app)

    asyncio.run(main())


def test_whoever_reads_a_cell_that_is_between_two_lanes_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not said to be missing. Its new lane stands still, and has it when it goes on."""
    monkeypatch.setattr("holdfast.client.machines.cell_handle._MOVING_SECONDS", 0.2)

    async def main() -> None:
        async with engine() as app:
            await handled(app, await app.emit(Placed("o1", 5, "later")), "o1")
            await app.run(lane_id(order.name, app.cell(order, "o1").lane)).pause("look")
            await app.machines.split(order, 4)
            heirs = [lane_id(order.name, index) for index in range(2, 6)]
            for heir in heirs:
                await app.run(heir).pause("look")
            await app.run(lane_id(order.name, app.cell(order, "o1").lane)).resume()
            async with asyncio.timeout(60):
                while (await app.machines.show(order)).unmoved:
                    await app.changed(0.05)
            with pytest.raises(CellMoving, match="on its way"):
                await app.cell(order, "o1").state()
            found = await app.cell(order, "o1").diagnose()
            assert (found.status, found.causes[0].code, found.causes[-1].code) == ("moving", "resume", "wait_split")
            assert found.causes[0].command == f"holdfast resume {found.causes[0].run}"
            assert found.causes[0].run in heirs
            for heir in heirs:
                await app.run(heir).resume()
            await settled(app)
            assert await app.cell(order, "o1").state() == Order("waiting", 5)

    asyncio.run(main())


def test_what_comes_of_an_effect_reaches_the_cell_in_its_new_lane() -> None:
    """The approval stays where it was asked for; what the act gave is forwarded, and named as it was asked for."""

    async def main() -> None:
        async with engine() as app:
            await app.emit(Placed("o1", 500, "charge"))
            before = await until(app, "o1", lambda cell: bool(cell.intents))
            (task,) = [each async for each in app.tasks.list()]
            found = await split(app, 4)
            assert found.forwarding == 1
            after = await app.cell(order, "o1").show()
            assert after.lane != before.lane
            assert after.intents == before.intents
            (cause,) = (await app.cell(order, "o1").diagnose()).causes
            assert (cause.code, cause.thing) == ("approve", task.id)
            await app.tasks.approve(task.id, by="ann")
            paid = await until(app, "o1", lambda cell: not cell.intents)
            assert paid.state == Order("paid", 500, 2)
            async with asyncio.timeout(60):
                while (await app.machines.show(order)).forwarding:
                    await app.changed(0.05)
            items = (await app.cell(order, "o1").trace()).items
            kinds = [item.kind for item in items if item.kind not in ("changed", "annotation")]
            assert kinds == ["event", "effect", "moved", "receipt", "emitted"]
            named = {item.intent for item in items if item.kind in ("effect", "receipt")}
            assert named == {before.intents[0].intent}
            await verified(app)

    asyncio.run(main())


def test_a_parked_cell_keeps_what_is_held_for_it() -> None:
    """It is released in its new lane, and handles all of it in order; what came meanwhile is held as well."""

    async def main() -> None:
        async with engine() as app:
            await parked(app)
            await split(app, 4)
            assert (await app.cell(order, "o1").show()).held == 2
            shop.Mended.yes = True
            await app.cell(order, "o1").release(by="ann")
            found = await until(app, "o1", lambda cell: cell.status != "parked")
            assert (found.state, found.status, found.held) == (Order("closed", 500, 2), "completed", 0)
            await verified(app)

    asyncio.run(main())


def test_dead_letters_are_redelivered_to_the_lane_that_has_the_cell() -> None:
    async def main() -> None:
        async with engine() as app:
            await app.emit(Placed("o1", 500))
            await until(app, "o1", lambda cell: cell.state is not None and cell.state.stage == "paid")
            await handled(app, await app.emit(Closed("o1")), "o1")
            await handled(app, await app.emit(Expired("o1")), "o1")
            letters = [each async for each in app.machines.dead_letters() if each.schema != "seen/Paid@1"]
            await split(app, 4)
            await app.machines.redeliver(letters[0], by="ann")
            async with asyncio.timeout(60):
                while True:
                    found = [each async for each in app.machines.dead_letters() if each.schema == letters[0].schema]
                    if found and found[0].id != letters[0].id:
                        break
                    await app.changed(0.05)
            assert found[0].id.split(":")[1] in {"2", "3", "4", "5"}

    asyncio.run(main())


def test_a_timeline_is_followed_across_a_split() -> None:
    """Each item once, in order; a follower that comes back with its place goes on behind it."""

    async def main() -> None:
        async with engine() as app:
            await handled(app, await app.emit(Placed("o1", 5, "later")), "o1")
            cell, place = app.cell(order, "o1"), CellFollower(0)
            first = [item.kind for item in await cell.read_on(place)]
            await split(app, 4)
            await handled(app, await app.emit(Closed("o1")), "o1")
            rest = await cell.read_on(CellFollower(place.at))
            assert first == ["event", "changed"]
            assert [item.kind for item in rest] == ["moved", "changed", "event", "changed"]
            assert [item.kind for item in (await cell.trace()).items] == [*first, *(item.kind for item in rest)]

    asyncio.run(main())


def test_a_cell_is_proved_by_the_lane_that_has_it() -> None:
    """Of a lane that was split, that a key is not there proves nothing."""

    async def main() -> None:
        async with engine() as app:
            for number in range(6):
                await handled(app, await app.emit(Placed(f"o{number}", number, "later")), f"o{number}")
            old = app.cell(order, "o1").lane_key
            await make_root(app.store, app.clock, old)
            await split(app, 4)
            made = await app.cell(order, "o1").proof()
            assert made.exists
            assert made.lane == (await app.cell(order, "o1").show()).lane
            assert verify_evidence(made.data).good
            gone = next(f"x{number}" for number in range(100) if app.cell(order, f"x{number}").lane_key == old)
            absent = await app.cell(order, gone).proof()
            assert not absent.exists
            assert verify_evidence(absent.data).good
            forged = await prove_cell(app, order.name, old, app.cell(order, "o1")._bytes)
            assert not forged.exists
            assert [claim.state for claim in verify_evidence(forged.data).claims if claim.about == "cell"] == ["broken"]

    asyncio.run(main())


def test_a_machine_whose_lanes_were_split_is_forked_whole() -> None:
    """As it is, and as it was at a time before or after; the other tenant has the lanes that it begins with."""

    async def main() -> None:
        async with engine() as app:
            for number in range(6):
                await handled(app, await app.emit(Placed(f"o{number}", number, "later")), f"o{number}")
            for index in range(2):
                await make_root(app.store, app.clock, p.Key("default", lane_id(order.name, index)))
            before = datetime.now(UTC)
            await split(app, 4)
            assert (await app.machines.fork(order, "now")).cells == 6
            assert (await app.machines.show(order, tenant="now")).lanes == 2
            assert (await app.machines.fork(order, "before", at=before)).cells == 6
            assert (await app.machines.fork(order, "after", at=datetime.now(UTC))).cells == 6

    asyncio.run(main())


def test_cells_are_handed_over_in_bounded_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """No turn takes more than its share, and no heir receives an event before it has all of its cells."""
    monkeypatch.setattr(succession, "AT_ONCE", 10)
    monkeypatch.setattr(cell_supplier, "AT_ONCE", 10)

    async def main() -> None:
        async with engine() as app:
            for number in range(120):
                await app.emit(Placed(f"o{number}", number, "later"))
            await split(app, 4)
            moved: list[int] = []
            for index in range(6):
                for run in await app.store.get([p.Key("default", lane_id(order.name, index))]):
                    entries = [each.event async for each in check_chain(app.store, run)]
                    calls = [each for each in entries if isinstance(each, e.InvokeScheduled) and each.kind == CELLS]
                    moved += [len(read_note(each.input).moved) for each in calls]
                    names = [each.signal_name for each in entries if isinstance(each, e.SignalReceived)]
                    events = [at for at, name in enumerate(names) if name == LANE_EVENT]
                    assert index < 2 or LANE_HEIR not in (names[events[0] :] if events else [])
            assert sum(moved) == 120
            assert max(moved) == 10
            await verified(app)

    asyncio.run(main())


def test_a_manifest_waits_until_all_lanes_have_their_cells() -> None:
    """It is blocked by lanes that are being split, and says which."""

    async def main() -> None:
        async with engine() as app:
            await handled(app, await app.emit(Placed("o1", 5, "later")), "o1")
            lane = app.run(lane_id(order.name, app.cell(order, "o1").lane))
            await lane.pause("look")
            await app.machines.split(order, 4)
            found = await find_blockers(app.store, "default", [MachineChange(order.name, "changed")], strict=False)
            assert {each.kind for each in found} >= {"split"}
            assert "does not have its cells yet" in " ".join(map(str, found))
            await lane.resume()
            await settled(app)
            assert await find_blockers(app.store, "default", [MachineChange(order.name, "changed")], strict=False) == []

    asyncio.run(main())


def test_lanes_are_split_without_an_event_loop() -> None:
    with SyncHoldfast("memory://") as app:
        assert app.machines.split(order, 4).lanes == 4
