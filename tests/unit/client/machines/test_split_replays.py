"""Lanes that were split, seen by other code: a shadow run and a replay follow a cell from its old lane into the new
one, with what it had asked for; and what they cannot see they name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, get_type_hints

import pytest

from holdfast import Holdfast
from holdfast.client.machines import shadow
from holdfast.client.machines.recordings import read_recording, replay_recording
from holdfast.lanes.roots import make_root
from holdfast.programs.machine.handle import Cell
from holdfast.programs.machine.kind import Machines
from holdfast.programs.machine.lanes.shadow_reports import EffectTally, MachineShadow
from holdfast.programs.machine.machine import Machine
from holdfast.runs.lanes import lane_id
from holdfast.store import protocol as p
from tests.unit.client.machines import shop
from tests.unit.client.machines.shop import (
    ASK,
    Closed,
    Expired,
    Order,
    Paid,
    Placed,
    Poisoned,
    handled,
    order,
    parked,
    until,
)
from tests.unit.client.machines.test_splits import settled, split, verified


@pytest.fixture(autouse=True)
def _unmended() -> Iterator[None]:
    shop.Mended.yes = False
    yield
    shop.Mended.yes = False


@asynccontextmanager
async def engine() -> AsyncIterator[Holdfast]:
    async with Holdfast("memory://", policy=ASK) as app:
        yield app


Handler = Callable[[Any, Any, Cell], Any]


def other(change: Handler) -> Machine[Any]:
    """Orders by other code."""
    change.__annotations__ = get_type_hints(order.function)
    return Machine(
        change,
        name=order.name,
        key="order_id",
        effects=list(order.effects.values()),
        emits=[Paid],
        version=1,
        lanes=order.lanes,
        limits=order.limits,
        migrate=None,
    )


async def replayed(app: Holdfast, code: Machine[Any] = order) -> MachineShadow:
    """What code makes of what was recorded: read from the store, and from a file."""
    recording = read_recording(await app.machines.recording(order))
    (found,) = (await replay_recording(recording, Machines({code.name: code}))).machines
    assert found.change == "replayed"
    return found


async def _approve(app: Holdfast) -> None:
    (task,) = [each async for each in app.tasks.list(status="requested")]
    await app.tasks.approve(task.id, by="ann")


async def _lived(app: Holdfast) -> None:
    """Orders in all conditions before a split, which go on after it, and a second split."""
    for number in range(8):
        await handled(app, await app.emit(Placed(f"o{number}", number, "later")), f"o{number}")
    await app.emit(Placed("charged", 500, "charge"))
    await until(app, "charged", lambda cell: bool(cell.intents))
    await parked(app, "stuck")
    await split(app, 4)
    await _approve(app)
    await until(app, "charged", lambda cell: not cell.intents)
    await handled(app, await app.emit(Closed("o1")), "o1")
    await handled(app, await app.emit(Expired("o2")), "o2")
    await app.emit(Placed("o2", 7, "charge"))
    await until(app, "o2", lambda cell: bool(cell.intents))
    await split(app, 8)
    await _approve(app)
    await until(app, "o2", lambda cell: not cell.intents)
    await verified(app)


def test_the_same_code_agrees_with_lanes_that_were_split() -> None:
    """Of effects that were asked for in the old lane, the receipts come to the new one."""

    async def main() -> None:
        async with engine() as app:
            await _lived(app)
            seen = await replayed(app)
            assert (seen.unseen, seen.different, seen.cells) == ((), 0, 10)
            assert seen.failures == {"ValueError: poisoned": 1}  # as it was recorded
            assert seen.statuses == seen.shadow_statuses == {"running": 8, "completed": 1, "parked": 1}
            assert seen.effects["seen.charge"] == EffectTally(2, 2, 2)

    asyncio.run(main())


def test_a_shadow_run_of_a_proposal_sees_them_too() -> None:
    def same(state: Any, event: Any, cell: Cell) -> Any:
        return order.function(state, event, cell)

    async def main() -> None:
        async with engine() as app:
            await _lived(app)
            app.machine_kind.machines = {order.name: other(same)}
            app.machine_kind.board = Machines(app.machine_kind.machines).board
            proposal = await app.machines.propose(by="ada")
            found = (await app.machines.shadow(proposal.id, by="ada")).shadow
            assert found is not None
            (seen,) = [each for each in found.machines if each.machine == order.name]
            assert (seen.unseen, seen.different, seen.cells) == ((), 0, 10)
            assert seen.effects["seen.charge"] == EffectTally(2, 2, 2)

    asyncio.run(main())


def test_what_other_code_would_have_done_before_the_split_is_seen_after_it() -> None:
    """Its cells are not taken over from what was recorded, but as it would have made them."""

    def dearer(state: Any, event: Any, cell: Cell) -> Any:
        made: Any = order.function(state, event, cell)
        return replace(made, cents=made.cents + 1) if isinstance(event, Placed) else made

    async def main() -> None:
        async with engine() as app:
            for number in range(6):
                await handled(app, await app.emit(Placed(f"o{number}", number, "later")), f"o{number}")
            await split(app, 4)
            await handled(app, await app.emit(Closed("o1")), "o1")
            await split(app, 8)
            seen = await replayed(app, other(dearer))
            assert (seen.cells, seen.different) == (6, 6)
            deltas = {each.key: (each.recorded, each.shadow) for each in seen.deltas}
            assert deltas == {f"o{number}": ({"cents": number}, {"cents": number + 1}) for number in range(6)}
            assert not seen.agrees

    asyncio.run(main())


def test_an_effect_that_other_code_does_not_ask_for_has_no_receipt_in_the_new_lane() -> None:
    def mean(state: Any, event: Any, cell: Cell) -> Any:
        if isinstance(event, Placed):
            return Order("unpaid", event.cents)
        return order.function(state, event, cell)

    async def main() -> None:
        async with engine() as app:
            await app.emit(Placed("o1", 500, "charge"))
            await until(app, "o1", lambda cell: bool(cell.intents))
            await split(app, 4)
            await _approve(app)
            await until(app, "o1", lambda cell: not cell.intents)
            seen = await replayed(app, other(mean))
            assert seen.effects == {"seen.charge": EffectTally(recorded=1)}
            (delta,) = seen.deltas
            assert delta.shadow == {"stage": "unpaid", "seen": 1}

    asyncio.run(main())


def test_an_effect_that_other_code_asks_for_only_after_the_split_gets_the_recorded_receipt() -> None:
    def late(state: Any, event: Any, cell: Cell) -> Any:
        if isinstance(event, Placed):
            return Order("charging", event.cents)
        if isinstance(event, Poisoned):
            cell.do(shop.charge, state.cents)
            return state
        return order.function(state, event, cell)

    async def main() -> None:
        async with engine() as app:
            await app.emit(Placed("o1", 500, "charge"))
            await until(app, "o1", lambda cell: bool(cell.intents))
            await split(app, 4)
            shop.Mended.yes = True
            await handled(app, await app.emit(Poisoned("o1")), "o1")
            await _approve(app)
            await until(app, "o1", lambda cell: not cell.intents)
            seen = await replayed(app, other(late))
            assert seen.effects == {"seen.charge": EffectTally(1, 1, 1)}
            assert (seen.cells, seen.different) == (1, 0)  # it is paid all the same

    asyncio.run(main())


def test_a_cell_that_only_other_code_has_goes_on_in_the_new_lane() -> None:
    """The recorded code had deleted it before the split."""

    def keeping(state: Any, event: Any, cell: Cell) -> Any:
        if isinstance(event, Expired):
            return replace(state, stage="kept")
        if isinstance(event, Poisoned):
            return replace(state, seen=state.seen + 1) if state else None
        return order.function(state, event, cell)

    async def main() -> None:
        async with engine() as app:
            for key in ("o1", "o2"):
                await handled(app, await app.emit(Placed(key, 5, "later")), key)
                await handled(app, await app.emit(Expired(key)), key)
            await split(app, 4)
            shop.Mended.yes = True
            await handled(app, await app.emit(Poisoned("o1")), "o1")
            seen = await replayed(app, other(keeping))
            deltas = {each.key: (each.recorded, each.shadow) for each in seen.deltas}
            assert deltas == {
                "o1": ({"stage": "mended", "cents": 0, "seen": 1}, {"stage": "kept", "cents": 5, "seen": 2}),
                "o2": (None, {"stage": "kept", "cents": 5, "seen": 1}),
            }

    asyncio.run(main())


def test_a_cell_that_is_between_two_lanes_is_named() -> None:
    """It is in no lane when the recording is made."""

    async def main() -> None:
        async with engine() as app:
            await handled(app, await app.emit(Placed("o1", 5, "later")), "o1")
            lane = app.run(lane_id(order.name, app.cell(order, "o1").lane))
            await lane.pause("look")
            await app.machines.split(order, 4)
            heirs = [app.run(lane_id(order.name, index)) for index in range(2, 6)]
            for heir in heirs:
                await heir.pause("look")
            await lane.resume()
            async with asyncio.timeout(20):
                while (await app.machines.show(order)).unmoved:
                    await app.changed(0.05)
            seen = await replayed(app)
            assert seen.unseen == ("cell 'o1': it is on its way between two lanes",)
            assert (seen.cells, seen.different) == (0, 0)
            for heir in heirs:
                await heir.resume()
            await settled(app)
            assert (await replayed(app)).unseen == ()

    asyncio.run(main())


def test_what_an_unseen_old_lane_handed_over_is_taken_as_it_was_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The new lane is compared from there on; the report says which lane was not seen."""

    async def main() -> None:
        async with engine() as app:
            for number in range(12):
                await handled(app, await app.emit(Placed("o1", number, "later")), "o1")
            await split(app, 4)
            await handled(app, await app.emit(Closed("o1")), "o1")
            recorded = read_recording(await app.machines.recording(order))
            versions = sorted(lane.version for lane in recorded.lanes)
            monkeypatch.setattr(shadow, "MOST_ENTRIES", versions[-1] - 1)
            seen = await replayed(app)
            assert ["over" in each for each in seen.unseen] == [True]
            assert (seen.cells, seen.different) == (1, 0)

    asyncio.run(main())


