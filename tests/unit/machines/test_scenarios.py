"""What machines do, from end to end on the real engine: events in, cells and effects out, restarts between."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from typing import Any

import pytest

from holdfast.errors import InvalidRequest
from holdfast.journal import events as e
from holdfast.runs.journals import check_chain
from holdfast.runs.lanes import lane_id, lane_of
from holdfast.store import protocol as p
from holdfast.testing import MachineEngine, machine_engine, run_virtually
from tests.scope import volume
from tests.unit.machines import shop
from tests.unit.machines.shop import (
    Answer,
    Asked,
    Dropped,
    Noted,
    Order,
    Parcel,
    Placed,
    lenient,
    order,
    parcel,
    strict,
)

MACHINES = [order, parcel, strict, lenient]
Scene = Callable[[MachineEngine], Coroutine[Any, Any, None]]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    shop.calls.clear()
    yield
    shop.gates.clear()


def play(scene: Scene, **options: Any) -> None:
    async def main() -> None:
        async with machine_engine(MACHINES, **options) as engine:
            await scene(engine)

    run_virtually(main())


async def notes(engine: MachineEngine, key: str) -> list[str]:
    state = await engine.state(order, key)
    assert state is not None
    return state.notes


async def journal(engine: MachineEngine, key: str) -> list[e.Event]:
    """All that is recorded in the lane of an order."""
    assert order.key_schema is not None
    lane = lane_of(order.key_schema.encode(key), order.lanes)
    (run,) = await engine.app.store.get([p.Key("default", lane_id(order.name, lane))])
    return [entry.event async for entry in check_chain(engine.app.store, run)]


def test_an_engine_for_machines_needs_virtual_time() -> None:
    async def main() -> None:
        async with machine_engine(MACHINES):
            pass

    with pytest.raises(InvalidRequest, match="run_virtually"):
        asyncio.run(main())


def test_two_keys_interleave_and_each_cell_sees_only_its_own_state() -> None:
    async def scene(engine: MachineEngine) -> None:
        for number in range(5):
            await engine.send(Noted("a", f"a{number}"), Noted("b", f"b{number}"))
        assert await notes(engine, "a") == [f"a{number}" for number in range(5)]
        assert await notes(engine, "b") == [f"b{number}" for number in range(5)]

    play(scene)


def test_a_null_state_deletes_the_cell_and_the_next_event_begins_anew() -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(Noted("a", "before"), Dropped("a"))
        assert await engine.record(order, "a") is None
        await engine.send(Noted("a", "after"))
        assert await engine.state(order, "a") == Order(notes=["after"])

    play(scene)


def test_receipts_go_to_the_cell_that_asked_however_many_are_under_way() -> None:
    """No receipt reaches another cell, in whatever order the effects end."""

    async def scene(engine: MachineEngine) -> None:
        names = [f"o{number}" for number in range(20)]
        shop.gates.update((name, asyncio.Event()) for name in names)
        await engine.send(*(Placed(name, 5) for name in names))
        for name in sorted(names, key=lambda _: random.Random(7).random()):
            assert await engine.state(parcel, name) is None
            shop.gates[name].set()
        await engine.rest()
        for name in names:
            assert await engine.state(parcel, name) == Parcel(f"payment of {name}")

    play(scene)


def test_a_receipt_and_an_event_lead_to_follow_ups_in_order() -> None:
    """Two machines: the order is paid, the parcel is packed, and the order hears of it."""

    async def scene(engine: MachineEngine) -> None:
        await engine.send(Placed("o1", 500))
        await engine.rest()
        assert await engine.state(order, "o1") == Order("packed")
        assert await engine.state(parcel, "o1") == Parcel("payment of o1")
        assert shop.calls == ["o1"]

    play(scene)


def test_a_receipt_of_a_deleted_cell_reaches_nobody() -> None:
    """Nor the cell of the same key that was made since."""

    async def scene(engine: MachineEngine) -> None:
        shop.gates["o1"] = asyncio.Event()
        await engine.send(Placed("o1", 500), Dropped("o1"), Noted("o1", "again"))
        shop.gates["o1"].set()
        await engine.pass_time(timedelta(seconds=1))
        assert await engine.state(order, "o1") == Order(notes=["again"])

    play(scene)


def test_two_effects_of_one_step_are_both_done_and_told_apart() -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(Noted("a", "twice"))
        await engine.rest()
        assert sorted(await notes(engine, "a")) == ["0: 1 for a", "1: 2 for a"]

    play(scene)


def test_a_timer_survives_a_restart() -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(Placed("o1", 500))
        await engine.rest()
        for _ in range(3):
            await engine.restart()
            await engine.pass_time(timedelta(hours=12))
        assert await notes(engine, "o1") == []
        await engine.pass_time(timedelta(hours=12, seconds=1))
        assert await notes(engine, "o1") == ["expired"]

    play(scene)


def test_a_timer_that_came_while_nobody_was_there_is_handled_at_the_next_start() -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(Placed("o1", 500))
        await engine.rest()
        await engine.stop()
        await asyncio.sleep(5 * 86400)
        await engine.start()
        await engine.pass_time(timedelta(seconds=5))
        assert await notes(engine, "o1") == ["expired"]

    play(scene)


def test_a_wait_for_a_receipt_survives_a_restart() -> None:
    """The step was cut off, so it runs again; what it gives goes to the cell that asked before the restart."""

    async def scene(engine: MachineEngine) -> None:
        shop.gates["o1"] = asyncio.Event()
        await engine.send(Placed("o1", 500), Placed("o2", 500))
        await engine.restart()
        state = await engine.state(order, "o1")
        assert state is not None
        assert state.stage == "charging"
        shop.gates["o1"].set()
        await engine.rest()
        assert await engine.state(order, "o1") == Order("packed")
        assert await engine.state(order, "o2") == Order("packed")
        assert shop.calls.count("o2") == 1

    play(scene)


def test_an_event_that_nobody_hears_is_a_dead_letter() -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(Noted("a", "nobody"))
        (letter,) = await engine.dead_letters()
        assert (letter.machine, letter.schema, letter.reason) == ("shop.order", "shop/Unheard@1", "nobody hears it")

    play(scene)


def test_an_event_from_outside_that_nobody_hears_says_so() -> None:
    async def scene(engine: MachineEngine) -> None:
        sent = await engine.send(shop.Unheard("a"))
        assert not sent.heard

    play(scene)


def test_two_spellings_of_one_call_are_one_intent() -> None:
    """Arguments by place and by name are written the same, and so are maps in any order."""

    async def scene(engine: MachineEngine) -> None:
        await engine.send(Noted("a", "spelt"))
        await engine.rest()
        inputs = [
            event.input
            for event in await journal(engine, "a")
            if isinstance(event, e.InvokeScheduled) and event.function_name == "shop.spell"
        ]
        assert len(inputs) == 3
        assert len(set(inputs)) == 1

    play(scene)


def test_an_effect_with_arguments_of_another_type_is_refused_before_it_is_queued() -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(Noted("a", "misspelt"))
        record = await engine.record(order, "a")
        assert record is not None
        assert record.status == "parked"
        assert "'words'" in record.reason
        asked = [each.kind for each in await journal(engine, "a") if isinstance(each, e.InvokeScheduled)]
        assert asked == ["cells"]

    play(scene)


def test_a_thousand_messages_over_32_cells_are_all_handled_in_order() -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(*(Noted(f"c{number % 32}", str(number)) for number in range(1000)))
        for cell in range(32):
            assert await notes(engine, f"c{cell}") == [str(number) for number in range(cell, 1000, 32)]

    play(scene)


def test_an_event_that_is_sent_again_with_its_id_is_handled_once() -> None:
    async def scene(engine: MachineEngine) -> None:
        for _ in range(3):
            await engine.send(Noted("a", "once"), id="web-17")
        await engine.restart()
        assert (await engine.send(Noted("a", "once"), id="web-17")).repeated
        assert await notes(engine, "a") == ["once"]

    play(scene)


def test_an_effect_that_fails_or_takes_too_long_comes_as_a_receipt() -> None:
    """M-70: error and timeout; the cell goes on."""

    async def scene(engine: MachineEngine) -> None:
        await engine.send(Placed("bad", -1), Noted("late", "slow"))
        await engine.pass_time(timedelta(seconds=30))
        (refused,) = await notes(engine, "bad")
        (late,) = await notes(engine, "late")
        assert refused == "shop.charge error ValueError: no such amount"
        assert late.startswith("shop.slow error TimeoutError")
        await engine.send(Noted("bad", "more"))
        assert (await notes(engine, "bad"))[-1] == "more"

    play(scene)


def test_a_receipt_that_cannot_be_read_is_a_rejection_where_the_machine_accepts_one() -> None:
    """M-22 to M-24: the intent is settled either way; without ``Rejected`` the cell fails."""

    async def scene(engine: MachineEngine) -> None:
        await engine.send(Asked("a"))
        await engine.pass_time(timedelta(seconds=5))
        accepted, failed = await engine.record(lenient, "a"), await engine.record(strict, "a")
        assert await engine.state(lenient, "a") == Answer("rejected: shop.odd")
        assert accepted is not None
        assert (accepted.status, accepted.intents) == ("running", ())
        assert failed is not None
        assert (failed.status, failed.intents) == ("failed", ())
        assert failed.reason.startswith("what came of shop.odd cannot be read")

    play(scene)


def test_of_many_senders_one_looks_which_manifest_is_in_force() -> None:
    """Otherwise a thousand of them would ask the store at once, whenever it is time to look."""

    async def scene(engine: MachineEngine) -> None:
        await engine.send(Noted("a", "first"))
        store, looks = engine.app.store, 0
        read = store.item

        async def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal looks
            looks += 1
            await asyncio.sleep(0.001)
            return await read(*args, **kwargs)

        await engine.pass_time(timedelta(minutes=5))
        store.item = counted  # type: ignore[method-assign]  # only counted
        await asyncio.gather(*(engine.app.emit(Noted(f"k{number}", "more")) for number in range(50)))
        assert 1 <= looks < 10  # the worker looks for its lanes, too

    play(scene)


def test_one_seed_gives_one_history() -> None:
    """The same events at the same times: the same journal, entry by entry."""
    histories = []

    async def scene(engine: MachineEngine) -> None:
        await engine.send(Placed("o1", 500), id="e1")
        await engine.rest()
        histories.append([repr(event) for event in await journal(engine, "o1")])

    play(scene, seed=5)
    play(scene, seed=5)
    assert histories[0] == histories[1]


@pytest.mark.long
def test_many_events_to_one_key_are_handled_in_order() -> None:
    count = volume(500, 100_000)

    async def scene(engine: MachineEngine) -> None:
        for first in range(0, count, 500):
            await engine.send(*(Noted("a", f"stage:{number}") for number in range(first, min(count, first + 500))))
        state = await engine.state(order, "a")
        assert state is not None
        assert state.stage == str(count - 1)

    play(scene)


def test_many_keys_with_one_event_each() -> None:
    count = volume(1_000, 1_000_000)

    async def scene(engine: MachineEngine) -> None:
        for first in range(0, count, 500):
            await engine.send(*(Noted(f"k{number}", "here") for number in range(first, min(count, first + 500))))
        counted = await engine.app.store.count_cells("default", order.name)
        assert counted == {"running": count}

    play(scene)
