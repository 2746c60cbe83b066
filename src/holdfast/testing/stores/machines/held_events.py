"""What is held for cells: rows of their own, written with their lane's turn, read in bounded parts, and kept as marks
until a root has seen that they are held no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.testing.stores.machines.cell_roots import MACHINE, root
from holdfast.testing.stores.samples import COMPLETED, NOW, advanced, commit, key, leased, row, turn
from holdfast.testing.stores.topic import Topic, on_fresh_store

A: Final = b"a"
LARGE: Final = 1 << 30


def held(*events: bytes, first: int = 0, gone: Sequence[tuple[int, int]] = (), of: bytes = A) -> p.HeldChange:
    """These events are held for a cell, from a number on; those in the ranges are held no more."""
    return p.HeldChange(of, tuple(gone), tuple(enumerate(events, first)))


def put(run: p.Run, *changes: p.HeldChange) -> p.Advance:
    cells = tuple(p.CellChange(each.key, b"record", "parked", None, NOW) for each in changes)
    return replace(turn(run), attached=(p.PutCells(run.key, MACHINE, run.version, cells, (), changes),))


async def written(store: p.Store, *changes: p.HeldChange, lane: str = "one") -> p.Run:
    """The lane after a turn that changed this of what is held."""
    run = await row(store, lane) if await store.get([key(lane)]) else await leased(store, lane)
    await advanced(store, put(run, *changes))
    return await row(store, lane)


async def events(store: p.Store, first: int = 0, limit: int = 99, size_bytes: int = LARGE) -> list[tuple[int, bytes]]:
    return await store.held_events(key(), A, first, limit, size_bytes)


async def unrooted(store: p.Store, since: int = 0) -> list[tuple[bytes, int, bytes | None]]:
    found = await store.unrooted(key(), since)
    assert found is not None
    return sorted(found.held, key=lambda each: each[:2])


class HeldEventTopic(Topic):
    @on_fresh_store
    async def test_held_events_are_written_with_their_lanes_turn(self, store: p.Store) -> None:
        """By cell and number; a turn that is refused writes none."""
        await written(store, held(b"0", b"1\x00\xff"), held(b"other", of=b"b"))
        run = await written(store, held(b"2", first=2))
        assert await events(store) == [(0, b"0"), (1, b"1\x00\xff"), (2, b"2")]
        assert await commit(store, put(replace(run, epoch=run.epoch + 1), held(b"3", first=3))) == p.Fenced()
        assert len(await events(store)) == 3
        assert await store.held_events(key(), b"b", 0, 9, LARGE) == [(0, b"other")]
        assert await store.held_events(key("two"), A, 0, 9, LARGE) == []
        assert await store.held_events(key(tenant="bolt"), A, 0, 9, LARGE) == []

    @on_fresh_store
    async def test_held_events_are_read_in_parts(self, store: p.Store) -> None:
        """From a number on, at most so many, and none behind so many bytes; but one, however large."""
        await written(store, held(*(b"x" * 10 for _ in range(12))))
        assert [at for at, _ in await events(store, first=9)] == [9, 10, 11]
        assert [at for at, _ in await events(store, first=2, limit=3)] == [2, 3, 4]
        for size_bytes, count in ((1, 1), (10, 1), (11, 2), (20, 2), (21, 3)):
            assert [at for at, _ in await events(store, first=1, size_bytes=size_bytes)] == list(range(1, 1 + count))
        assert await events(store, first=12) == []

    @on_fresh_store
    async def test_what_is_held_no_more_is_not_read(self, store: p.Store) -> None:
        """By ranges; in one turn they go before others come, also under their numbers."""
        await written(store, held(*(b"%d" % at for at in range(6))))
        await written(store, held(gone=[(0, 2), (4, 5)]))
        assert await events(store) == [(2, b"2"), (3, b"3"), (5, b"5")]
        await written(store, held(b"new", gone=[(2, 6)]))
        assert await events(store) == [(0, b"new")]

    @on_fresh_store
    async def test_a_root_sees_what_is_held_and_what_is_held_no_more(self, store: p.Store) -> None:
        """What was written since a version; a mark ends with the root that has seen it, and no earlier."""
        run = await written(store, held(b"0", b"1", b"2"))
        assert await unrooted(store) == [(A, 0, b"0"), (A, 1, b"1"), (A, 2, b"2")]
        assert await commit(store, root(run)) == p.OperatedOn()
        seen = await written(store, held(gone=[(0, 1)]))
        await written(store, held(b"3", first=3, gone=[(1, 2)]))
        assert await unrooted(store, run.version) == [(A, 0, None), (A, 1, None), (A, 3, b"3")]
        assert await commit(store, root(seen, after=run.version)) == p.OperatedOn()
        assert await unrooted(store) == [(A, 1, None), (A, 2, b"2"), (A, 3, b"3")]
        assert await store.unrooted(key("no"), 0) is None

    @on_fresh_store
    async def test_many_turns_write_what_they_hold_in_one_batch(self, store: p.Store) -> None:
        """Each its own."""
        names = [f"run-{number}" for number in range(5)]
        turns = [put(await leased(store, name), held(name.encode(), b"1")) for name in names]
        assert [type(answer) for answer in await store.commit(turns)] == [p.Advanced] * 5
        turns = [put(await row(store, name), held(b"2", first=2, gone=[(0, 1)])) for name in names]
        assert [type(answer) for answer in await store.commit(turns)] == [p.Advanced] * 5
        for name in names:
            assert await store.held_events(key(name), A, 0, 9, LARGE) == [(1, b"1"), (2, b"2")]

    @on_fresh_store
    async def test_held_events_are_deleted_with_their_lane(self, store: p.Store) -> None:
        """And marks with them: a lane of the same name begins with none."""
        run = await written(store, held(b"0", b"1", gone=[]))
        run = await written(store, held(gone=[(0, 1)]))
        await advanced(store, turn(run, COMPLETED))
        assert await store.prune(NOW + 1, 10) == 1
        assert await events(store) == []
        await leased(store)
        assert await unrooted(store) == []