def test_a_fork_of_a_machine_that_was_split_is_verified_replayed_and_split_like_any_other() -> None:
    """A cell that waits for an effect of its old lane is parked there. As of a time before the split the old lanes
    count, as of now the new ones."""

    async def main() -> None:
        async with engine() as app:
            await handled(app, await app.emit(Placed("o1", 5, "later")), "o1")
            for index in range(2):
                await make_root(app.store, app.clock, p.Key("default", lane_id(order.name, index)))
            before = datetime.now(UTC)
            await app.emit(Placed("o2", 500, "charge"))
            await until(app, "o2", lambda cell: bool(cell.intents))
            await split(app, 4)
            assert (await app.machines.fork(order, "past", at=before)).cells == 1
            assert (await app.machines.fork(order, "now")).cells == 2
            found = await app.cell(order, "o2", tenant="now").show()
            assert (found.status, found.intents) == ("parked", ())
            assert "while effects were open: seen.charge 0" in found.reason
            await app.machines.split(order, 6, tenant="now")
            async with asyncio.timeout(20):
                while (await app.machines.show(order, tenant="now")).moving:
                    await app.changed(0.05)
            sent = await app.emit(Closed("o1"), tenant="now")
            assert await handled(app, sent, "o1", tenant="now") == Order("closed", 5)
            await verified(app)
            recording = read_recording(await app.machines.recording(order, tenant="now"))
            (seen,) = (await replay_recording(recording, Machines({order.name: order}))).machines
            assert (seen.agrees, seen.unseen, seen.cells) == (True, (), 2)

    asyncio.run(main())
