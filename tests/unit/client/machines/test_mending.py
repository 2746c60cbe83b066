"""What people do about cells that cannot go on, and about events that no cell could handle: once, and noted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast import Holdfast, machine
from holdfast.client.views.cells import dead_letter_record
from holdfast.errors import CellNotFound, CellNotParked, DeadLetterNotFound, InvalidRequest, SchemaMismatch
from holdfast.programs.machine.handle import Cell
from holdfast.programs.machine.kind import Machines
from tests.unit.client.machines import shop
from tests.unit.client.machines.shop import ASK, Closed, Order, Paid, Placed, Poisoned, handled, order, parked, until


@pytest.fixture(autouse=True)
def _unmended() -> Iterator[None]:
    shop.Mended.yes = False
    yield
    shop.Mended.yes = False


@asynccontextmanager
async def engine(**options: Any) -> AsyncIterator[Holdfast]:
    async with Holdfast("memory://", policy=ASK, **options) as app:
        yield app


async def acts(app: Holdfast) -> list[tuple[str, str, dict[str, str]]]:
    return [
        (each.record["act"], each.record["who"], each.record["details"])
        async for each in app.audit.list(kind="operator")
        if each.record["act"] != "policy" and each.record["who"] not in ("engine", "worker")
    ]


def test_a_released_cell_handles_what_was_held_in_order() -> None:
    """Once its code is mended; the act is noted with who and why."""

    async def main() -> None:
        async with engine() as app:
            await parked(app)
            shop.Mended.yes = True
            await app.cell(order, "o1").release(by="ann", reason="mended")
            found = await until(app, "o1", lambda cell: cell.status != "parked")
            assert (found.state, found.status, found.held) == (Order("closed", 500, 2), "completed", 0)
            note = [each async for each in app.audit.list(kind="operator")][-1]
            assert len(await acts(app)) == 1
            assert (note.record["act"], note.record["who"], note.record["reason"]) == ("release_cell", "ann", "mended")
            assert note.record["details"] == {"machine": "seen.order", "key": "o1"}
            assert note.run == found.lane

    asyncio.run(main())


def test_a_release_that_drops_leaves_the_event_out_that_parked_the_cell() -> None:
    async def main() -> None:
        async with engine() as app:
            await parked(app)
            await app.cell(order, "o1").release(drop=True)
            found = await until(app, "o1", lambda cell: cell.status != "parked")
            assert (found.state, found.status) == (Order("closed", 500, 2), "completed")
            assert [act for act, _, _ in await acts(app)] == ["drop_event"]

    asyncio.run(main())


def test_a_timer_that_parked_its_cell_can_be_dropped() -> None:
    """It is held like an event, so that it does not come again, and no innocent event is dropped in its place."""

    async def main() -> None:
        async with engine() as app:
            await app.emit(Placed("o1", 7, "timer"))
            stopped = await until(app, "o1", lambda cell: cell.status == "parked")
            assert (stopped.held, stopped.timers) == (1, ())
            await handled(app, await app.emit(Closed("o1")), "o1")
            await app.cell(order, "o1").release(drop=True)
            found = await until(app, "o1", lambda cell: cell.status != "parked")
            assert found.state == Order("closed", 7)

    asyncio.run(main())


def test_a_cell_that_is_not_mended_parks_again_with_all_that_was_held() -> None:
    async def main() -> None:
        async with engine() as app:
            await parked(app)
            cell = app.cell(order, "o1")
            before = await cell.show()
            await cell.release()
            found = await until(app, "o1", lambda each: each.last_active > before.last_active)
            assert (found.status, found.held) == ("parked", 2)

    asyncio.run(main())


def test_a_release_that_is_sent_twice_drops_one_event() -> None:
    """The second is about an event that is no longer held; another of the same kind has another id."""

    async def main() -> None:
        async with engine() as app:
            await handled(app, await app.emit(Placed("o1", 7, "later")), "o1")
            for event in (Poisoned("o1"), Poisoned("o1"), Closed("o1")):
                await handled(app, await app.emit(event), "o1")
            cell = app.cell(order, "o1")
            run = app.run((await cell.show()).lane)
            await run.pause()  # so that both are on their way before the first is heard
            await cell.release(drop=True)
            await cell.release(drop=True)
            await run.resume()
            await until(app, "o1", lambda each: each.held < 3)
            await handled(app, await app.emit(Placed("o1", 8)), "o1")
            found = await cell.show()
            assert (found.status, found.held) == ("parked", 3)

    asyncio.run(main())


def test_only_a_parked_cell_is_released() -> None:
    async def main() -> None:
        async with engine() as app:
            with pytest.raises(CellNotFound):
                await app.cell(order, "o1").release()
            await handled(app, await app.emit(Placed("o1", 7, "later")), "o1")
            with pytest.raises(CellNotParked, match="is running, not parked"):
                await app.cell(order, "o1").release()
            assert await acts(app) == []

    asyncio.run(main())


def test_an_event_for_an_ended_cell_is_a_dead_letter_and_is_redelivered_to_that_cell() -> None:
    """It is refused again, and so a dead letter again: nothing is lost."""

    async def main() -> None:
        async with engine() as app:
            await handled(app, await app.emit(Placed("o1", 7, "later")), "o1")
            await handled(app, await app.emit(Closed("o1")), "o1")
            await handled(app, await app.emit(Placed("o1", 8), id="late"), "o1")
            (letter,) = [each async for each in app.machines.dead_letters()]
            assert (letter.machine, letter.schema, letter.key) == ("seen.order", "seen/Placed@1", "o1")
            assert (letter.value["cents"], letter.event_id, letter.reason) == (8, "late", "its cell is completed")
            assert dead_letter_record(letter)["value"] == {"order_id": "o1", "cents": 8, "by": "fee"}
            await app.machines.redeliver(letter, by="ann")
            async with asyncio.timeout(60):
                while [each.id async for each in app.machines.dead_letters()] in ([], [letter.id]):
                    await app.changed(0.05)
            assert await acts(app) == [
                ("redeliver_event", "ann", {"letter": letter.id, "schema": "seen/Placed@1"}),
            ]
            with pytest.raises(DeadLetterNotFound, match="somebody has redelivered it"):
                await app.machines.redeliver(letter)
            assert len(await acts(app)) == 1

    asyncio.run(main())


def test_an_event_that_nobody_heard_is_redelivered_once_somebody_does() -> None:
    """To all that hear it by then; before that nothing happens to it."""

    async def main() -> None:
        async with engine() as app:
            app.machine_kind.machines = {order.name: order}
            await app.emit(Placed("o1", 500))
            await until(app, "o1", lambda cell: cell.state is not None and cell.state.stage == "paid")
            (letter,) = [each async for each in app.machines.dead_letters()]
            assert (letter.schema, letter.reason) == ("seen/Paid@1", "nobody hears it")
            with pytest.raises(InvalidRequest, match="nobody hears seen/Paid@1 still"):
                await app.machines.redeliver(letter.id)

            @machine(key="order_id", name="seen.books", lanes=1)
            def books(state: Paid | None, event: Paid, cell: Cell) -> Paid | None:
                return event

            both = Machines({order.name: order, books.name: books})
            app.machine_kind.machines, app.machine_kind.board = both.machines, both.board
            app.machine_kind.routes.clear()
            await app.machines.redeliver(letter.id)
            assert (await app.machines.dead_letters_page()).items == []
            async with asyncio.timeout(60):
                while await app.cell(books, "o1").state() is None:
                    await app.changed(0.05)

    asyncio.run(main())


def test_dead_letters_come_in_pages() -> None:
    async def main() -> None:
        async with engine() as app:
            await handled(app, await app.emit(Placed("o1", 7, "later")), "o1")
            await handled(app, await app.emit(Closed("o1")), "o1")
            for number in range(3):
                await handled(app, await app.emit(Placed("o1", number)), "o1")
            first = await app.machines.dead_letters_page(limit=2)
            rest = await app.machines.dead_letters_page(limit=2, after=first.next)
            assert [each.value["cents"] for each in (*first.items, *rest.items)] == [0, 1, 2]
            assert rest.next is None
            for bad in ("no", "a:b:c:d", "seen.order:0:1:99999999999999999999"):
                with pytest.raises((InvalidRequest, DeadLetterNotFound)):
                    await app.machines.redeliver(bad)

    asyncio.run(main())


def test_an_event_is_sent_as_data_by_its_schemas_name() -> None:
    async def main() -> None:
        async with engine(worker=False) as app:
            sent = await app.machines.send_data("seen/Placed@1", {"order_id": "o1", "cents": 5}, id="one")
            assert (sent.schema, sent.heard, sent.repeated) == ("seen/Placed@1", True, False)
            assert (await app.machines.send_data("seen/Placed@1", {"order_id": "o1", "cents": 5}, id="one")).repeated
            with pytest.raises(SchemaMismatch, match="cents"):
                await app.machines.send_data("seen/Placed@1", {"order_id": "o1", "cents": "5"})
            with pytest.raises(InvalidRequest, match="there is no schema 'seen/No@1'"):
                await app.machines.send_data("seen/No@1", {})

    asyncio.run(main())


def test_what_a_user_sends_and_releases_is_noted_with_their_name() -> None:
    async def main() -> None:
        async with engine() as app:
            await app.tenants.create("acme")
            await app.users.create("ann", level=4, tenant="acme")
            ann = app.acting_as("ann", tenant="acme")
            sent = await ann.emit(Placed("o1", 7, "later"))
            assert await ann.cell(order, "o1").state(after=sent.places[0]) == Order("waiting", 7)
            await handled(app, await ann.emit(Poisoned("o1")), "o1", "acme")
            await ann.cell(order, "o1").release(drop=True)
            told = [
                (each.record["act"], each.record["who"])
                async for each in app.audit.list(kind="operator", tenant="acme")
                if each.record["who"] == "ann"
            ]
            assert told == [("send_event", "ann"), ("send_event", "ann"), ("drop_event", "ann")]
            placed = (await ann.cell(order, "o1").trace()).items[0]
            assert placed.actor == "ann"

    asyncio.run(main())
