"""Cells of machines: written with their lane's turn, found by key, time, status and activity; and dead letters, of
which each is delivered again at most once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from holdfast.store import protocol as p
from holdfast.testing.stores.concurrency import handles
from holdfast.testing.stores.governance.samples import bodies, note
from holdfast.testing.stores.samples import (
    NOW,
    TENANT,
    advanced,
    begun,
    commit,
    deliver,
    key,
    leased,
    row,
    start,
    turn,
)
from holdfast.testing.stores.topic import Topic, on_fresh_store

MACHINE = "order"


def cell(
    name: bytes = b"o1", record: bytes | None = b"record", *, status: str = "running", wake_at: int | None = None
) -> p.CellChange:
    return p.CellChange(name, record, status, wake_at, NOW)


def letter(value: bytes = b"value", *, id: str | None = None) -> p.DeadLetter:
    return p.DeadLetter(MACHINE, "shop/Paid@1", value, b"o1", "nobody hears it", NOW, id)


async def write(
    store: p.Store, *cells: p.CellChange, lane: str = "one", dead: Sequence[p.DeadLetter] = (), machine: str = MACHINE
) -> None:
    """A turn of a lane that leaves these cells."""
    present = await row(store, lane) if await store.get([key(lane)]) else await leased(store, lane)
    await advanced(
        store, turn(present, attached=(p.PutCells(key(lane), machine, present.version, cells, tuple(dead)),))
    )


def _drop(number: int = 0, id: str = "act 1", *more: p.Act) -> p.Operate:
    changes = (p.DropDead(key(), 2, number), *more)
    return p.Operate(msgspec.structs.replace(note("said"), id=id), changes)


class CellTopic(Topic):
    @on_fresh_store
    async def test_cells_are_written_with_their_lanes_turn(self, store: p.Store) -> None:
        """As they are left; a later turn writes over them, and one without a record deletes its cell."""
        await write(store, cell(b"o1", b"first", wake_at=NOW + 5), cell(b"o2", b"\x00\xff", status="parked"))
        found = await store.cells(key(), [b"o1", b"o2", b"o3"])
        assert sorted(found) == [
            p.CellRow(TENANT, "one", b"o1", MACHINE, b"first", "running", NOW + 5, NOW, 2),
            p.CellRow(TENANT, "one", b"o2", MACHINE, b"\x00\xff", "parked", None, NOW, 2),
        ]
        await write(store, cell(b"o1", b"second", status="completed"), cell(b"o2", None))
        (left,) = await store.cells(key(), [b"o1", b"o2"])
        assert (left.record, left.status, left.wake_at, left.version) == (b"second", "completed", None, 3)
        assert await store.cells(key(), []) == []
        assert await store.cells(key(tenant="bolt"), [b"o1"]) == []

    @on_fresh_store
    async def test_a_turn_that_is_refused_writes_no_cell(self, store: p.Store) -> None:
        """Its lease is another's, so are its cells."""
        await write(store, cell(b"o1", b"first"))
        present = await row(store)
        late = msgspec.structs.replace(present, epoch=present.epoch + 1)
        attached = p.PutCells(key(), MACHINE, 9, (cell(b"o1", b"late"),), (letter(),))
        assert await commit(store, turn(late, attached=(attached,))) == p.Fenced()
        assert [each.record for each in await store.cells(key(), [b"o1"])] == [b"first"]
        assert await store.dead_letters(TENANT, 9) == []

    @on_fresh_store
    async def test_due_cells_come_in_the_order_of_their_times(self, store: p.Store) -> None:
        """Only those of the lane that are due; and the next time is known."""
        times = {b"a": NOW + 30, b"b": NOW + 10, b"c": NOW + 20, b"d": None}
        await write(store, *(cell(name, wake_at=at) for name, at in times.items()))
        await write(store, cell(b"e", wake_at=NOW), lane="two")
        assert await store.due_cells(key(), NOW + 9, 9) == []
        assert [each.key for each in await store.due_cells(key(), NOW + 20, 9)] == [b"b", b"c"]
        assert [each.key for each in await store.due_cells(key(), NOW + 99, 2)] == [b"b", b"c"]
        assert [await store.next_wake(key(), after) for after in (0, NOW + 10, NOW + 30)] == [NOW + 10, NOW + 20, None]
        assert await store.next_wake(key("no"), 0) is None

    @on_fresh_store
    async def test_cells_are_listed_by_lane_and_key(self, store: p.Store) -> None:
        """In pages; of one machine, with a status, active since a time."""
        await write(store, cell(b"b"), cell(b"a", status="parked"), lane="two")
        await write(store, cell(b"\xff"), cell(b""), lane="one")
        await write(store, cell(b"z"), lane="three", machine="other")
        every = p.CellQuery(TENANT, MACHINE)
        order = [("one", b""), ("one", b"\xff"), ("two", b"a"), ("two", b"b")]
        assert [(each.lane, each.key) for each in await store.find_cells(every, 9)] == order
        for at in range(4):
            page = await store.find_cells(every, 2, p.CellCursor(*order[at]))
            assert [(each.lane, each.key) for each in page] == order[at + 1 : at + 3]
        parked = msgspec.structs.replace(every, status="parked")
        assert [each.key for each in await store.find_cells(parked, 9)] == [b"a"]
        for since, count in ((NOW, 4), (NOW + 1, 0)):
            assert len(await store.find_cells(msgspec.structs.replace(every, active_since=since), 9)) == count
        assert await store.find_cells(p.CellQuery("bolt", MACHINE), 9) == []

    @on_fresh_store
    async def test_cells_are_counted_by_status(self, store: p.Store) -> None:
        """Of one machine of one tenant."""
        await write(store, cell(b"a"), cell(b"b"), cell(b"c", status="failed"))
        await write(store, cell(b"d"), lane="two", machine="other")
        assert await store.count_cells(TENANT, MACHINE) == {"running": 2, "failed": 1}
        assert await store.count_cells("bolt", MACHINE) == {}

    @on_fresh_store
    async def test_dead_letters_are_listed_by_their_place(self, store: p.Store) -> None:
        """As they were buried, page after page."""
        await write(store, dead=[letter(b"a"), letter(b"b", id="e-2")])
        await write(store, dead=[letter(b"c")])
        found = await store.dead_letters(TENANT, 9)
        assert [(each.place, each.value, each.id) for each in found] == [
            (("one", 2, 0), b"a", None),
            (("one", 2, 1), b"b", "e-2"),
            (("one", 3, 0), b"c", None),
        ]
        assert found[0][4:] == (MACHINE, "shop/Paid@1", b"a", b"o1", "nobody hears it", NOW, None)
        assert await store.dead_letters(TENANT, 1, found[0].place) == [found[1]]
        assert await store.dead_letters("bolt", 9) == []

    @on_fresh_store
    async def test_a_dead_letter_is_dropped_with_what_is_made_of_it(self, store: p.Store) -> None:
        """Once: a second act that drops it is refused, and makes and notes nothing."""
        await write(store, dead=[letter(b"a"), letter(b"b")])
        await begun(store, start("two"))
        assert await commit(store, _drop(1, "act 1", deliver("two", "again", id="m"))) == p.OperatedOn()
        assert [each.value for each in await store.dead_letters(TENANT, 9)] == [b"a"]
        assert await commit(store, _drop(1, "act 1", deliver("two", "again", id="m"))) == p.Repeated()
        assert await commit(store, _drop(1, "act 2", deliver("two", "more", id="n"))) == p.Fenced()
        assert await commit(store, _drop(0, "act 3", deliver("no", "more"))) == p.Unknown()
        assert [each.message.body for each in (await store.messages([key("two")]))[key("two")]] == [b"again"]
        assert len(await store.dead_letters(TENANT, 9)) == 1
        assert await bodies(store) == ["said"]

    @on_fresh_store
    async def test_of_many_that_drop_one_dead_letter_one_succeeds(self, store: p.Store) -> None:
        """Through several handles, and in one batch."""
        await write(store, dead=[letter(b"a"), letter(b"b")])
        async with handles(store) as shared:
            answers = await asyncio.gather(*(commit(shared[at % 3], _drop(0, f"act {at}")) for at in range(6)))
        assert sorted(type(answer).__name__ for answer in answers) == ["Fenced"] * 5 + ["OperatedOn"]
        assert await store.commit([_drop(1, "a"), _drop(1, "b")]) == [p.OperatedOn(), p.Fenced()]
